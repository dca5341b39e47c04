"""Graphs: only the listed pairs are computed, in segments by query; time and memory are linear in the edges.

Takes masks that are given by a list of pairs (a graph, alone or combined with other masks), any score, and any
normalizer that works on rows. Scores and weights exist for one head at a time and are computed again for the gradient.
"""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.call import Call
from headwise.attention.dropout import draw, kept_scale
from headwise.attention.kernels import _edges_rows as rows
from headwise.attention.kernels._edges_graph import Graph, Graphs, graphs
from headwise.attention.kernels._edges_scores import form, wide
from headwise.attention.scores import Score
from headwise.errors import Unsupported


def refusal(call: Call) -> str | None:
    """Why this kernel cannot compute the call exactly, or None."""
    if graphs(call) is None:
        return "its mask is a list of pairs, as a graph is"
    if call.bias is not None or call.relative is not None:
        return "it reads no table over all pairs, as a bias or relative positions are"
    if not call.normalizer.has_strips():
        return f"its normalizer has a gradient by rows, which {call.normalizer.name} has not"
    if 0 in call.query.shape or 0 in call.key.shape or 0 in call.value.shape:
        return "an axis is empty"
    return None


def terms(call: Call) -> dict[str, float]:
    """Amounts of work: all of it is in the edges, but for a few numbers a node."""
    found = graphs(call)
    assert found is not None
    batch, heads, query_len, key_len = call.shape
    pairs = float(batch * heads * found.pairs.query.numel())
    width = call.score.pair_width(call.query)
    return {
        "calls": 1.0,
        call.normalizer.work: pairs,
        "products": pairs * (width + call.value.shape[-1]),
        "hidden": 0.0 if type(call.score).as_dot is not Score.as_dot else pairs * width,
        "rows": float(batch * heads * (query_len + key_len)),
    }


def spares(call: Call) -> bool:
    """Whether no table of all pairs is kept: none is."""
    return True


def keeps(call: Call) -> str:
    """What is kept for the gradient."""
    found = graphs(call)
    assert found is not None
    return f"the weights of one head at a time, of {found.pairs.query.numel():,} edges"


def compute(call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
    """The output of the call."""
    found = graphs(call)
    assert found is not None
    score_form, parts = form(call, found.pairs)
    options = (found, score_form, call.normalizer, call.dropout)
    output: Tensor = _Attention.apply(options, wide(call.value), *parts)
    return output.to(call.value.dtype)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, options, value, *parts):
        found, score_form, normalizer, dropout = options
        output = _blank(value, (*found.shape[:3], value.shape[-1]))
        ctx.save_for_backward(value, *parts)
        ctx.options, ctx.kept = options, []
        for items in _chunks(found):
            scores = score_form.scores(items.graph, tuple(items.taken(part) for part in parts))
            weights, stats = rows.weights(items.graph, normalizer, scores)
            kept = None
            if dropout:
                kept = draw(weights.shape, dropout, weights.device)
                weights = (weights * kept).mul_(kept_scale(dropout))
            items.given(output, items.graph.by_row(weights, items.taken(value)))
            ctx.kept.append((stats, kept))
        return output

    @staticmethod
    def backward(ctx, gradient):
        if torch.is_grad_enabled():
            # it would be taken as if the parts were constants
            raise Unsupported("kernel 'edges' has no second derivative; use kernel='plain'")
        value, *parts = ctx.saved_tensors
        found, score_form, normalizer, dropout = ctx.options
        d_value, *d_parts = (_blank(tensor, tuple(tensor.shape)) for tensor in (value, *parts))
        for tensor in (d_value, *d_parts):
            if tensor.shape[1] != found.shape[1]:
                # shared heads are sums
                tensor.zero_()
        for items, (stats, kept) in zip(_chunks(found), ctx.kept, strict=True):
            graph, taken = items.graph, tuple(items.taken(part) for part in parts)
            scores = score_form.scores(graph, taken)
            weights, _ = rows.weights(graph, normalizer, scores, stats)
            d_output = items.taken(gradient)
            d_weights = graph.products(d_output, items.taken(value))
            used = weights
            if kept is not None:
                used = (weights * kept).mul_(kept_scale(dropout))
                d_weights = (d_weights * kept).mul_(kept_scale(dropout))
            items.given(d_value, graph.by_column(used, d_output))
            d_scores = rows.gradient(graph, normalizer, weights, d_weights)
            for total, part in zip(d_parts, score_form.gradient(graph, taken, scores, d_scores), strict=True):
                items.given(total, part)
        return None, d_value, *d_parts


class _Items:
    """Some pairs of sequence and head, as one graph, and their parts of tensors (batch, heads, length, ...)."""

    def __init__(self, found: Graphs, first: int, last: int):
        self.graph: Graph = found.items(first, last)
        self.first, self.last, self.all = first, last, found.shape[0] * found.shape[1]

    def taken(self, tensor: Tensor) -> Tensor:
        """The part of the tensor as one axis of contiguous rows; shared heads are repeated."""
        flat = tensor.flatten(0, 1)
        part = flat[self.first : self.last] if len(flat) == self.all else flat.index_select(0, self._shared(flat))
        return part.flatten(0, 1).contiguous()

    def given(self, tensor: Tensor, part: Tensor) -> None:
        """Writes what `taken` would take from the tensor; shared heads are added to."""
        flat = tensor.flatten(0, 1)
        part = part.view(self.last - self.first, *flat.shape[1:])
        if len(flat) == self.all:
            flat[self.first : self.last] = part
        else:
            flat.index_add_(0, self._shared(flat), part)

    def _shared(self, flat: Tensor) -> Tensor:
        return torch.arange(self.first, self.last, device=flat.device) // (self.all // len(flat))


def _chunks(found: Graphs) -> Iterator[_Items]:
    items = found.shape[0] * found.shape[1]
    for first in range(0, items, found.step):
        yield _Items(found, first, min(first + found.step, items))


def _blank(like: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A tensor (batch, heads, length, ...) in the order of `like` in memory, so that joining heads copies nothing."""
    batch, heads, length, *rest = shape
    # of several sequences in that order, heads could not be joined with the batch without a copy
    if batch == 1 and like.stride(1) < like.stride(2):
        return like.new_empty(batch, length, heads, *rest).transpose(1, 2)
    return like.new_empty(shape)
