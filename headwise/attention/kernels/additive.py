"""Additive scores v . tanh(W_q q + W_k k) in cached blocks or compiled loops, without (query, key, hidden) numbers.

Keeps one score per pair where the definition keeps `hidden` numbers. Scores and weights are float32 or wider.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from headwise.attention.call import Call
from headwise.attention.dropout import draw, kept_scale
from headwise.attention.kernels._additive_scores import compiles, pair_scores
from headwise.attention.kernels._products import linear, product
from headwise.attention.scores import Additive
from headwise.errors import Unsupported


def refusal(call: Call) -> str | None:
    """Why this kernel cannot compute the call exactly, or None."""
    if type(call.score) is not Additive:
        return f"its score is Additive, not {type(call.score).__name__}"
    if call.relative is not None:
        return "it has no relative positions"
    if call.query.dtype == torch.float16:
        return "half-precision products are slow here"
    if 0 in call.query.shape or 0 in call.key.shape or 0 in call.value.shape:
        return "an axis is empty"
    if call.query.device.type != "cpu" or torch.compiler.is_compiling():
        return "it looks at values, for which an accelerator or a compiled model would wait"
    return None


def terms(call: Call) -> dict[str, float]:
    """Amounts of work: numbers inside tanh, compiled or not, passes over the scores, exponentials of tokens."""
    batch, heads, query_len, key_len = call.shape
    pairs, hidden = float(math.prod(call.shape)), call.score.pair_width(call.query)
    tokens = float(batch * (heads * query_len + call.key.shape[1] * key_len))
    several = call.group * query_len > 1
    numbers = "compiled" if several and compiles(int(pairs * hidden), call.query.dtype) else "hidden"
    products = pairs * call.value.shape[-1] + tokens * hidden * call.query.shape[-1]
    return {
        "calls": 1.0,
        numbers: pairs * hidden,
        call.normalizer.work: pairs,
        "tokens": tokens * hidden,
        "products": products,
    }


def keeps(call: Call) -> str:
    """What is kept for the gradient."""
    shown = ", ".join(map(str, call.shape))
    return f"scores and weights ({shown}), {math.prod(call.shape) * 8:,} bytes, no features"


def compute(call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
    """The output of the call."""
    scores, keep = _scores(call), _keep(call)
    if call.bias is not None:
        scores = scores + call.bias.to(scores.dtype)
    if call.normalizer.has_strips():
        output: Tensor = _Weighted.apply(scores, call.value, keep, call.normalizer, call.dropout)
        return output
    weights = F.dropout(call.normalizer(scores, keep), call.dropout, training=call.dropout > 0.0)
    return _folded(weights, call.value).to(call.value.dtype).bmm(_flat(call.value)).view(*call.shape[:3], -1)


def _scores(call: Call) -> Tensor:
    assert isinstance(call.score, Additive)
    # projected in float32, as the definition does
    query, key = (x.float() if x.dtype == torch.bfloat16 else x for x in (call.query, call.key))
    projections = ((query, call.score.query), (key, call.score.key))
    query, key = (linear(x, layer.weight.to(x.dtype)) for x, layer in projections)
    value = call.score.value.weight[0].to(query.dtype) * call.scale
    # the query heads of a group become rows of their key head
    return pair_scores(_folded(query, key), _flat(key), value).view(call.shape)


def _keep(call: Call) -> Tensor | None:
    prepared = call.prepared()
    keep = None if prepared is None else prepared.keep
    if call.bias is None:
        return keep
    allowed = call.bias != float("-inf")
    return allowed if keep is None else keep & allowed


def _flat(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1, *tensor.shape[2:])


def _folded(tensor: Tensor, like: Tensor) -> Tensor:
    return tensor.reshape(like.shape[0] * like.shape[1], -1, tensor.shape[-1])


class _Weighted(torch.autograd.Function):
    """The value product of normalized scores, which it overwrites: nobody else holds them."""

    @staticmethod
    def forward(ctx, scores, value, keep, normalizer, dropout):
        if keep is None:
            count = scores.new_full((1, 1, 1, 1), scores.shape[-1])
        else:
            scores.masked_fill_(~keep, float("-inf"))
            count = keep.expand(*keep.shape[:-1], scores.shape[-1]).sum(-1, keepdim=True, dtype=scores.dtype)
        weights = normalizer.strip(scores, count)
        kept = draw(weights.shape, dropout, weights.device) if dropout else None
        ctx.save_for_backward(weights, value, count, kept)
        ctx.normalizer, ctx.dropout = normalizer, dropout
        used = weights if kept is None else (weights * kept).mul_(kept_scale(dropout))
        return product(_folded(used, value).to(value.dtype), _flat(value)).view(*scores.shape[:3], -1)

    @staticmethod
    def backward(ctx, gradient):
        if torch.is_grad_enabled():
            raise Unsupported("kernel 'additive' has no second derivative; use kernel='plain'")
        weights, value, count, kept = ctx.saved_tensors
        gradient = _folded(gradient, value)
        d_weights = product(gradient, _flat(value).mT).to(weights.dtype).view(weights.shape)
        used = weights
        if kept is not None:
            scale = kept_scale(ctx.dropout)
            used = (weights * kept).mul_(scale)
            d_weights.mul_(kept).mul_(scale)
        d_value = product(gradient.mT, _folded(used, value).to(value.dtype)).mT.reshape(value.shape)
        return ctx.normalizer.strip_gradient(weights, d_weights, count), d_value, None, None, None
