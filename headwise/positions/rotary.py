"""Queries and keys turned by an angle that grows with position."""

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.errors import ConfigError
from headwise.positions.position import Position


class Rotary(Position):
    """Pairs (2j, 2j+1) of queries and keys rotated by position x base^(-2j/r): scores depend on distance alone.

    Angles are computed in float64: in float32 they are wrong by 3e-2 at position 10^6. Neighbouring columns form a
    pair, as in the paper; some code pairs the halves of a head instead, which is the same up to a permutation.

    Args:
        head_dim: width of a head.
        base: ratio of the slowest to the fastest period.
        columns: r, how many leading columns are turned, even; the others stay as they are. All if None.
        interpolation: factor by which positions are divided, to run a trained model on inputs so much longer.
        ntk: factor by which the slowest period is lengthened while the fastest stays: base x ntk^(r / (r - 2)).
    Raises:
        ConfigError: for an odd width, and for factors that are not above 0.
    Source: Su et al. 2021, arXiv:2104.09864, eq. 34; some columns only: Black et al. 2022, arXiv:2204.06745, section
        2.1; interpolation: Chen et al. 2023, arXiv:2306.15595, eq. 4; ntk: Peng et al. 2023, arXiv:2309.00071,
        section 3.1, after bloc97.

    >>> Rotary(8).rotate(torch.ones(2, 3, 5, 8), 0).shape
    torch.Size([2, 3, 5, 8])
    >>> Rotary(8, columns=2).rotate(torch.ones(1, 8), 100)[0, 2:].tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """

    where = "queries and keys"
    extrapolates = "Any length has its angles, but far distances are untrained; interpolation or ntk bring them back."
    paper = "Su et al. 2021, arXiv:2104.09864"

    def __init__(
        self,
        head_dim: int,
        base: float = 10000.0,
        *,
        columns: int | None = None,
        interpolation: float = 1.0,
        ntk: float = 1.0,
    ):
        super().__init__()
        if columns is None and head_dim % 2:
            raise ConfigError(f"rotary positions need an even head_dim, got {head_dim}")
        if columns is not None and not (2 <= columns <= head_dim and columns % 2 == 0):
            raise ConfigError(f"rotary positions turn an even number of columns from 2 to {head_dim}, got {columns}")
        if base <= 0 or interpolation <= 0 or ntk <= 0:
            raise ConfigError(
                f"base ({base}), interpolation ({interpolation}) and ntk ({ntk}) of rotary positions must be above 0"
            )
        self.head_dim, self.columns = head_dim, head_dim if columns is None else columns
        if ntk != 1.0 and self.columns < 4:
            raise ConfigError("ntk lengthens slow periods only: turn at least 4 columns, or use interpolation")
        self.base = base if ntk == 1.0 else base * ntk ** (self.columns / (self.columns - 2))
        self.interpolation = interpolation
        self._turns: dict[torch.dtype, Tensor] = {}

    @classmethod
    def sized(cls, d_model: int, head_dim: int, num_heads: int, max_len: int) -> "Rotary":
        return cls(head_dim)

    def rotate(
        self, heads: Float[Tensor, "*batch length head_dim"], start: int
    ) -> Float[Tensor, "*batch length head_dim"]:
        first = heads if self.columns == self.head_dim else heads[..., : self.columns]
        wide = first if heads.dtype == torch.float64 else first.float()
        turns = self._table(start + heads.shape[-2], wide.dtype, heads.device)[start : start + heads.shape[-2]]
        turned = torch.view_as_complex(wide.contiguous().unflatten(-1, (-1, 2))) * turns
        result = torch.view_as_real(turned).flatten(-2).to(heads.dtype)
        return result if first is heads else torch.cat((result, heads[..., self.columns :]), dim=-1)

    def _table(self, length: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        table = self._turns.get(dtype)
        if table is None or table.shape[0] < length or table.device != device:
            room = max(64, length if table is None else max(length, 2 * table.shape[0]))
            frequencies = self.base ** (-torch.arange(0, self.columns, 2, dtype=torch.float64) / self.columns)
            angles = torch.arange(room, dtype=torch.float64)[:, None] / self.interpolation * frequencies
            complex_dtype = torch.complex128 if dtype == torch.float64 else torch.complex64
            # tensors made in inference mode could not serve a later call that learns
            with torch.inference_mode(False):
                table = self._turns[dtype] = torch.polar(torch.ones_like(angles), angles).to(device, complex_dtype)
        return table
