"""Learned vectors for clipped distances, added to keys and to values."""

import torch
from torch import nn

from headwise.attention.precision import wide
from headwise.attention.relative import Relative
from headwise.errors import ConfigError
from headwise.positions.position import Key, Position, Query


class Shaw(Position):
    """score_ij = q_i . (k_j + a_n) / sqrt(d) and the value v_j + b_n, with n = j - i clipped to [-k, k].

    Both tables are shared by all heads, as in the paper. No vector per pair is made: q_i meets the 2k + 1 rows once,
    and the weights of a row are summed by distance before they meet the values' rows.

    Args:
        head_dim: width of a head.
        max_distance: k, from which on distances are alike.
    Raises: ConfigError for a distance below 0.
    Source: Shaw et al. 2018, arXiv:1803.02155, eq. 3 to 5.

    >>> query = torch.zeros(1, 3, 5, 8)
    >>> Shaw(8, max_distance=2).relative(query, query, -4, 4).value_table.shape
    torch.Size([1, 5, 8])
    """

    where = "scores and values"
    extrapolates = "Distances beyond max_distance share a learned vector, so any length is defined."

    def __init__(self, head_dim: int, *, max_distance: int = 16):
        super().__init__()
        if max_distance < 0:
            raise ConfigError(f"max_distance of shaw positions must be at least 0, got {max_distance}")
        self.max_distance = max_distance
        self.keys = nn.Parameter(torch.empty(2 * max_distance + 1, head_dim))
        self.values = nn.Parameter(torch.empty(2 * max_distance + 1, head_dim))
        nn.init.xavier_uniform_(self.keys)
        nn.init.xavier_uniform_(self.values)

    def relative(self, query: Query, key: Key, low: int, high: int) -> Relative:
        low, high = torch.sym_max(low, -self.max_distance), torch.sym_min(high, self.max_distance)
        rows = slice(low + self.max_distance, high + 1 + self.max_distance)
        query = wide(query)
        keys, values = self.keys[rows].to(query.dtype), self.values[rows].to(query.dtype)
        scale = query.shape[-1] ** -0.5
        return Relative(low, query=query, query_table=(keys * scale)[None], value_table=values[None])
