"""The definition, written out: any score, normalizer, mask, bias, dtype and device; the specification of the others."""

import math

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from headwise.attention.call import Call, wide
from headwise.attention.scores import Score


def refusal(call: Call) -> str | None:
    """None: the definition computes every call."""
    return None


def terms(call: Call) -> dict[str, float]:
    """Amounts of work: two products and some ten passes over the materialised scores."""
    pairs = float(math.prod(call.shape))
    width = call.score.pair_width(call.query)
    hidden = 0.0 if type(call.score).as_dot is not Score.as_dot else pairs * width
    batch, heads, query_len, key_len = call.shape
    products = pairs * (width + call.value.shape[-1])
    # products with one row are as slow as keys and values are read, and each head is a product of its own
    alone = float(batch * heads * key_len * (width + call.value.shape[-1])) if query_len == 1 else 0.0
    masked = pairs if call.mask is not None or call.bias is not None else 0.0
    found = {"calls": 1.0, "products": products, "hidden": hidden, "read": alone, "items": float(batch * heads)}
    found |= {"masked pairs": masked, "dropped pairs": pairs if call.dropout else 0.0}
    found |= {"far pairs": max(0.0, pairs - 4e6), "related pairs": 0.0 if call.relative is None else pairs}
    return {**found, call.normalizer.work: pairs}


def weights(call: Call) -> Float[Tensor, "batch heads query_len key_len"]:
    """The attention weights before dropout, in float32 or wider; exactly 0 where the mask forbids the pair.

    A bias of minus infinity forbids a pair too. Half-precision scores are computed in float32: rounded to bfloat16
    they would be wrong by whole units when large.
    """
    query, key = wide(call.query), wide(_per_head(call.key, call.group))
    scores = call.score(query, key)
    if call.scale != 1.0:
        scores = scores * call.scale
    prepared = call.prepared()
    keep = None if prepared is None else prepared.keep
    if call.bias is not None:
        allowed = call.bias != float("-inf")
        keep = allowed if keep is None else keep & allowed
        scores = scores + call.bias.to(scores.dtype)
    if call.relative is not None and call.relative.has_bias():
        scores = scores + call.relative.bias(0, *call.shape[2:], call.query_start).to(scores.dtype)
    return call.normalizer(scores, keep)


def compute(call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
    """The output of the call."""
    value = wide(_per_head(call.value, call.group))
    used = F.dropout(weights(call), call.dropout, training=call.dropout > 0.0)
    output = used @ value
    if call.relative is not None and call.relative.value_table is not None:
        output = output + call.relative.values(used, 0, call.query_start)
    return output.to(call.value.dtype)


def _per_head(tensor: Tensor, group: int) -> Tensor:
    return tensor if group == 1 else tensor.repeat_interleave(group, dim=1)
