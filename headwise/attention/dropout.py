"""Dropout with cheap masks: one random byte an element, rates rounded to 1/256.

PyTorch draws a whole random number per element on a CPU and compares it in floating point, which costs as much as a
matrix product. Here eight elements share one 64-bit draw of the same generator, so `torch.manual_seed` governs it.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from headwise.errors import ConfigError


def rate(dropout: float) -> float:
    """The rate that is applied: the nearest multiple of 1/256, at least 1/256 unless 0.

    >>> rate(0.1)
    0.1015625
    """
    return _threshold(dropout) / 256


def kept_scale(dropout: float) -> float:
    """What a kept element is multiplied by, so that its expectation does not change."""
    return 256 / (256 - _threshold(dropout))


def draw(shape: torch.Size | tuple[int, ...], dropout: float, device: torch.device) -> UInt8[Tensor, "..."]:
    """A mask of the shape: 1 where an element is kept, 0 with probability `rate(dropout)`."""
    count = math.prod(shape)
    threshold = _threshold(dropout)
    words = torch.empty((count + 7) // 8, dtype=torch.int64, device=device).random_(-(2**63), None)
    octets = words.view(torch.uint8)[:count]
    if device.type != "cpu" or torch.compiler.is_compiling():
        return (octets >= threshold).view(torch.uint8).view(shape)
    # this comparison is 20 times faster through NumPy's loops
    kept = np.greater_equal(octets.numpy(), threshold)
    return torch.from_numpy(kept).view(torch.uint8).view(shape)


def dropout_add(
    residual: Float[Tensor, "*shape"], branch: Float[Tensor, "*shape"], dropout: float
) -> Float[Tensor, "*shape"]:
    """residual + dropout(branch), in one pass; the result has the residual's dtype."""
    if dropout == 0.0:
        return residual + branch
    output: Tensor = _DropoutAdd.apply(residual, branch, dropout)
    return output


class Dropout(nn.Module):
    """Zeroes elements at `rate` while training and scales the others by 1 / (1 - rate); the identity in `eval()`.

    Inverted dropout (Srivastava et al. 2014, section 10): nothing is left to do at test time.

    Args:
        dropout: probability of zeroing an element, from 0 to below 1; rounded to 1/256.
    """

    def __init__(self, dropout: float):
        super().__init__()
        if not 0.0 <= dropout < 1.0:
            raise ConfigError(f"dropout ({dropout}) must be at least 0 and below 1")
        self.dropout = dropout

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        if not self.training or self.dropout == 0.0:
            return x
        output: Tensor = _Dropout.apply(x, self.dropout)
        return output

    def extra_repr(self) -> str:
        return f"{self.dropout}"


def _threshold(dropout: float) -> int:
    return 0 if dropout == 0.0 else min(255, max(1, round(dropout * 256)))


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dropout):
        kept = draw(x.shape, dropout, x.device)
        ctx.save_for_backward(kept)
        ctx.scale = kept_scale(dropout)
        return (x * kept).mul_(ctx.scale)

    @staticmethod
    def backward(ctx, gradient):
        (kept,) = ctx.saved_tensors
        return (gradient * kept).mul_(ctx.scale), None


class _DropoutAdd(torch.autograd.Function):
    @staticmethod
    def forward(ctx, residual, branch, dropout):
        kept = draw(branch.shape, dropout, branch.device)
        ctx.save_for_backward(kept)
        ctx.scale, ctx.dtype = kept_scale(dropout), branch.dtype
        return torch.addcmul(residual, branch.to(residual.dtype), kept.to(residual.dtype), value=ctx.scale)

    @staticmethod
    def backward(ctx, gradient):
        (kept,) = ctx.saved_tensors
        return gradient, (gradient * kept).mul_(ctx.scale).to(ctx.dtype), None


@contextmanager
def restored(random_state: Tensor | None) -> Iterator[None]:
    """Inside, random numbers are those that followed this state of the generator; outside nothing changes."""
    if random_state is None:
        yield
        return
    now = torch.get_rng_state()
    torch.set_rng_state(random_state)
    try:
        yield
    finally:
        torch.set_rng_state(now)
