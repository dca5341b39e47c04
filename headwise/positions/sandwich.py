"""Scores that fall with distance as the product of two sinusoidal position vectors does."""

import torch

from headwise.attention.precision import wide
from headwise.attention.relative import Relative
from headwise.errors import ConfigError
from headwise.positions.position import Key, Position, Query
from headwise.positions.sinusoidal import frequencies, moved


class Sandwich(Position):
    """score + (8 h / H) (sum over c of cos((i - j) / 10000^(2c/d)) - d/2) for head h = 1 .. H (Sandwich).

    The sum is the product of the sinusoidal vectors of i and j, and d/2 is what it is for i = j: the bias is 0 there
    and falls with a longer tail than ALiBi's. Nothing learned.

    Args:
        num_heads: H, heads of the query.
        columns: d, of the vectors, even; they are no part of the model.
    Raises: ConfigError: no heads, an odd number of columns.
    Source: Chi et al. 2023, arXiv:2212.10356, section 5 and its listing, whose ratios are 8/H, 16/H, ..., 8; 128
        there. Some ports sum the angles without their cosine; this is the paper's.

    >>> query = torch.zeros(1, 2, 3, 8)
    >>> Sandwich(2).relative(query, query, -2, 2).scalar.shape
    torch.Size([2, 5])
    """

    where = "scores"
    extrapolates = "Made for it: far pairs fade slowly and in waves, at any length."

    def __init__(self, num_heads: int, *, columns: int = 128):
        super().__init__()
        if num_heads < 1:
            raise ConfigError(f"sandwich positions need at least 1 head, got {num_heads}")
        if columns < 2 or columns % 2:
            raise ConfigError(f"columns of sandwich positions must be even, got {columns}")
        self.num_heads, self.columns = num_heads, columns

    def relative(self, query: Query, key: Key, low: int, high: int) -> Relative:
        turns = frequencies(self.columns, 10000.0, query.device)
        distances = torch.arange(low, high + 1, dtype=torch.float64, device=turns.device)
        # cos - 1, so that nothing cancels near 0
        fall = -2 * (distances[:, None] * turns / 2).sin().square().sum(-1)
        ratios = torch.arange(1, self.num_heads + 1, dtype=fall.dtype, device=fall.device) * (8 / self.num_heads)
        return Relative(low, scalar=moved(ratios[:, None] * fall, wide(query)))
