"""Scores of listed pairs, in the three forms that the edge kernel computes, each with its gradient."""

from collections.abc import Callable, Iterator
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn import functional as F

from headwise.attention.call import Call
from headwise.attention.kernels._edges_graph import Graph, PerPair
from headwise.attention.masks import Pairs
from headwise.attention.scores import GAT, Additive
from headwise.attention.scores.score import times
from headwise.errors import Unsupported

Parts = tuple[Tensor, ...]
# (heads, pairs, dim) of queries, of keys, and the parameters, to (heads, pairs)
PairScore = Callable[..., Tensor]

# numbers of a score that exist at once where it must make some for each pair
_AT_ONCE = 1 << 20


@runtime_checkable
class Form(Protocol):
    """How scores follow from parts: tensors whose third axis is the query, the key or the pair."""

    def scores(self, graph: Graph, parts: Parts) -> PerPair:
        """One number for each pair, in memory of its own."""

    def gradient(self, graph: Graph, parts: Parts, scores: PerPair, d_scores: PerPair) -> Parts:
        """The gradient of each part; `d_scores` may be overwritten."""


def form(call: Call, pairs: Pairs) -> tuple[Form, Parts]:
    """The form of the scores of a call, and its parts."""
    query, key = wide(call.query), wide(call.key)
    as_dot = call.score.as_dot(query, key)
    if as_dot is not None:
        return Product(as_dot[2] * call.scale), as_dot[:2]
    score = call.score
    # a positive scale may as well multiply the numbers inside
    if type(score) is GAT and call.scale > 0:
        return LeakySum(score.slope), _node_numbers(score, query, key, call)
    if type(score) is Additive:
        # projected once a node, not once a pair
        query, key = times(score.query, query), times(score.key, key)
        table = _listed(_tanh_sum, query.shape[-1], pairs, query, key, score.value.weight)
    else:
        width = score.pair_width(query)
        table = _listed(lambda one, two, *_: score.pairs(one, two), width, pairs, query, key, *score.parameters())
    return Listed(call.scale), (table,)


def wide(tensor: Tensor) -> Tensor:
    """The tensor in float32 if it is narrower."""
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor


class Product:
    """scale * query . key."""

    def __init__(self, scale: float):
        self.scale = scale

    def scores(self, graph: Graph, parts: Parts) -> PerPair:
        return graph.products(*parts).mul_(self.scale)

    def gradient(self, graph: Graph, parts: Parts, scores: PerPair, d_scores: PerPair) -> Parts:
        d_scores.mul_(self.scale)
        return graph.by_row(d_scores, parts[1]), graph.by_column(d_scores, parts[0])


class LeakySum:
    """leaky_relu(query + key) of one number for each query and each key; a scale belongs into the numbers."""

    def __init__(self, slope: float):
        self.slope = slope

    def scores(self, graph: Graph, parts: Parts) -> PerPair:
        total = parts[0].index_select(0, graph.row).add_(parts[1].index_select(0, graph.column))
        return F.leaky_relu_(total, self.slope)

    def gradient(self, graph: Graph, parts: Parts, scores: PerPair, d_scores: PerPair) -> Parts:
        # the score has the sign of the sum
        d_total = torch.ops.aten.leaky_relu_backward(d_scores, scores, self.slope, True)
        return graph.row_sums(d_total), graph.column_sums(d_total)


class Listed:
    """scale * scores that were computed before for every candidate pair."""

    def __init__(self, scale: float):
        self.scale = scale

    def scores(self, graph: Graph, parts: Parts) -> PerPair:
        chosen = parts[0] if graph.chosen is None else parts[0].index_select(0, graph.chosen)
        return chosen * self.scale

    def gradient(self, graph: Graph, parts: Parts, scores: PerPair, d_scores: PerPair) -> Parts:
        d_scores.mul_(self.scale)
        if graph.chosen is None:
            return (d_scores,)
        return (torch.zeros_like(parts[0]).index_copy_(0, graph.chosen, d_scores),)


def _node_numbers(score: GAT, query: Tensor, key: Tensor, call: Call) -> Parts:
    """a_q . q and a_k . k of every head, by one product with a matrix that has a block for each head."""
    key = key.repeat_interleave(call.group, dim=1) if call.group > 1 else key
    numbers = []
    for tensor, along in ((query, score.query * call.scale), (key, score.key)):
        blocks = torch.block_diag(*along.to(tensor.dtype))
        numbers.append(F.linear(tensor.transpose(1, 2).flatten(2), blocks).transpose(1, 2))
    return tuple(numbers)


def _tanh_sum(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return F.linear(torch.tanh(query + key), value.to(query.dtype)).squeeze(-1)


def _listed(score: PairScore, width: int, pairs: Pairs, *tensors: Tensor) -> Tensor:
    table: Tensor = _Pairwise.apply(score, width, pairs, *tensors)
    return table


class _Pairwise(torch.autograd.Function):
    """The score of every candidate pair of every sequence and head; in chunks, computed again for the gradient."""

    @staticmethod
    def forward(ctx, score, width, pairs, query, key, *parameters):
        ctx.score, ctx.width, ctx.pairs = score, width, pairs
        ctx.save_for_backward(query, key, *parameters)
        table = query.new_empty(*query.shape[:2], pairs.query.numel())
        for batch, at, one, two in _gathered(width, pairs, query, key):
            table[batch, :, at] = score(one, two, *parameters)
        return table

    @staticmethod
    def backward(ctx, gradient):
        if torch.is_grad_enabled():
            raise Unsupported("kernel 'edges' has no second derivative; use kernel='plain'")
        query, key, *parameters = ctx.saved_tensors
        learning = [tensor for tensor in parameters if tensor.requires_grad]
        # nodes first: whole rows are added
        d_query, d_key = (x.new_zeros(len(x), x.shape[2], x.shape[1], x.shape[3]) for x in (query, key))
        sums = [torch.zeros_like(tensor) for tensor in learning]
        for batch, at, one, two in _gathered(ctx.width, ctx.pairs, query, key):
            with torch.enable_grad():
                inputs = (one.requires_grad_(), two.requires_grad_(), *learning)
                scores = ctx.score(one, two, *parameters)
            found = torch.autograd.grad(scores, inputs, gradient[batch, :, at], materialize_grads=True)
            d_query[batch].index_add_(0, ctx.pairs.query[at], found[0].transpose(0, 1))
            shared = found[1].unflatten(0, (key.shape[1], -1)).sum(1)
            d_key[batch].index_add_(0, ctx.pairs.key[at], shared.transpose(0, 1))
            for total, part in zip(sums, found[2:], strict=True):
                total += part
        by_place = iter(sums)
        d_parameters = (next(by_place) if tensor.requires_grad else None for tensor in parameters)
        return None, None, None, d_query.transpose(1, 2), d_key.transpose(1, 2), *d_parameters


def _gathered(width: int, pairs: Pairs, query: Tensor, key: Tensor) -> Iterator[tuple[int, slice, Tensor, Tensor]]:
    """(sequence, slice of the pairs, their queries, their keys) for each chunk."""
    heads, group = query.shape[1], query.shape[1] // key.shape[1]
    step = max(1, _AT_ONCE // (heads * max(1, width)))
    for batch in range(query.shape[0]):
        # nodes first: a row holds all heads
        queries, keys = (x[batch].transpose(0, 1).contiguous() for x in (query, key))
        for first in range(0, pairs.query.numel(), step):
            at = slice(first, first + step)
            one = queries.index_select(0, pairs.query[at]).transpose(0, 1)
            two = keys.index_select(0, pairs.key[at]).transpose(0, 1).repeat_interleave(group, 0)
            yield batch, at, one, two
