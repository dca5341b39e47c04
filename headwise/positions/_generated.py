"""The base of schemes whose position vectors a small network generates one after the other."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.precision import uncast
from headwise.errors import Unsupported
from headwise.positions.position import Position


class Generated(Position, ABC):
    """x + P, with the rows of P computed in order, from the first one up to the last one asked for.

    Nothing is remembered: a decoder that goes step by step pays t steps for its token t. A compiled program is made
    anew for each length, an exported one has one length.
    """

    where = "embeddings"

    @abstractmethod
    def vectors(self, length: int) -> Float[Tensor, "length d_model"]:
        """The vectors of the positions 0 .. length - 1, at least one, in float32 or wider."""

    def embed(self, x: Float[Tensor, "*batch length d_model"], start: int) -> Float[Tensor, "*batch length d_model"]:
        end = start + x.shape[-2]
        if torch.compiler.is_exporting() and not isinstance(end, int):
            raise Unsupported(
                f"{type(self).__name__} positions are computed one after the other, so an exported program has one"
                " length; export it with a fixed length, or use sinusoidal, rotary or t5 positions"
            )
        # rounding errors of a recurrence add up: no half precision inside
        with uncast(x):
            return x + self.vectors(max(1, end))[start:end].to(x.dtype)


def at_least_single(dtype: torch.dtype) -> torch.dtype:
    """float64 for float64, else float32: a recurrence over hundreds of steps adds up its rounding errors."""
    return torch.promote_types(dtype, torch.float32)
