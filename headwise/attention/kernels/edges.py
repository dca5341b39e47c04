"""Graphs: only the listed pairs are computed; time and memory are linear in the edges.

Takes masks that are given by a list of pairs (a graph, alone or combined with other masks) with any score. Softmax
works on the list; other normalizers on rows of about equal degree, padded to one width.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.call import Call, is_plain, per_head
from headwise.attention.checkpointing import can_checkpoint, checkpointed, with_tensors_of_now
from headwise.attention.dropout import drop
from headwise.attention.kernels import plain
from headwise.attention.kernels._edges_graph import Graph, gather, graph, products, softmax, sums
from headwise.attention.masks import Edges, Shared
from headwise.attention.normalizers import Normalizer, Softmax
from headwise.attention.precision import wide
from headwise.attention.scores import GAT, Additive, Score

# pairs of all items that are computed at once, and numbers of a score that exist at once
_PAIRS, _NUMBERS = 1 << 17, 1 << 20

Listed = Float[Tensor, "batch heads pairs"]
Keep = Bool[Tensor, "#batch #heads pairs"]
Form = tuple[tuple[Tensor, ...], Callable[..., Tensor]]


def refusal(call: Call) -> str | None:
    if call.structure.pairs is None:
        return "the mask is not given by a list of pairs"
    if call.bias is not None:
        return "there is a bias"
    if call.relative is not None:
        return "there are relative positions"
    if not isinstance(call.normalizer, Softmax) and torch.compiler.is_compiling():
        return f"the normalizer is {call.normalizer.name} in a compiled program, where no row may differ in length"
    return plain.left_out(call)


def reads_listed_alone(call: Call) -> bool:
    """Whether nothing that the mask hides is read: the list is the mask, and no parameter learns from other tokens.

    Nor may a score compute on each token before it is taken for its pairs: 0 x NaN is the gradient of its square.
    """
    learned = next(call.score.parameters(), next(call.normalizer.parameters(), None))
    return learned is None and (is_plain(call.score) or not call.score.is_dot()) and _is_listed(call)


def _is_listed(call: Call) -> bool:
    """Whether the mask is a graph, and all its nodes are there."""
    mask = call.mask.mask if isinstance(call.mask, Shared) else call.mask
    return isinstance(mask, Edges) and call.query_start == 0 and mask.nodes <= min(call.shape[2:])


def num_pairs(call: Call) -> int:
    """The candidate pairs of every head."""
    return call.shape[0] * call.shape[1] * call.structure.pairs.query.shape[0]


def memory_summary(call: Call) -> str:
    return f"two numbers for each edge and head, {2 * 4 * num_pairs(call):,} bytes"


def peak_bytes(call: Call) -> int:
    """Bytes at the height of the forward pass besides inputs and output: scores, weights, and indices of the pairs."""
    listed = call.structure.pairs.query.shape[0]
    width = 1 if call.score.is_dot() or isinstance(call.score, GAT) else 2 * call.score.kept_width(call.query)
    step = max(*call.shape[2:], _NUMBERS // max(1, call.shape[0] * call.shape[1] * width))
    features = width * call.shape[0] * call.shape[1] * min(step, listed)
    values = 2 * math.prod(call.shape[:2]) * call.shape[3] * call.value.shape[-1]
    copied = plain.copied_bytes(replace(call, mask=None) if reads_listed_alone(call) else call)
    return copied + 4 * (2 * num_pairs(call) + features + values) + 8 * 8 * listed


def compute(call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
    """The output of the call; by the definition in forward mode, which sums over listed pairs have not."""
    try:
        return _computed(call)
    except NotImplementedError:
        # the definition reads tokens that no pair lists too
        return plain.compute(call.zero_unseen())


def _computed(call: Call) -> Tensor:
    batch, heads, _, _ = call.shape
    pattern, keep = call.structure.cached("edges", lambda: _pattern(call))
    parts, scored = _form(call, pattern)
    # rows of one head side by side: they are read in any order
    value = wide(per_head(call.value, heads)).flatten(0, 1).contiguous()
    if isinstance(call.normalizer, Softmax):
        hidden = () if keep is None else ((~keep).expand(batch, heads, -1).flatten(0, 1),)
    else:
        scores = scored(*parts).unflatten(0, (batch, heads))
        parts, hidden = (_weights(call.normalizer, scores, keep, pattern).flatten(0, 1),), ()
    # some items (heads of a sequence) at a time: what is made on the way stays small, and in the cache
    step = max(1, _PAIRS // max(1, pattern.row.shape[0]))
    pieces = [(t,) if torch.compiler.is_compiling() else t.split(step) for t in (value, *hidden, *parts)]
    outputs = []
    for some, *rest in zip(*pieces, strict=True):
        if isinstance(call.normalizer, Softmax):
            scores = scored(*rest[len(hidden) :])
            weights = softmax(scores.masked_fill(rest[0], -torch.inf) if hidden else scores, pattern)
        else:
            (weights,) = rest
        outputs.append(sums(drop(weights, call.dropout), some, pattern))
    return torch.cat(outputs).unflatten(0, (batch, heads)).to(call.value.dtype)


def _pattern(call: Call) -> tuple[Graph, Keep | None]:
    """The graph of a call, and which of its pairs the mask allows; None: all.

    All candidates stay on the list, so that no shape depends on values: those of other queries or keys stand, hidden,
    at the ends.
    """
    mask, (batch, heads, query_len, key_len) = call.mask, call.shape
    pairs, start, device = call.structure.pairs, call.query_start, call.query.device
    query, key = pairs.query.to(device), pairs.key.to(device)
    row, column = (query - start).clamp(0, query_len - 1), key.clamp(max=key_len - 1)
    turn = key.argsort(stable=True) if pairs.by_key is None else pairs.by_key.to(device)
    pattern = graph(row, column, turn, query_len, key_len)
    if _is_listed(call):
        return pattern, None
    at = (torch.arange(batch, device=device).view(-1, 1, 1), torch.arange(heads, device=device).view(-1, 1))
    keep = mask(*at, row + start, column) & (query == row + start) & (key == column)
    return pattern, keep.reshape((1,) * (3 - keep.ndim) + tuple(keep.shape))


def _form(call: Call, pattern: Graph) -> Form:
    """Parts (items, ...) and the function from them to the scores (items, pairs)."""
    score, heads, query, key = call.score, call.shape[1], wide(call.query), wide(call.key)
    if score.is_dot():
        query, key, scale = score.as_dot(query, key)
        parts = (query.flatten(0, 1), per_head(key, heads).flatten(0, 1))
        return parts, lambda q, k: products(q, k, pattern) * scale
    key = per_head(key, heads)
    if isinstance(score, GAT):
        # two numbers for each node
        numbers = tuple(of_tokens.squeeze(-1).flatten(0, 1) for of_tokens in score.project(query, key))
        return numbers, lambda q, k: F.leaky_relu(gather(q, pattern.row) + gather(k, pattern.column), score.slope)
    if isinstance(score, Additive):
        # projected once for each node, not for each pair
        table = _listed(call, *score.project(query, key), pattern, lambda score, q, k: score.of_sums(q + k))
    else:
        table = _listed(call, query, key, pattern, lambda score, q, k: score.pairs(q, k))
    return (table.flatten(0, 1),), lambda table: table


def _listed(call: Call, query: Tensor, key: Tensor, pattern: Graph, of_pairs: Callable[..., Tensor]) -> Listed:
    """Scores of all pairs, some pairs at a time, made again for the gradient."""
    width = call.shape[0] * call.shape[1] * call.score.pair_width(call.query)
    # the gradient of some pairs is as large as all tokens, so there are as many pairs
    step = max(*call.shape[2:], _NUMBERS // max(1, width))
    # a compiler chooses itself what it makes again
    repeats = call.learns and not torch.compiler.is_compiling() and can_checkpoint(call.tensors)
    scored = with_tensors_of_now(_Pairwise(call.score, of_pairs)) if repeats else partial(of_pairs, call.score)

    # tensors are arguments: what a checkpoint encloses in place of them would outlive one around it
    def part(query: Tensor, key: Tensor, row: Tensor, column: Tensor) -> Tensor:
        return scored(query.index_select(2, row), key.index_select(2, column))

    indices = zip(pattern.row.split(step), pattern.column.split(step), strict=True)
    compute = partial(checkpointed, part) if repeats else part
    return torch.cat([compute(query, key, *at) for at in indices], dim=2)


class _Pairwise(nn.Module):
    """The scores of listed pairs as a module, whose parameters can be held."""

    def __init__(self, score: Score, of_pairs: Callable[..., Tensor]):
        super().__init__()
        self.score, self.of_pairs = score, of_pairs

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return self.of_pairs(self.score, query, key)


def _weights(normalizer: Normalizer, scores: Listed, keep: Keep | None, pattern: Graph) -> Listed:
    """Weights by rows of 1, 2, 3 or 4, 5 to 8 ... pairs, padded to one width."""
    degree = pattern.degree()
    size = degree.clamp(min=1).double().log2().ceil().long().masked_fill(degree == 0, -1)
    slot, weights, count = torch.empty_like(pattern.row), [scores[..., :0]], 0
    for power in size.unique().tolist():
        if power < 0:
            continue
        rows = (size == power).nonzero()
        place = torch.arange(1 << power, device=rows.device)
        valid = place < degree[rows]
        place = torch.where(valid, pattern.start[rows] + place, 0)
        slot[place[valid]] = torch.arange(count, count + valid.numel(), device=rows.device).view_as(valid)[valid]
        count += valid.numel()
        padded = scores.index_select(2, place.flatten()).unflatten(2, place.shape)
        allowed = valid.expand(1, 1, -1, -1) if keep is None else valid & keep[..., place]
        weights.append(normalizer(padded, allowed).flatten(2))
    return torch.cat(weights, -1).index_select(2, slot)
