"""What masks check of the tensors they are given."""

from collections.abc import Sequence
from numbers import Integral

import torch
from torch import Tensor

from headwise.errors import ShapeError


def counts(numbers: Tensor) -> bool:
    """Whether they are whole numbers that PyTorch computes with; a bool tensor says which, not how many."""
    return numbers.dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def check_tensor(mask: str, name: str, given: object) -> None:
    """Raises: ShapeError for what is no tensor."""
    if not isinstance(given, Tensor):
        raise ShapeError(f"{mask}: {name} must be a tensor, got {type(given).__name__}; pass torch.tensor(...)")


def are_whole(numbers: object) -> bool:
    """Whether they are a sequence of whole numbers; those that a compiler traces count."""
    return isinstance(numbers, Sequence) and all(isinstance(number, Integral | torch.SymInt) for number in numbers)


def check_sizes(mask: object, **least: int) -> None:
    """Raises: ShapeError for a field of the mask, by its name, that is no whole number or below its least value."""
    for name, lowest in least.items():
        if not are_whole([size := getattr(mask, name)]) or size < lowest:
            raise ShapeError(f"{mask}: {name} must be a whole number, {lowest} or more")


def limits(name: str, lens: Tensor) -> int:
    """The longest length; 0 where no values can be read: outside memory of the host, or traced.

    Raises: ShapeError for a length below 0.
    """
    if torch.compiler.is_compiling() or lens.device.type != "cpu" or lens.numel() == 0:
        return 0
    try:
        least, longest = (int(limit) for limit in torch.func.debug_unwrap(lens, recurse=True).aminmax())
    except RuntimeError:
        # fake, or traced by something else than a compiler
        return 0
    if least < 0:
        raise ShapeError(f"{name} must be 0 or more, got {least}")
    return longest
