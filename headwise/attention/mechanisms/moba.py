"""Mixture of block attention: each query sees its own block, and the earlier blocks whose mean key suits it best."""

from dataclasses import replace

import torch
from jaxtyping import Bool
from torch import Tensor
from torch.nn import functional as F

from headwise.attention.call import Call, per_head
from headwise.attention.mechanisms._masks import chunks, front
from headwise.attention.mechanisms.mechanism import Facts, Rescored
from headwise.attention.precision import uncast, wide
from headwise.attention.stages import Stage, Working, definition
from headwise.errors import ConfigError

Chosen = Bool[Tensor, "batch heads query_len blocks"]


class Moba(Rescored):
    """softmax(q k^T / sqrt(d)) v over the keys of `top` blocks: the query's own, and those before it by q . mean(k).

    Blocks are `block` tokens; in its own block a query sees the keys up to itself. Keys that the mask hides from all
    queries are in no mean. The choice is a step, so no gradient goes through it. Other pairs get a bias of minus
    infinity, so the planner's kernels compute it, in the time of all pairs: the exact reference, and no block is
    skipped yet. The stages of a trace show the chosen blocks.

    Args:
        block: tokens of a block; 512 in the paper, less for short inputs.
        top: blocks that a query sees, its own included; 3 in the paper.
        dropout: probability of dropping a weight while training.
    Raises: ConfigError: a block or a number of them below 1.
    Source: Lu et al. 2025, arXiv:2502.13189, eq. 2 to 6. Ties are broken in favour of earlier blocks.

    >>> x = torch.ones(2, 3, 5, 8)
    >>> from headwise.attention.masks import Causal
    >>> Moba(2, 2)(Call(x, x, x, mask=Causal())).shape
    torch.Size([2, 3, 5, 8])
    """

    facts = Facts(
        formula="softmax(q k^T / sqrt(d)) v over the own block and the top earlier ones by q . mean(k)",
        paper="Lu et al. 2025, arXiv:2502.13189",
        family="pattern",
        time="n^2 d",
        memory="n^2",
        exact="as many blocks chosen as there are",
        honours="keys",
        causal=True,
        bidirectional=False,
        bias=True,
        relative=True,
        cache="per_hypothesis",
    )

    def __init__(self, block: int = 64, top: int = 3, dropout: float = 0.0):
        super().__init__()
        if min(block, top) < 1:
            raise ConfigError(f"moba needs a block ({block}) and a number of blocks, top ({top}), of 1 or more")
        self.block, self.top, self.dropout = block, top, dropout

    @torch.no_grad()
    def chosen(self, call: Call) -> Chosen:
        """Which blocks each query sees."""
        query_len, key_len = call.shape[2:]
        with uncast(call.query):
            query, key = wide(call.query), wide(per_head(call.key, call.shape[1]))
            means = self._blocked(key)
            keys = None if call.structure.open else call.structure.key_mask()
            shown = key.new_ones(1, 1, key_len) if keys is None else keys.to(key.dtype)
            count = self._blocked(shown.unsqueeze(-1)).sum(-2)
            scores = query @ (means.sum(-2) / count.clamp(min=1)).mT
        number = torch.arange(means.shape[2], device=key.device)
        own = (torch.arange(query_len, device=key.device) + call.query_start)[:, None] // self.block
        earlier = (number < own) & (count > 0).mT
        scores = scores.masked_fill(~earlier, float("-inf"))
        rank = scores.argsort(dim=-1, descending=True, stable=True).argsort(-1)
        return ((rank < self.top - 1) & earlier) | (number == own)

    def as_scored(self, call: Call, dropout: float) -> Call:
        chosen = self.chosen(call)
        hides = torch.zeros(chosen.shape, dtype=wide(call.query).dtype, device=chosen.device)
        hides = hides.masked_fill(~chosen, float("-inf")).repeat_interleave(self.block, -1)
        hides = front(hides, call.shape[3], -1)
        return replace(call, bias=hides if call.bias is None else hides + call.bias, dropout=dropout)

    def compute_stages(self, call: Call) -> list[Stage]:
        """The chosen blocks, then products, scale, mask and softmax."""
        chosen = self.chosen(call)
        text = f"1 where a query sees a block of {self.block} keys"
        formula = r"C_{ib} = [b \in \operatorname{top}(q_i \cdot \bar{k}_b)]"
        values = chosen.to(wide(call.query).dtype)
        stage = Stage("blocks", "C", formula, ("queries", "blocks"), values, text, Working("formula", ("query", "key")))
        return [stage, *definition(self.as_scored(call, 0.0))]

    def _blocked(self, tensor: Tensor) -> Tensor:
        """Axis 2 in blocks, zeros behind the end."""
        count = chunks(tensor.shape[2], self.block)
        return F.pad(tensor, (0, 0, 0, count * self.block - tensor.shape[2])).unflatten(2, (-1, self.block))
