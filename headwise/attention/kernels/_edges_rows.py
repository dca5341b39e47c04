"""Scores to weights in segments of unequal length, and the gradient from the weights."""

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.kernels._edges_graph import Graph, PerPair
from headwise.attention.normalizers import Normalizer, Softmax

# what the backward pass needs besides the scores; nothing for normalizers that are cheap to repeat
Stats = tuple[Float[Tensor, "rows"], ...]


def weights(graph: Graph, normalizer: Normalizer, scores: PerPair, stats: Stats = ()) -> tuple[PerPair, Stats]:
    """Weights, and statistics with which they are found faster the next time."""
    if isinstance(normalizer, Softmax):
        return _softmax(graph, scores, stats)
    found = torch.empty_like(scores)
    for places, valid, count in graph.buckets:
        padded = scores[places].masked_fill_(~valid, float("-inf"))
        found[places[valid]] = normalizer.strip(padded, count.to(scores.dtype))[valid]
    return found, ()


def gradient(graph: Graph, normalizer: Normalizer, found: PerPair, d_weights: PerPair) -> PerPair:
    """The gradient of the scores."""
    if isinstance(normalizer, Softmax):
        d_weights = d_weights.mul_(found)
        inner = graph.row_sums(d_weights)
        return d_weights.sub_(found * inner.index_select(0, graph.row))
    d_scores = torch.empty_like(found)
    for places, valid, count in graph.buckets:
        padded = found[places].masked_fill_(~valid, 0.0)
        d_padded = d_weights[places].masked_fill_(~valid, 0.0)
        d_scores[places[valid]] = normalizer.strip_gradient(padded, d_padded, count.to(found.dtype))[valid]
    return d_scores


def _softmax(graph: Graph, scores: PerPair, stats: Stats) -> tuple[PerPair, Stats]:
    if stats:
        return (scores - stats[0].index_select(0, graph.row)).exp_(), stats
    top = graph.row_top(scores)
    powers = (scores - top.index_select(0, graph.row)).exp_()
    total = graph.row_sums(powers)
    powers.mul_(total.reciprocal().index_select(0, graph.row))
    return powers, (total.log_().add_(top),)
