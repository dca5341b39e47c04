"""Attention of blocks of queries over their bands of keys, forward and backward, piece by piece."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.dropout import draw, kept_scale
from headwise.attention.kernels._banded_layout import Layout, Piece
from headwise.attention.normalizers import Normalizer
from headwise.errors import Unsupported

_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


@dataclass(frozen=True, slots=True)
class Plan:
    """What is common to all pieces; `normalizer` is None where the flash operator computes them."""

    layout: Layout
    pieces: list[Piece]
    normalizer: Normalizer | None
    scale: float
    dropout: float


def banded(
    query: Float[Tensor, "heads query_len width"],
    key: Float[Tensor, "heads key_len width"],
    value: Float[Tensor, "heads key_len value_dim"],
    plan: Plan,
) -> Float[Tensor, "heads query_len value_dim"]:
    """The outputs, with gradients."""
    output: Tensor = _Banded.apply(query, key, value, plan)
    return output


class _Banded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value, plan):
        layout = plan.layout
        key, value = layout.padded(key), layout.padded(value)
        output = query.new_empty(*query.shape[:2], value.shape[-1])
        # logsumexps of the flash operator, or what dropout kept
        notes = []
        run = _flash_forward if plan.normalizer is None else _products_forward
        for piece in plan.pieces:
            q, k, v = _tensors(layout, piece, query, key, value)
            part, note = run(plan, piece, q, k, v)
            if piece.empty is not None:
                part = part.masked_fill(piece.empty, 0.0)
            layout.queries(output, piece).copy_(part)
            notes.append(note)
        ctx.plan = plan
        ctx.save_for_backward(query, key, value, output, *notes)
        return output

    @staticmethod
    def backward(ctx, gradient):
        if torch.is_grad_enabled():
            raise Unsupported("kernel 'banded' has no second derivative; use kernel='plain'")
        query, key, value, output, *notes = ctx.saved_tensors
        plan, layout = ctx.plan, ctx.plan.layout
        d_query, d_key, d_value = torch.empty_like(query), torch.zeros_like(key), torch.zeros_like(value)
        run = _flash_gradients if plan.normalizer is None else _products_gradients
        for piece, note in zip(plan.pieces, notes, strict=True):
            q, k, v = _tensors(layout, piece, query, key, value)
            d_out = layout.queries(gradient, piece)
            if piece.empty is not None:
                d_out = d_out.masked_fill(piece.empty, 0.0)
            dq, dk, dv = run(plan, piece, (q, k, v), layout.queries(output, piece), d_out, note)
            layout.queries(d_query, piece).copy_(dq)
            layout.add_keys(d_key, piece, dk)
            layout.add_keys(d_value, piece, dv)
        return d_query, layout.unpadded(d_key), layout.unpadded(d_value), None


def _tensors(layout: Layout, piece: Piece, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    q = layout.queries(query, piece)
    if piece.empty is not None:
        # scores of a row that is zeroed afterwards must be finite: as NaN they would reach the gradient of the keys
        q = q.masked_fill(piece.empty, 0.0)
    return q, layout.keys(key, piece), layout.keys(value, piece)


def _bias(piece: Piece, dtype: torch.dtype) -> Tensor:
    # a row without a key gets finite scores; it is zeroed afterwards
    hidden = ~piece.keep if piece.empty is None else ~(piece.keep | piece.empty)
    return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, float("-inf"))


def _flash_forward(plan, piece, q, k, v):
    return _flash(q, k, v, attn_mask=_bias(piece, q.dtype), scale=plan.scale)


def _flash_gradients(plan, piece, tensors, output, d_out, logsumexp):
    bias = _bias(piece, d_out.dtype)
    return _flash_backward(d_out, *tensors, output, logsumexp, 0.0, False, attn_mask=bias, scale=plan.scale)


def _wide(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype == torch.bfloat16 else tensor


def _weights(plan, piece, q, k):
    scores = (_wide(q) @ _wide(k).mT).mul_(plan.scale)
    keep = piece.keep.expand(*piece.keep.shape[:-1], scores.shape[-1])
    count = keep.sum(-1, keepdim=True, dtype=scores.dtype)
    return plan.normalizer.strip(scores.masked_fill_(~keep, float("-inf")), count), count


def _products_forward(plan, piece, q, k, v):
    weights, _ = _weights(plan, piece, q, k)
    kept = draw(weights.shape, plan.dropout, weights.device) if plan.dropout else None
    if kept is not None:
        weights.mul_(kept).mul_(kept_scale(plan.dropout))
    return weights.to(v.dtype) @ v, kept


def _products_gradients(plan, piece, tensors, output, d_out, kept):
    q, k, v = tensors
    weights, count = _weights(plan, piece, q, k)
    d_weights, used = (d_out @ v.mT).to(weights.dtype), weights
    if kept is not None:
        scale = kept_scale(plan.dropout)
        d_weights.mul_(kept).mul_(scale)
        used = (weights * kept).mul_(scale)
    d_value = used.to(v.dtype).mT @ d_out
    d_scores = plan.normalizer.strip_gradient(weights, d_weights, count).mul_(plan.scale)
    return d_scores @ _wide(k), d_scores.mT @ _wide(q), d_value
