"""Products of float32 matrices by the faster of the processor's two libraries, whatever PyTorch is set to.

PyTorch multiplies float32 matrices with MKL, which leaves half the speed of some processors unused; the linear layer of
oneDNN computes the same in float32 for one call, with no global setting that other threads would see. Which sizes gain
is measured (`measured.onednn_from`). For kernels that write their own gradients; under autograd MKL does it.
"""

import itertools
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from headwise.attention import measured

# columns of a result that repay a copy of the left side
_COLUMNS = 256


def product(left: Tensor, right: Tensor, room: Callable[[], Tensor] | None = None) -> Tensor:
    """left @ right of tensors (..., rows, inner) and (..., inner, columns) with equal leading sizes.

    Transposed views cost nothing. `room` gives memory of the result's size where a product has none of its own; the
    result may be written into.
    """
    times = _gaining(left, right)
    if times is None:
        return product_of_mkl(left, right, room)
    shape = (*left.shape[:-1], right.shape[-1])
    matrices = left.shape[:-2]
    if matrices.numel() == 1:
        only = (0,) * len(matrices)
        return times(left[only], right[only].mT).view(shape)
    result = left.new_empty(shape) if room is None else room().view(shape)
    for index in itertools.product(*map(range, matrices)):
        result[index] = times(left[index], right[index].mT)
    return result


def product_of_mkl(left: Tensor, right: Tensor, room: Callable[[], Tensor] | None = None) -> Tensor:
    """The same as PyTorch computes it."""
    if room is None:
        return torch.matmul(left, right)
    return torch.matmul(left, right, out=room().view(*left.shape[:-1], right.shape[-1]))


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """x W^T of x (..., inner) and a weight (outer, inner), with gradients of both."""
    output: Tensor = _Linear.apply(x, weight)
    return output


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return product(x.flatten(0, -2), weight.mT).view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        rows = gradient.flatten(0, -2)
        d_x = product(rows, weight).view(x.shape) if ctx.needs_input_grad[0] else None
        return d_x, product(rows.mT, x.flatten(0, -2)) if ctx.needs_input_grad[1] else None


@cache
def linear_of_onednn() -> Callable[[Tensor, Tensor], Tensor] | None:
    """x W^T of two matrices by oneDNN, or None where PyTorch has no such operator."""
    try:
        # not a public operator: absent or changed, MKL does it
        operator = torch.ops.mkldnn._linear_pointwise
        times = lambda x, weight: operator(x, weight, None, "none", [], "")  # noqa: E731
        times(torch.zeros(2, 3), torch.zeros(4, 3))
    except (AttributeError, RuntimeError):
        return None
    return times


def gains(rows: int, inner: int, columns: int, *, several: bool = False) -> bool:
    """Whether oneDNN is the faster one for a float32 product of these sizes, or for each of several.

    It keeps memory for every shape that it ever met, so only round sizes may meet it: few in each doubling.
    """
    least = measured.onednn_from() * (2 if several else 1)
    return rows * inner * columns >= least and all(rounded(size) == size for size in (rows, inner, columns))


def rounded(size: int) -> int:
    """The largest number up to `size` with three significant bits: 8, 10, 12, 14, 16, 20, 24 and so on."""
    unit = 1 << max(0, size.bit_length() - 3)
    return size // unit * unit


def _gaining(left: Tensor, right: Tensor) -> Callable[[Tensor, Tensor], Tensor] | None:
    """oneDNN's x W^T if it is the faster way for this product."""
    if left.dtype != torch.float32 or left.device.type != "cpu" or torch.compiler.is_compiling():
        return None
    if torch.is_grad_enabled() and (left.requires_grad or right.requires_grad):
        return None
    # a left side that is transposed gets copied first
    if left.shape[-1] > 1 and left.stride(-1) != 1 and right.shape[-1] < _COLUMNS:
        return None
    several = left.shape[:-2].numel() > 1
    return linear_of_onednn() if gains(left.shape[-2], left.shape[-1], right.shape[-1], several=several) else None
