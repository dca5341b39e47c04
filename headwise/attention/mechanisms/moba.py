"""Mixture of block attention: each query sees its own block, and the earlier blocks whose mean key suits it best."""

from dataclasses import replace

import torch

from headwise.attention.call import Call, per_head
from headwise.attention.mechanisms._blocks import CHOOSING, Choosing, Chosen, best, blocked, places, shown_keys
from headwise.attention.precision import uncast, wide
from headwise.errors import ConfigError


class Moba(Choosing):
    """softmax(q k^T / sqrt(d)) v over the keys of `top` blocks: the query's own, and those before it by q . mean(k).

    Blocks are `block` tokens; in its own block a query sees the keys up to itself. Keys that the mask hides from all
    queries are in no mean.

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

    facts = replace(
        CHOOSING,
        time="n top block d + n^2 d / block",
        memory="n top block + n^2 / block",
        exact="as many blocks chosen as there are",
    )
    rule = r"C_{ib} = [b \in \operatorname{top}(q_i \cdot \bar{k}_b)]"

    def __init__(self, block: int = 64, top: int = 3, dropout: float = 0.0):
        super().__init__()
        if min(block, top) < 1:
            raise ConfigError(f"moba needs a block ({block}) and a number of blocks, top ({top}), of 1 or more")
        self.block, self.top, self.dropout = block, top, dropout

    @torch.no_grad()
    def chosen(self, call: Call) -> Chosen:
        with uncast(call.query):
            query, key = wide(call.query), wide(per_head(call.key, call.shape[1]))
            sums, count = (blocked(x, self.block).sum(3) for x in (key, shown_keys(call)))
            scores = query @ (sums / count.clamp(min=1)).mT
        number, own = torch.arange(sums.shape[2], device=key.device), places(call) // self.block
        earlier = (number < own) & (count > 0).mT
        return best(scores, earlier, self.top - 1) | (number == own)
