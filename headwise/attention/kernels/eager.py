"""Two batched products and a softmax with a gradient written by hand: the fast way at the lengths of sentences.

Beats SDPA on a CPU when rows are short, when weights are dropped out and in bfloat16, where SDPA's inner products are
slow. Keeps one weight per pair for the gradient. Scores and softmax are float32 whatever the inputs are.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.call import Call
from headwise.attention.dropout import draw, kept_scale
from headwise.attention.kernels import fused
from headwise.errors import Unsupported


def refusal(call: Call) -> str | None:
    """Why this kernel cannot compute the call exactly, or None."""
    why = fused.refusal(call)
    if why is not None:
        return why
    if call.bias is not None and call.bias.requires_grad:
        return "its gradient has no part for a bias that learns"
    if call.query.dtype == torch.float16:
        return "half-precision products are slow here"
    return None


def terms(call: Call) -> dict[str, float]:
    """Amounts of work: two products and passes over the scores, which cost more once they leave the cache."""
    pairs = float(math.prod(call.shape))
    products = pairs * (call.query.shape[-1] + call.value.shape[-1])
    found = {"calls": 1.0, "products": products, "pairs": pairs, "far pairs": max(0.0, pairs - 4e6)}
    found |= {
        "read": float(call.key.numel() + call.value.numel()),
        "items": float(call.key.shape[0] * call.key.shape[1]),
    }
    masked = call.mask is not None or call.bias is not None
    return found | {"masked pairs": pairs if masked else 0.0, "dropped pairs": pairs if call.dropout else 0.0}


def compute(call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
    """The output of the call."""
    as_dot = call.score.as_dot(call.query, call.key)
    assert as_dot is not None
    query, key, scale = as_dot
    prepared = call.prepared()
    bias = call.bias
    if prepared is not None:
        bias = prepared.bias if bias is None else prepared.bias + bias
    empty = None if prepared is None else prepared.empty
    arguments = (query, key, call.value, bias, empty, scale * call.scale, call.dropout)
    output: Tensor = _Products.apply(*arguments) if call.learns else _forward(*arguments)[0]
    return output


Saved = tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]


def _forward(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, empty: Tensor | None, scale: float, dropout: float
) -> tuple[Tensor, Saved]:
    batch, heads, query_len, _ = query.shape
    kv_heads, key_len = key.shape[1:3]
    # the query heads of a group become rows of their key head, so nothing is repeated
    rows = heads // kv_heads * query_len
    q = _product_dtype(query).reshape(batch * kv_heads, rows, -1)
    k = _product_dtype(key).reshape(batch * kv_heads, key_len, -1)
    v = value.reshape(batch * kv_heads, key_len, -1)
    scores = torch.baddbmm(q.new_empty(()), q, k.mT, beta=0, alpha=scale)
    if bias is not None:
        scores.view(batch, heads, query_len, key_len).add_(bias)
    weights = torch.softmax(scores, -1)
    if empty is not None:
        weights.view(batch, heads, query_len, key_len).masked_fill_(empty, 0.0)
    kept = draw(weights.shape, dropout, weights.device) if dropout else None
    used = weights if kept is None else (weights * kept).mul_(kept_scale(dropout))
    output = torch.bmm(used.to(v.dtype), v)
    return output.view(batch, heads, query_len, -1), (q, k, v, weights, kept)


def _product_dtype(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype == torch.bfloat16 else tensor


class _Products(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value, bias, empty, scale, dropout):
        output, saved = _forward(query, key, value, bias, empty, scale, dropout)
        ctx.save_for_backward(*saved)
        ctx.scale, ctx.dropout, ctx.query_dtype = scale, dropout, query.dtype
        ctx.query_shape, ctx.key_shape = query.shape, key.shape
        return output

    @staticmethod
    def backward(ctx, gradient):
        if torch.is_grad_enabled():
            # it would be taken as if the saved weights were constants
            raise Unsupported("kernel 'eager' has no second derivative; use kernel='plain'")
        q, k, v, weights, kept = ctx.saved_tensors
        gradient = gradient.reshape(*q.shape[:2], -1)
        d_used = torch.bmm(gradient, v.mT)
        used = weights
        if kept is not None:
            scale = kept_scale(ctx.dropout)
            used = (weights * kept).mul_(scale)
            d_used = (d_used.to(weights.dtype) * kept).mul_(scale)
        d_value = torch.bmm(used.to(v.dtype).mT, gradient)
        d_scores = torch._softmax_backward_data(d_used.to(weights.dtype), weights, -1, weights.dtype)
        d_query = torch.baddbmm(q.new_empty(()), d_scores, k, beta=0, alpha=ctx.scale)
        d_key = torch.baddbmm(q.new_empty(()), d_scores.mT, q, beta=0, alpha=ctx.scale)
        d_query = d_query.to(ctx.query_dtype).view(ctx.query_shape)
        d_key = d_key.to(ctx.query_dtype).view(ctx.key_shape)
        return d_query, d_key, d_value.view(*ctx.key_shape[:3], -1), None, None, None, None
