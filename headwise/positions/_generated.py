"""The base of schemes whose position vectors a small network generates one after the other."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.positions._memo import Memo
from headwise.positions.position import Position


class Generated(Position, ABC):
    """x + P, with the rows of P computed in order for as many positions as are asked for."""

    where = "embeddings"

    def __init__(self) -> None:
        super().__init__()
        self._memo = Memo()

    @abstractmethod
    def vectors(self, length: int) -> Float[Tensor, "length d_model"]:
        """The vectors of the positions 0 .. length - 1, at least one, in float32 or wider."""

    def embed(self, x: Float[Tensor, "*batch length d_model"], start: int) -> Float[Tensor, "*batch length d_model"]:
        end = start + x.shape[-2]
        table = self._memo.table(list(self.parameters()), max(1, end), self.vectors)
        return x + table[start:end].to(x.dtype)


def at_least_single(dtype: torch.dtype) -> torch.dtype:
    """float64 for float64, else float32: a recurrence over hundreds of steps adds up its rounding errors."""
    return torch.promote_types(dtype, torch.float32)
