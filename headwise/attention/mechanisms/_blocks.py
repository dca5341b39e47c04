"""What mechanisms share whose content chooses the keys that a query sees: blocks, their bias, the trace of it."""

from abc import ABC, abstractmethod
from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from headwise.attention.call import Call
from headwise.attention.mechanisms._masks import chunks, front
from headwise.attention.mechanisms.mechanism import Facts, Rescored
from headwise.attention.precision import wide
from headwise.attention.stages import Stage, Working, definition

Chosen = Bool[Tensor, "batch heads query_len blocks"]

# of those that choose: whole blocks are seen or hidden, so a mask may only say which keys there are
CHOOSING = Facts(
    family="pattern",
    time="n^2 d",
    memory="n^2",
    honours="keys",
    causal=True,
    bidirectional=False,
    bias=True,
    relative=True,
    cache="per_hypothesis",
)


class Choosing(Rescored, ABC):
    """softmax(q k^T / sqrt(d)) v over the blocks of keys that `chosen` shows to each query.

    The choice is a step, so no gradient goes through it. Other pairs get a bias of minus infinity, so the planner's
    kernels compute it, in the time of all pairs: the exact reference. A trace shows the chosen blocks.
    """

    block: int
    # how the choice is made, in LaTeX
    rule: str

    @abstractmethod
    def chosen(self, call: Call) -> Chosen:
        """Which blocks each query sees."""

    def as_scored(self, call: Call, dropout: float) -> Call:
        return limited(call, self.chosen(call), self.block, dropout)

    def compute_stages(self, call: Call) -> list[Stage]:
        """The chosen blocks, then products, scale, mask and softmax."""
        return [choice_stage(self.chosen(call), call, self.block, self.rule), *definition(self.as_scored(call, 0.0))]


def limited(call: Call, chosen: Chosen, block: int, dropout: float = 0.0) -> Call:
    """The call in which each query sees the keys of its blocks alone."""
    hides = torch.zeros(chosen.shape, dtype=wide(call.query).dtype, device=chosen.device)
    hides = hides.masked_fill(~chosen, float("-inf")).repeat_interleave(block, -1)
    hides = front(hides, call.shape[3], -1)
    return replace(call, bias=hides if call.bias is None else hides + call.bias, dropout=dropout, gates=None)


def choice_stage(chosen: Chosen, call: Call, block: int, rule: str) -> Stage:
    """What a trace shows of the choice."""
    text, values = f"1 where a query sees a block of {block} keys", chosen.to(wide(call.query).dtype)
    return Stage("blocks", "C", rule, ("queries", "blocks"), values, text, Working("formula", ("query", "key")))


def blocked(tensor: Float[Tensor, "batch heads length dim"], block: int) -> Float[Tensor, "batch heads blocks _ dim"]:
    """Axis 2 in blocks, zeros behind the end."""
    count = chunks(tensor.shape[2], block)
    return F.pad(tensor, (0, 0, 0, count * block - tensor.shape[2])).unflatten(2, (-1, block))


def shown_keys(call: Call) -> Float[Tensor, "#batch #heads key_len 1"]:
    """1 for keys that some query sees, else 0."""
    keys = None if call.structure.open else call.structure.key_mask()
    like = wide(call.key[:1, :1, :, :1])
    return torch.ones_like(like) if keys is None else keys.unsqueeze(-1).to(like.dtype)


def places(call: Call) -> Tensor:
    """The position of each query, as a column."""
    return (torch.arange(call.shape[2], device=call.query.device) + call.query_start).unsqueeze(-1)


def best(scores: Float[Tensor, "batch heads query_len blocks"], allowed: Tensor, count: int) -> Chosen:
    """The highest of those allowed, `count` at most; the earlier of two that are equal.

    >>> best(torch.tensor([[[[1.0, 3.0, 3.0, 4.0]]]]), torch.tensor([True, True, True, False]), 1).int().tolist()
    [[[[0, 1, 0, 0]]]]
    """
    hidden = scores.masked_fill(~allowed, float("-inf"))
    rank = hidden.argsort(dim=-1, descending=True, stable=True).argsort(-1)
    return (rank < count) & allowed
