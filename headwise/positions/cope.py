"""Positions that count what the query chooses to count: the sum of gates from a key to the query."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention.call import per_head
from headwise.attention.precision import wide
from headwise.errors import ConfigError
from headwise.positions.position import Key, Position, Query


class Cope(Position):
    """score + q_i . e[p_ij], p_ij = sum over j <= l <= i of sigmoid(q_i . k_l / sqrt(d)), at most size - 1 (CoPE).

    A position is a number of things, such as words or sentences, that the query's gates count; e is learned and read
    between its rows by interpolation. Only keys up to the query are counted, whatever the mask: made for causal
    attention, later keys have position 0. Costs q k^T once more, n^2 numbers a head that are kept for the gradient.

    Args:
        head_dim: width of a head.
        size: rows of e, shared by all heads.
    Raises: ConfigError: fewer than 2 rows.
    Source: Golovneva et al. 2024, arXiv:2405.18719, eq. 3 to 5 and its listing, with gates from scaled scores.
        x-transformers' `CoPE` is the same for scores that are masked before it; unmasked ones count later keys.

    >>> query = torch.zeros(1, 2, 3, 4)
    >>> Cope(4, size=8).counts(query, query, 0)[0, 0].tolist()
    [[0.5, 0.0, 0.0], [1.0, 0.5, 0.0], [1.5, 1.0, 0.5]]
    """

    where = "scores"
    extrapolates = "Counts beyond the last row share it, so any length is defined."

    def __init__(self, head_dim: int, size: int = 64):
        super().__init__()
        if size < 2:
            raise ConfigError(f"size of cope positions must be at least 2, got {size}")
        self.table = nn.Parameter(torch.zeros(size, head_dim))
        nn.init.normal_(self.table, std=0.02)

    def counts(self, query: Query, key: Key, start: int) -> Float[Tensor, "batch heads query_len key_len"]:
        """p, not clipped."""
        query, key = wide(query), wide(per_head(key, query.shape[1]))
        place = torch.arange(start, start + query.shape[2], device=query.device)[:, None]
        later = torch.arange(key.shape[2], device=query.device) > place
        gates = (query @ key.mT * query.shape[-1] ** -0.5).sigmoid().masked_fill(later, 0.0)
        return gates.flip(-1).cumsum(-1).flip(-1)

    def bias(self, query: Query, key: Key, start: int) -> Float[Tensor, "batch heads query_len key_len"]:
        counts = self.counts(query, key, start).clamp(max=self.table.shape[0] - 1)
        below = counts.detach().floor()
        rows = wide(query) @ wide(self.table).mT
        index = below.long()
        low, high = rows.gather(-1, index), rows.gather(-1, (index + 1).clamp(max=self.table.shape[0] - 1))
        return torch.lerp(low, high, counts - below)
