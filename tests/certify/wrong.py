"""Attention written out step by step, and what becomes of it when one step is wrong."""

import torch
from torch import nn
from torch.nn import functional as F

from headwise.attention.masks import And, Edges, Window
from headwise.attention.mechanisms.linear import Linear
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.attention.mechanisms.scored import Scored


class Correct(Mechanism):
    """Softmax attention by its definition; every method is a step that a mutant replaces."""

    facts = Scored.facts

    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout

    @classmethod
    def sized(cls, *, head_dim, num_heads, max_len, dropout):
        return cls(dropout)

    def forward(self, query, key, value, *, mask=None, bias=None, relative=None, query_start=0, finite=False):
        heads, dtype = query.shape[1], value.dtype
        keep = self.keep(mask, (*query.shape[:3], key.shape[2]), query_start)
        key, value = (self.hidden(self.per_head(tensor, heads), keep) for tensor in (key, value))
        query, key, value = (self.wide(tensor) for tensor in (query, key, value))
        scores = self.scores(query, key)
        if bias is not None:
            scores = self.biased(scores, bias)
        if relative is not None and relative.has_bias():
            scores = scores + relative.bias(0, *scores.shape[2:], query_start).to(scores.dtype)
        weights = self.dropped(self.weights(scores, keep, mask))
        return self.summed(weights, value).to(dtype)

    def keep(self, mask, shape, start):
        if mask is None:
            return torch.ones(shape, dtype=torch.bool)
        return mask.dense(*shape, query_start=start).expand(shape)

    def per_head(self, tensor, heads):
        return tensor.repeat_interleave(heads // tensor.shape[1], 1)

    def hidden(self, tensor, keep):
        return tensor.masked_fill(~keep.any(2).unsqueeze(-1), 0.0)

    def wide(self, tensor):
        return tensor.float() if tensor.dtype == torch.bfloat16 else tensor

    def scores(self, query, key):
        return query @ key.mT * query.shape[-1] ** -0.5

    def biased(self, scores, bias):
        return scores + bias.to(scores.dtype)

    def weights(self, scores, keep, mask):
        empty = ~keep.any(-1, keepdim=True)
        scores = scores.masked_fill(~keep & ~empty, float("-inf"))
        return scores.softmax(-1).masked_fill(empty | ~keep, 0.0)

    def dropped(self, weights):
        return F.dropout(weights, self.dropout, self.training)

    def summed(self, weights, value):
        return weights @ value


class SoftmaxOverQueries(Correct):
    def weights(self, scores, keep, mask):
        return scores.masked_fill(~keep, -1e4).softmax(-2).masked_fill(~keep, 0.0)


class MaskInverted(Correct):
    def keep(self, mask, shape, start):
        return super().keep(mask, shape, start) if mask is None else ~super().keep(mask, shape, start)


class MaskAfterSoftmax(Correct):
    def weights(self, scores, keep, mask):
        return scores.softmax(-1).masked_fill(~keep, 0.0)


class FiniteFill(Correct):
    def weights(self, scores, keep, mask):
        return scores.masked_fill(~keep, -1e9).softmax(-1)


class CausalOffByOne(Correct):
    def keep(self, mask, shape, start):
        keep = super().keep(mask, shape, start)
        if mask is None or not mask.is_causal():
            return keep
        return keep | F.pad(keep, (1, 0), value=True)[..., :-1]


class WindowOffByOne(Correct):
    def keep(self, mask, shape, start):
        if isinstance(mask, Window):
            mask = Window(mask.left - 1, mask.right)
        return super().keep(mask, shape, start)


class OneKeyForAllQueries(Correct):
    """The mask of the first query is taken for all."""

    def keep(self, mask, shape, start):
        keep = super().keep(mask, shape, start)
        return keep[:, :, :1].expand(shape) if shape[2] else keep


class DropoutInEval(Correct):
    def dropped(self, weights):
        return F.dropout(weights, self.dropout, True)


class DropoutNotScaled(Correct):
    def dropped(self, weights):
        dropped = F.dropout(weights, self.dropout, self.training)
        return dropped * (1 - self.dropout) if self.training else dropped


class NoScale(Correct):
    def scores(self, query, key):
        return query @ key.mT


class HeadsShuffled(Correct):
    def summed(self, weights, value):
        return (weights @ value).roll(1, 1)


class RepeatNotInterleave(Correct):
    def per_head(self, tensor, heads):
        return tensor.repeat(1, heads // tensor.shape[1], 1, 1)


class NotLinear(Correct):
    def summed(self, weights, value):
        return (weights @ value).tanh()


class NanLeaks(Correct):
    def hidden(self, tensor, keep):
        return tensor


class KeyOrder(Correct):
    def scores(self, query, key):
        return super().scores(query, key) + torch.arange(key.shape[2], dtype=query.dtype)


class QueryOrder(Correct):
    def scores(self, query, key):
        return super().scores(query, key) * torch.arange(1, query.shape[2] + 1, dtype=query.dtype)[:, None]


class BiasIgnored(Correct):
    def biased(self, scores, bias):
        return scores


class BiasMultiplied(Correct):
    def biased(self, scores, bias):
        return scores * bias.to(scores.dtype).exp()


class UnitQueries(Correct):
    def scores(self, query, key):
        return super().scores(F.normalize(query, dim=-1), key)


class LeakyWeights(Correct):
    def weights(self, scores, keep, mask):
        return 0.99 * super().weights(scores, keep, mask)


class CountsPadding(Correct):
    def weights(self, scores, keep, mask):
        return super().weights(scores * (1 + 0.01 * keep.shape[-1]), keep, mask)


class EdgesCounted(Correct):
    """An edge that is listed twice counts twice."""

    def weights(self, scores, keep, mask):
        if isinstance(mask, Edges):
            count = torch.zeros(mask.nodes, mask.nodes, dtype=scores.dtype)
            sources, targets = mask.edge_index
            count.index_put_((targets, sources), torch.ones(len(sources), dtype=scores.dtype), accumulate=True)
            scores = scores + count[: scores.shape[2], : scores.shape[3]].clamp(min=1).log()
        return super().weights(scores, keep, mask)


class ForgetsTheStart(Correct):
    def keep(self, mask, shape, start):
        return super().keep(mask, shape, 0)


class WeightsDetached(Correct):
    def weights(self, scores, keep, mask):
        return super().weights(scores, keep, mask).detach()


class Clamped(Correct):
    def scores(self, query, key):
        return super().scores(query, key).clamp(-50.0, 50.0)


class MeanOfNothing(Correct):
    def summed(self, weights, value):
        return weights @ value + 0.0 * value.amax(2, keepdim=True)


class NoMaximum(Correct):
    def weights(self, scores, keep, mask):
        powers = scores.exp().masked_fill(~keep, 0.0)
        return powers / powers.sum(-1, keepdim=True).clamp(min=1e-30)


class MemoryAsItLies(Correct):
    def scores(self, query, key):
        strides = torch.empty(query.shape).stride()
        return super().scores(query.as_strided(query.shape, strides), key)


class Narrow(Correct):
    """Single precision runs in half precision."""

    def scores(self, query, key):
        if query.dtype == torch.float64:
            return super().scores(query, key)
        return super().scores(query.bfloat16(), key.bfloat16()).to(query.dtype)


class AlwaysSingle(Correct):
    def forward(self, *tensors, **options):
        return super().forward(*tensors, **options).float()


class NotSaved(Correct):
    def __init__(self, dropout=0.0):
        super().__init__(dropout)
        self.factor = 1.0 + torch.rand(()).item()

    def scores(self, query, key):
        return super().scores(query, key) * self.factor


class OtherWeights(Correct):
    def effective_weights(self, query, key, *, mask=None, bias=None, relative=None, query_start=0):
        shape = (*query.shape[:3], key.shape[2])
        keep = self.keep(mask, shape, query_start).to(query.dtype)
        return keep / keep.sum(-1, keepdim=True).clamp(min=1)


class DeadParameter(Correct):
    def __init__(self, dropout=0.0):
        super().__init__(dropout)
        self.factor = nn.Parameter(torch.ones(()))


class Watched(Correct):
    """Something changes while somebody looks."""

    def summed(self, weights, value):
        return weights @ value * (1.0 + 1e-3 * bool(self._forward_hooks))


class ShowsOthers(Correct):
    """The weights that it shows are others each time."""

    shown = 0

    def effective_weights(self, query, key, *, mask=None, bias=None, relative=None, query_start=0):
        self.shown += 1
        return self.shown * super().effective_weights(query, key, mask=mask, bias=bias, query_start=query_start)


class TakesAnything(Linear):
    """Says that it honours causality and padding, and drops every other mask silently."""

    def forward(self, query, key, value, *, mask=None, **options):
        known = mask is None or mask.is_causal() or isinstance(mask, And) or type(mask).__name__ == "Padding"
        return super().forward(query, key, value, mask=mask if known else None, **options)


class ForgetsItsState(Linear):
    def resume(self, query, key, value, state):
        return super().resume(query, key, value, None)


class Transposed(Correct):
    def summed(self, weights, value):
        return (weights @ value).transpose(1, 2)


# what is wrong: the invariants that have to fail
WRONG = {
    SoftmaxOverQueries: ("A1", "A2", "A12"),
    MaskInverted: ("A1", "A2", "A3", "A12", "A13"),
    MaskAfterSoftmax: ("A1", "A2", "A5"),
    FiniteFill: ("A1", "A2", "A3"),
    CausalOffByOne: ("A1", "A12", "steps"),
    WindowOffByOne: ("A1", "A13"),
    OneKeyForAllQueries: ("A1", "A13", "A14"),
    DropoutInEval: ("A21",),
    DropoutNotScaled: ("A21",),
    NoScale: ("A1",),
    HeadsShuffled: ("A1", "A15"),
    RepeatNotInterleave: ("A1", "A16"),
    NotLinear: ("A1", "A10", "A11", "weights"),
    NanLeaks: ("A4",),
    KeyOrder: ("A6", "A14"),
    QueryOrder: ("A7", "A17"),
    BiasIgnored: ("A8", "honest"),
    BiasMultiplied: ("A8",),
    UnitQueries: ("A1", "A9", "A22"),
    LeakyWeights: ("A2", "A11"),
    CountsPadding: ("A5",),
    EdgesCounted: ("A14",),
    ForgetsTheStart: ("A17", "steps"),
    WeightsDetached: ("A19",),
    Clamped: ("A22",),
    MeanOfNothing: ("A23",),
    NoMaximum: ("A22", "A24"),
    MemoryAsItLies: ("A25",),
    Narrow: ("A1", "types"),
    AlwaysSingle: ("A1", "types"),
    NotSaved: ("state",),
    OtherWeights: ("weights",),
    DeadParameter: ("layer",),
    Watched: ("record",),
    ShowsOthers: ("shown",),
    TakesAnything: ("honest",),
    ForgetsItsState: ("A18", "steps"),
    Transposed: ("A1", "A10", "A25"),
}
