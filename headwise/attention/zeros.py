"""Zeros in place of what is hidden, NaN included, in one pass over the numbers."""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd import forward_ad

_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def zeroed(x: Float[Tensor, "*shape"], keep: Bool[Tensor, "..."]) -> Float[Tensor, "*shape"]:
    """x with zeros where `keep`, which broadcasts to it, is False; so is the gradient. NaN stays nowhere.

    On a CPU bits are masked instead of numbers chosen: forward and backward of 264 x 4 x 15 x 32 take a fifth of the
    time of `masked_fill` in float32 and a seventh in bfloat16 (Xeon with AMX, one thread).

    >>> zeroed(torch.tensor([1.0, torch.nan]), torch.tensor([True, False])).tolist()
    [1.0, 0.0]
    """
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return torch.where(keep, x, 0.0)
    learns = x.requires_grad and torch.is_grad_enabled()
    if learns or torch.func.debug_unwrap(x) is not x or forward_ad.unpack_dual(x).tangent is not None:
        kept: Tensor = _Zeroed.apply(x, keep)
        return kept
    return _Zeroed.forward(x, keep)


class _Zeroed(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, keep: Tensor) -> Tensor:
        bits = _BITS[x.element_size()]
        return (x.view(bits) & keep.to(bits).neg_()).view(x.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[1])
        ctx.save_for_forward(inputs[1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return zeroed(gradient, *ctx.saved_tensors), None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: Any) -> Tensor:
        return zeroed(tangent, *ctx.saved_tensors)
