"""Queries and keys turned by an angle that grows with position."""

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.errors import ConfigError
from headwise.positions.position import Position


class Rotary(Position):
    """Pairs (2j, 2j+1) of queries and keys rotated by position x base^(-2j/d): scores depend on distance alone.

    Angles are computed in float64: in float32 they are wrong by 3e-2 at position 10^6. Neighbouring columns form a
    pair, as in the paper; some code pairs the halves of a head instead, which is the same up to a permutation.

    Args:
        head_dim: width of a head, even.
        base: ratio of the slowest to the fastest period.
    Raises:
        ConfigError: for an odd width.
    Source: Su et al. 2021, arXiv:2104.09864, eq. 34.

    >>> Rotary(8).rotate(torch.ones(2, 3, 5, 8), 0).shape
    torch.Size([2, 3, 5, 8])
    """

    def __init__(self, head_dim: int, base: float = 10000.0):
        super().__init__()
        if head_dim % 2:
            raise ConfigError(f"rotary positions need an even head_dim, got {head_dim}")
        self.head_dim, self.base = head_dim, base
        self._turns: dict[torch.dtype, Tensor] = {}

    @classmethod
    def sized(cls, d_model: int, head_dim: int, max_len: int) -> "Rotary":
        return cls(head_dim)

    def rotate(
        self, heads: Float[Tensor, "*batch length head_dim"], start: int
    ) -> Float[Tensor, "*batch length head_dim"]:
        wide = heads if heads.dtype == torch.float64 else heads.float()
        turns = self._table(start + heads.shape[-2], wide.dtype, heads.device)[start : start + heads.shape[-2]]
        turned = torch.view_as_complex(wide.contiguous().unflatten(-1, (-1, 2))) * turns
        return torch.view_as_real(turned).flatten(-2).to(heads.dtype)

    def _table(self, length: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        table = self._turns.get(dtype)
        if table is None or table.shape[0] < length or table.device != device:
            room = max(64, length if table is None else max(length, 2 * table.shape[0]))
            frequencies = self.base ** (-torch.arange(0, self.head_dim, 2, dtype=torch.float64) / self.head_dim)
            angles = torch.arange(room, dtype=torch.float64)[:, None] * frequencies
            complex_dtype = torch.complex128 if dtype == torch.float64 else torch.complex64
            # tensors made in inference mode could not serve a later call that learns
            with torch.inference_mode(False):
                table = self._turns[dtype] = torch.polar(torch.ones_like(angles), angles).to(device, complex_dtype)
        return table
