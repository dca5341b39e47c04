"""Zeros, or other numbers, in place of what is hidden, NaN included."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def zeroed(x: Float[Tensor, "*shape"], keep: Bool[Tensor, "..."]) -> Float[Tensor, "*shape"]:
    """x with zeros where `keep`, which broadcasts to it, is False; so is the gradient. NaN stays nowhere.

    >>> zeroed(torch.tensor([1.0, torch.nan]), torch.tensor([True, False])).tolist()
    [1.0, 0.0]
    """
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return torch.where(keep, x, 0.0)
    # the gradient of a ReLU, x where `keep` is above 0, has vectors: 2 to 9 times as fast as `where` (AMD EPYC)
    product: Tensor = torch.ops.aten.threshold_backward(x, keep.to(x.dtype), 0)
    return product


def zeroed_beyond(
    x: Float[Tensor, "batch length width"], lens: Int[Tensor, "batch"]
) -> Float[Tensor, "batch length width"]:
    """x with zeros at every place from the length of its row on.

    >>> zeroed_beyond(torch.ones(2, 2, 1), torch.tensor([1, 2])).flatten().tolist()
    [1.0, 0.0, 1.0, 1.0]
    """
    return zeroed(x, (torch.arange(x.shape[1], device=x.device) < lens[:, None]).unsqueeze(-1))


def hide(
    x: Float[Tensor, "*shape"], keep: Bool[Tensor, "..."] | None, value: Tensor | float
) -> Float[Tensor, "*shape"]:
    """x with the value where `keep`, which broadcasts to it, is False; the gradient of x is zero there. None keeps all.

    >>> hide(torch.tensor([1.0, torch.nan]), torch.tensor([True, False]), -2.0).tolist()
    [1.0, -2.0]
    """
    if keep is None:
        return x
    if isinstance(value, float) and value == 0.0:
        return zeroed(x, keep)
    if x.device.type != "cpu" or torch.compiler.is_compiling() or 2 * keep.numel() > x.numel():
        return torch.where(keep, x, value)
    return zeroed(x, keep) + torch.where(keep, x.new_zeros(()), value)
