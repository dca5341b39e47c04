"""Scores that fall with the logarithm, or with a power, of the distance, at learned rates."""

from typing import Literal

import torch
from torch import nn

from headwise.attention.precision import wide
from headwise.attention.relative import Relative
from headwise.errors import ConfigError
from headwise.positions.position import Key, Position, Query

# what the rates are kept above, as in the paper's code
_LEAST = 1e-2


class Kerple(Position):
    """score - r1_h log(1 + r2_h |i - j|), or - r1_h |i - j|^r2_h, with r1 and r2 learned for each head (KERPLE).

    Both are conditionally positive definite kernels of the distance; ALiBi is the power form with r2 = 1. Rates are
    kept at 0.01 or more, and powers at 2 or less, where the kernel ends.

    Args:
        num_heads: heads of the query.
        form: "log" or "power".
    Raises: ConfigError: no heads, another form.
    Source: Chi et al. 2022, arXiv:2205.09921, section 4; rates start uniformly in (0, 2) for r1 of "power" and r2 of
        "log", in (0, 1) for the other, as in its code.

    >>> query = torch.zeros(1, 2, 3, 8)
    >>> Kerple(2).relative(query, query, -2, 2).scalar.shape
    torch.Size([2, 5])
    """

    where = "scores"
    extrapolates = "Made for it: far pairs fade at rates that were learned, slowly enough to be seen."

    def __init__(self, num_heads: int, *, form: Literal["log", "power"] = "log"):
        super().__init__()
        if num_heads < 1:
            raise ConfigError(f"kerple positions need at least 1 head, got {num_heads}")
        if form not in ("log", "power"):
            raise ConfigError(f"form of kerple positions must be 'log' or 'power', got {form!r}")
        self.num_heads, self.form = num_heads, form
        self.amount, self.rate = nn.Parameter(torch.empty(num_heads)), nn.Parameter(torch.empty(num_heads))
        nn.init.uniform_(self.amount, _LEAST, 1.0 if form == "log" else 2.0)
        nn.init.uniform_(self.rate, _LEAST, 2.0 if form == "log" else 1.0)

    def relative(self, query: Query, key: Key, low: int, high: int) -> Relative:
        distances = torch.arange(low, high + 1, dtype=wide(query).dtype, device=self.rate.device).abs_()
        amount, rate = (wide(rate).clamp(min=_LEAST)[:, None] for rate in (self.amount, self.rate))
        fall = (rate * distances).log1p() if self.form == "log" else distances ** rate.clamp(max=2.0)
        return Relative(low, scalar=-amount * fall)
