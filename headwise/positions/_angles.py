"""Angles that grow with position, exact far out: in float64, wherever a tensor is asked for."""

import torch
from jaxtyping import Float
from torch import Tensor

# devices that have float64; for any other, angles are computed on the processor and moved
_EXACT = ("cpu", "cuda", "meta")


def exact(device: torch.device) -> torch.device:
    """The device on which float64 is computed for tensors of this device."""
    return device if device.type in _EXACT else torch.device("cpu")


def moved(table: Float[Tensor, "*axes"], like: Tensor) -> Float[Tensor, "*axes"]:
    """The table in the type and on the device of another tensor; the type first, since not every device has float64."""
    return table.to(like.dtype).to(like.device)


def frequencies(columns: int, base: float, device: torch.device) -> Float[Tensor, "pairs"]:
    """base^(-2j / columns) for each pair j of columns.

    >>> frequencies(4, 100.0, torch.device("cpu")).tolist()
    [1.0, 0.1]
    """
    return torch.logspace(0.0, 2 / columns - 1, columns // 2, base=base, dtype=torch.float64, device=exact(device))


def angles(start: int, length: int, frequencies: Float[Tensor, "pairs"]) -> Float[Tensor, "length pairs"]:
    """Position times frequency for the positions from `start` on."""
    positions = torch.arange(start, start + length, dtype=torch.float64, device=frequencies.device)
    return positions[:, None] * frequencies
