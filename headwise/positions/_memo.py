"""Tables that positions compute from parameters, kept while nothing learns."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn


def wide(tensor: Tensor) -> Tensor:
    """The tensor in float32 at least: sums over many distances lose too much in half precision."""
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor


class Memo(nn.Module):
    """A table made of parameters, kept until one of them changes; made anew wherever a gradient is wanted.

    So that a decoder which asks for one more position at each step does not compute all positions each time, a kept
    table is made with room and grows by doubling. It is no state: it is neither saved nor moved.
    """

    def __init__(self) -> None:
        super().__init__()
        self._kept: tuple[Any, int, Tensor] | None = None

    def table(self, parameters: Sequence[Tensor], size: int, make: Callable[[int], Tensor]) -> Tensor:
        """make(n) for some n of at least `size`; exactly make(size) where gradients are recorded."""
        learns = torch.is_grad_enabled() and any(parameter.requires_grad for parameter in parameters)
        if learns or torch.compiler.is_compiling():
            return make(size)
        # a change in place counts up the version of a tensor
        state = tuple((parameter.data_ptr(), parameter._version) for parameter in parameters)
        room = max(64, size)
        if self._kept is not None and self._kept[0] == state:
            if self._kept[1] >= size:
                return self._kept[2]
            room = max(size, 2 * self._kept[1])
        # tensors made in inference mode could not serve a later call that learns
        with torch.inference_mode(False), torch.no_grad():
            made = make(room)
        self._kept = (state, room, made)
        return made

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> "Memo":
        # another type or device replaces the data of parameters without counting
        self._kept = None
        return super()._apply(fn, recurse)
