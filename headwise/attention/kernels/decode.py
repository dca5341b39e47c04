"""One query a sequence, without gradients: the heads of a group are rows of one product, so that keys are read once.

Scores are float32 whatever the inputs are: keys in bfloat16 are widened a cache's worth at a time.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.call import Call
from headwise.attention.normalizers import Softmax
from headwise.attention.scores import Score

# numbers of keys that are widened at a time
_CACHED = 2**20


def refusal(call: Call) -> str | None:
    """Why this kernel cannot compute the call exactly, or None."""
    if call.query.shape[2] != 1:
        return f"it takes one query a sequence, not {call.query.shape[2]}"
    if type(call.score).as_dot is Score.as_dot:
        return f"its score is a dot product, not {type(call.score).__name__}"
    if call.learns or call.dropout > 0.0:
        return "it has no gradients and no dropout"
    if 0 in call.query.shape or 0 in call.key.shape or 0 in call.value.shape:
        return "an axis is empty"
    if call.query.dtype == torch.float16:
        return "half-precision products are slow here"
    return None


def terms(call: Call) -> dict[str, float]:
    """Amounts of work: numbers of keys and values that are read, and of keys that are widened first."""
    batch, heads, _, key_len = call.shape
    keys, values = float(call.key.numel()), float(call.value.numel())
    widened = keys if call.query.dtype == torch.bfloat16 else 0.0
    return {
        "calls": 1.0,
        "read": keys + values,
        "widened": widened,
        call.normalizer.work: float(batch * heads * key_len),
    }


def spares(call: Call) -> bool:
    """Whether no table of all pairs is kept: none is."""
    return True


def keeps(call: Call) -> str:
    """What is in memory besides keys and values."""
    return f"the scores of one query a head ({math.prod(call.shape) * 4:,} bytes)"


def compute(call: Call) -> Float[Tensor, "batch heads 1 value_dim"]:
    """The output of the call."""
    batch, heads, _, key_len = call.shape
    scores = _scores(call).view(batch, heads, 1, key_len)
    weights = _weights(call, scores)
    value = call.value.flatten(0, 1)
    output = torch.bmm(weights.view(value.shape[0], -1, key_len).to(value.dtype), value).view(batch, heads, 1, -1)
    if call.relative is not None and call.relative.value_table is not None:
        output = output + call.relative.values(weights, 0, call.query_start).to(output.dtype)
    return output


def _scores(call: Call) -> Tensor:
    as_dot = call.score.as_dot(call.query, call.key)
    assert as_dot is not None
    query, key, scale = as_dot
    key = key.flatten(0, 1)
    query = query.reshape(key.shape[0], -1, query.shape[-1])
    step = key.shape[0]
    if key.dtype == torch.bfloat16:
        query, step = query.float(), max(1, _CACHED // (key.shape[1] * key.shape[2]))
    if step >= key.shape[0]:
        key = key.to(query.dtype)
        return torch.baddbmm(query.new_empty(()), query, key.mT, beta=0, alpha=scale * call.scale)
    scores = query.new_empty(key.shape[0], query.shape[1], key.shape[1])
    for first in range(0, key.shape[0], step):
        part = slice(first, first + step)
        torch.bmm(query[part], key[part].float().mT, out=scores[part])
    return scores.mul_(scale * call.scale)


def _weights(call: Call, scores: Tensor) -> Tensor:
    prepared = call.prepared()
    if isinstance(call.normalizer, Softmax) and call.bias is None and call.relative is None:
        if prepared is None:
            return scores.softmax(-1)
        weights = scores.add_(prepared.bias).softmax(-1)
        return weights if prepared.empty is None else weights.masked_fill_(prepared.empty, 0.0)
    keep = None if prepared is None else prepared.keep
    if call.bias is not None:
        allowed = call.bias != float("-inf")
        keep = allowed if keep is None else keep & allowed
        scores = scores + call.bias
    if call.relative is not None and call.relative.has_bias():
        scores = scores + call.relative.bias(0, 1, scores.shape[-1], call.query_start).to(scores.dtype)
    return call.normalizer(scores, keep)
