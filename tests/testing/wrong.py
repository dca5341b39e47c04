"""Attention written out step by step, and what becomes of it when one step is wrong."""

from dataclasses import replace

import torch
from torch import nn
from torch.nn import functional as F

from headwise.attention.masks import And, Edges, Padding, Window
from headwise.attention.mechanisms.linear import Linear
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.attention.mechanisms.scored import Scored


class Correct(Mechanism):
    """Softmax attention by its definition; every method is a step that a mutant replaces."""

    facts = replace(Scored.facts, scored=False)

    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout

    @classmethod
    def sized(cls, *, head_dim, num_heads, max_len, dropout):
        return cls(dropout)

    def compute(self, call):
        heads, dtype, keep = call.shape[1], call.value.dtype, self.keep(call)
        key, value = (self.hidden(self.per_head(tensor, heads), keep) for tensor in (call.key, call.value))
        query, key, value = (self.wide(tensor) for tensor in (call.query, key, value))
        scores = self.scores(query.masked_fill(~keep.any(-1, keepdim=True), 0.0), key)
        if call.bias is not None:
            scores = self.biased(scores, call.bias)
        if call.relative is not None and call.relative.has_bias():
            scores = scores + call.relative.bias(*call.shape[2:], call.query_start).to(scores.dtype)
        weights = self.dropped(self.normalized(scores, keep, call.mask))
        return self.summed(weights, value).to(dtype)

    def keep(self, call):
        keep = call.keep()
        return torch.ones(call.shape, dtype=torch.bool) if keep is None else keep.expand(call.shape)

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

    def normalized(self, scores, keep, mask):
        empty = ~keep.any(-1, keepdim=True)
        scores = torch.where(keep, scores, float("-inf")).masked_fill(empty, 0.0)
        return scores.softmax(-1).masked_fill(empty | ~keep, 0.0)

    def dropped(self, weights):
        return F.dropout(weights, self.dropout, self.training)

    def summed(self, weights, value):
        return weights @ value


class SoftmaxOverQueries(Correct):
    def normalized(self, scores, keep, mask):
        return scores.masked_fill(~keep, -1e4).softmax(-2).masked_fill(~keep, 0.0)


class MaskInverted(Correct):
    def keep(self, call):
        return super().keep(call) if call.mask is None else ~super().keep(call)


class MaskAfterSoftmax(Correct):
    def normalized(self, scores, keep, mask):
        return scores.softmax(-1).masked_fill(~keep, 0.0)


class FiniteFill(Correct):
    def normalized(self, scores, keep, mask):
        return scores.masked_fill(~keep, -1e9).softmax(-1)


class CausalOffByOne(Correct):
    def keep(self, call):
        keep = super().keep(call)
        if call.mask is None or not call.structure.causal:
            return keep
        return keep | F.pad(keep, (1, 0), value=True)[..., :-1]


class WindowOffByOne(Correct):
    def keep(self, call):
        if isinstance(call.mask, Window):
            call = replace(call, mask=Window(call.mask.left - 1, call.mask.right))
        return super().keep(call)


class OneRowForAllQueries(Correct):
    """The mask of the first query is taken for all."""

    def keep(self, call):
        keep = super().keep(call)
        return keep[:, :, :1].expand(call.shape) if call.shape[2] else keep


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


class HeadsMixed(Correct):
    """What is normal for the whole batch is divided out, and a NaN with it."""

    def summed(self, weights, value):
        return weights @ value + 0.0 * value.sum()


class KeyOrder(Correct):
    def scores(self, query, key):
        return super().scores(query, key) + torch.arange(key.shape[2], dtype=query.dtype)


class BiasIgnored(Correct):
    def biased(self, scores, bias):
        return scores


class BiasClamped(Correct):
    """Minus infinity is minus five."""

    def keep(self, call):
        return super().keep(replace(call, bias=None))

    def biased(self, scores, bias):
        return scores + bias.to(scores.dtype).clamp(min=-5.0)


class NormalizerIgnored(Correct):
    def require(self, call):
        pass


class CountsPadding(Correct):
    def normalized(self, scores, keep, mask):
        return super().normalized(scores * (1 + 0.01 * keep.shape[-1]), keep, mask)


class EdgesCounted(Correct):
    """An edge that is listed twice counts twice."""

    def normalized(self, scores, keep, mask):
        if isinstance(mask, Edges):
            count = torch.zeros(mask.nodes, mask.nodes, dtype=scores.dtype)
            sources, targets = mask.edge_index
            count.index_put_((targets, sources), torch.ones(len(sources), dtype=scores.dtype), accumulate=True)
            scores = scores + count[: scores.shape[2], : scores.shape[3]].clamp(min=1).log()
        return super().normalized(scores, keep, mask)


class ForgetsTheStart(Correct):
    def keep(self, call):
        return super().keep(replace(call, query_start=0))


class WeightsDetached(Correct):
    def normalized(self, scores, keep, mask):
        return super().normalized(scores, keep, mask).detach()


class Clamped(Correct):
    def scores(self, query, key):
        return super().scores(query, key).clamp(-50.0, 50.0)


class MeanOfNothing(Correct):
    def summed(self, weights, value):
        return weights @ value + 0.0 * value.amax(2, keepdim=True)


class NoMaximum(Correct):
    def normalized(self, scores, keep, mask):
        powers = scores.exp().masked_fill(~keep, 0.0)
        return powers / powers.sum(-1, keepdim=True).clamp(min=1e-30)


class MemoryAsItLies(Correct):
    def wide(self, tensor):
        return super().wide(tensor.as_strided(tensor.shape, torch.empty(tensor.shape).stride()))


class Narrow(Correct):
    """Single precision runs in half precision."""

    def scores(self, query, key):
        if query.dtype == torch.float64:
            return super().scores(query, key)
        return super().scores(query.bfloat16(), key.bfloat16()).to(query.dtype)


class NotSaved(Correct):
    def __init__(self, dropout=0.0):
        super().__init__(dropout)
        self.factor = 1.0 + torch.rand(()).item()

    def scores(self, query, key):
        return super().scores(query, key) * self.factor


class OtherWeights(Correct):
    def compute_weights(self, call, heads, queries, keys):
        keep = self.keep(call).to(call.query.dtype)
        weights = keep / keep.sum(-1, keepdim=True).clamp(min=1)
        return (weights if heads is None else weights[:, heads])[:, :, queries, keys]


class DeadParameter(Correct):
    def __init__(self, dropout=0.0):
        super().__init__(dropout)
        self.factor = nn.Parameter(torch.ones(()))


class OwnParameter(Correct):
    """The parameter that it multiplies with is the one that it was built with, whatever is given for a call."""

    def __init__(self, dropout=0.0):
        super().__init__(dropout)
        self.factor = nn.Parameter(torch.ones(()))
        self.kept = [self.factor]

    def scores(self, query, key):
        return super().scores(query, key) * self.kept[0].to(query.dtype)


class Watched(Correct):
    """Something changes while somebody looks."""

    def summed(self, weights, value):
        return weights @ value * (1.0 + 1e-3 * bool(self._forward_hooks))


class TakesAnything(Linear):
    """Says that it honours causality and padding, and drops every other mask silently."""

    def require(self, call):
        pass

    def compute(self, call):
        known = call.mask is None or call.structure.causal or isinstance(call.mask, And | Padding)
        return super().compute(call if known else replace(call, mask=None))


class ForgetsItsState(Linear):
    def resume(self, call, state):
        return super().resume(call, None)


# what is wrong: the invariants that have to fail
WRONG = {
    SoftmaxOverQueries: ("definition", "weights", "support"),
    MaskInverted: ("definition", "weights", "empty", "support"),
    MaskAfterSoftmax: ("definition", "weights", "padding"),
    FiniteFill: ("definition", "weights", "empty"),
    CausalOffByOne: ("definition", "support", "steps"),
    WindowOffByOne: ("definition",),
    OneRowForAllQueries: ("definition", "support"),
    DropoutInEval: ("dropout",),
    DropoutNotScaled: ("dropout",),
    NoScale: ("definition",),
    HeadsShuffled: ("definition", "alone"),
    RepeatNotInterleave: ("definition", "groups"),
    NotLinear: ("definition", "weights"),
    HeadsMixed: ("alone",),
    KeyOrder: ("definition", "order"),
    BiasIgnored: ("definition", "honest"),
    BiasClamped: ("bias",),
    NormalizerIgnored: ("honest",),
    CountsPadding: ("padding",),
    EdgesCounted: ("definition",),
    ForgetsTheStart: ("steps",),
    WeightsDetached: ("gradients",),
    Clamped: ("definition",),
    MeanOfNothing: ("axes",),
    NoMaximum: ("huge",),
    MemoryAsItLies: ("layout",),
    Narrow: ("definition", "types"),
    NotSaved: ("state",),
    OtherWeights: ("weights",),
    DeadParameter: ("layer",),
    OwnParameter: ("state",),
    Watched: ("record",),
    TakesAnything: ("honest",),
    ForgetsItsState: ("resume", "steps"),
}
