"""Number types: what scores and sums are computed in, and what autocast would make of products."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

_HALF = (torch.bfloat16, torch.float16)


def wide(tensor: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    """The tensor in the type that scores are computed in: float32 in place of half precision, in order of its axes.

    In order, since products of heads that lie across memory would copy them once more.
    """
    return tensor.to(torch.float32, memory_format=torch.contiguous_format) if tensor.dtype in _HALF else tensor


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """The type of products under autocast on this device; None without, and where there is no autocast (meta)."""
    kind = device.type
    cast = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    return torch.get_autocast_dtype(kind) if cast else None


def uncast(tensor: Tensor) -> AbstractContextManager[Any]:
    """Inside, autocast changes no type on the device of the tensor."""
    device = tensor.device
    return nullcontext() if autocast_dtype(device) is None else torch.autocast(device.type, enabled=False)
