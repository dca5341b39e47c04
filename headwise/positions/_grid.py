"""The places of image patches, which stand row by row in a sequence."""

import math

import torch
from jaxtyping import Int
from torch import Tensor

from headwise.errors import ConfigError


def square(name: str, length: int) -> int:
    """The width of the square grid of `length` patches. Raises: ConfigError if there is none, naming the nearest."""
    width = math.isqrt(max(0, length))
    if width < 1 or width * width != length:
        raise ConfigError(
            f"{name} positions need a square max_len, the patches of a square image, got {length}; use"
            f" {max(1, width) ** 2} or {(width + 1) ** 2}, or construct the scheme for another grid"
        )
    return width


def places(
    start: int, length: int, width: int, device: torch.device | None = None
) -> tuple[Int[Tensor, "length"], Int[Tensor, "length"]]:
    """(row, column) of the patches start .. start + length - 1 in a grid of this width.

    >>> [axis.tolist() for axis in places(1, 4, 3)]
    [[0, 0, 1, 1], [1, 2, 0, 1]]
    """
    index = torch.arange(start, start + length, device=device)
    return index.div(width, rounding_mode="floor"), index % width
