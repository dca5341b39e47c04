"""A learned vector for each position."""

import torch
from torch import nn

from headwise.errors import ConfigError, ShapeError
from headwise.positions.position import Embedded, Position


class Learned(Position):
    """x + P with a learned table of max_len x d_model numbers; a position beyond the table is an error.

    With `interpolate`, the table is stretched over a longer input instead: row i of n is read at i (max_len - 1) /
    (n - 1), between two rows linearly. Every vector then depends on n, so the input has to come at once. An exported
    program needs a dynamic length of at most max_len.

    Args:
        max_len: number of positions.
        d_model: width of the embeddings.
        interpolate: whether an input that is longer than the table stretches it.
    Raises:
        ConfigError: for an empty table.
        ShapeError: for a position beyond the table.
    Source: Gehring et al. 2017, arXiv:1705.03122, section 3.1; interpolation as Dosovitskiy et al. 2021,
        arXiv:2010.11929, section 3.2, in one dimension.

    >>> Learned(3, 12, interpolate=True).embed(torch.zeros(2, 5, 12), 0).shape
    torch.Size([2, 5, 12])
    """

    where = "embeddings"
    extrapolates = "A position beyond the table is an error; with interpolation the table is stretched."

    def __init__(self, max_len: int, d_model: int, *, interpolate: bool = False):
        super().__init__()
        if max_len < 1:
            raise ConfigError(f"learned positions need a max_len of at least 1, got {max_len}")
        self.interpolate = interpolate
        self.table = nn.Parameter(torch.empty(max_len, d_model))
        nn.init.normal_(self.table, std=0.02)

    def embed(self, x: Embedded, start: int) -> Embedded:
        end = start + x.shape[-2]
        if end <= self.table.shape[0]:
            return x + self.table[start:end].to(x.dtype)
        if not self.interpolate:
            raise ShapeError(
                f"position {end - 1} is beyond the learned table of {self.table.shape[0]} positions;"
                " shorten the input, train with a larger max_len, or use sinusoidal or rotary positions"
            )
        if start > 0:
            raise ShapeError(
                f"an interpolated table depends on the whole input, got positions {start} to {end - 1} alone;"
                f" give the input at once, or stay within {self.table.shape[0]} positions"
            )
        # rows by index: the derivative of `interpolate` has no repeatable form on a GPU
        place = torch.linspace(0, self.table.shape[0] - 1, end, dtype=torch.float64, device=x.device)
        below, above = place.floor().long(), place.ceil().long()
        part = (place - below)[:, None].to(self.table.dtype)
        return x + torch.lerp(self.table[below], self.table[above], part).to(x.dtype)
