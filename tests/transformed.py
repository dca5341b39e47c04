"""What is compared where a module is transformed: its output and its gradients."""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor


def learned(run: Callable[..., Tensor], inputs: Sequence[Tensor], wanted: Sequence[Tensor]) -> list[Tensor]:
    """The output for these inputs, and the gradients of what is wanted; zeros for what is not read."""
    output = run(*inputs)
    return [output, *torch.autograd.grad(output.square().sum(), wanted, allow_unused=True, materialize_grads=True)]


def same(one: Iterable[Tensor], two: Iterable[Tensor], tolerance: float = 1e-4) -> None:
    """Both lists hold the same numbers."""
    for first, second in zip(one, two, strict=True):
        torch.testing.assert_close(first, second, rtol=tolerance, atol=tolerance)
