"""Dropout with cheap random numbers: on a processor four elements share one draw of 64 bits.

PyTorch draws and compares a number for each element there, which costs as much as a small product. Measured on a Xeon
(Sapphire Rapids, one thread, forward and backward of 4,096 x 128): FIGURES.
"""

import torch
from jaxtyping import Float, Int16
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.errors import ConfigError

# of fewer elements PyTorch's own dropout is faster
_FEW = 2048


def drop(x: Float[Tensor, "*shape"], dropout: float) -> Float[Tensor, "*shape"]:
    """x with elements zeroed at the rate `dropout` and the others divided by 1 - dropout, in training or not.

    The rate is met to 1/65,536. `torch.manual_seed` and the random state of the tensor's device govern the draws.

    >>> drop(torch.ones(2, 3), 0.0).tolist()
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """
    if dropout == 0.0:
        return x
    if _by_pytorch(x):
        return F.dropout(x, dropout)
    return x * _kept(x, dropout).to(x.dtype) * _scale(dropout)


def dropout_add(
    residual: Float[Tensor, "*shape"], branch: Float[Tensor, "*shape"], dropout: float
) -> Float[Tensor, "*shape"]:
    """residual + drop(branch, dropout) in the type of the residual, in fewer passes."""
    branch = branch.to(residual.dtype)
    if dropout == 0.0 or _by_pytorch(branch):
        return residual + drop(branch, dropout)
    return torch.addcmul(residual, branch, _kept(branch, dropout).to(branch.dtype), value=_scale(dropout))


class Dropout(nn.Module):
    """Zeroes elements at a rate while training and scales the others by 1 / (1 - rate); the identity in `eval()`.

    Inverted dropout (Srivastava et al. 2014, section 10): nothing is left to do at test time.

    Args:
        dropout: probability of zeroing an element, from 0 to below 1.
    Raises:
        ConfigError: another rate.

    >>> Dropout(0.5).eval()(torch.ones(3)).tolist()
    [1.0, 1.0, 1.0]
    """

    def __init__(self, dropout: float):
        super().__init__()
        if not 0.0 <= dropout < 1.0:
            raise ConfigError(f"dropout ({dropout}) must be at least 0 and below 1")
        self.dropout = dropout

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return drop(x, self.dropout) if self.training else x

    def extra_repr(self) -> str:
        return f"{self.dropout}"


def _by_pytorch(x: Tensor) -> bool:
    return torch.compiler.is_compiling() or x.device.type != "cpu" or x.numel() < _FEW


def _kept(x: Float[Tensor, "*shape"], dropout: float) -> Int16[Tensor, "*shape"]:
    """1 where an element stays."""
    least = _threshold(dropout) - 2**15
    words = x.new_empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    # a comparison is many times slower
    return words.view(torch.int16)[: x.numel()].view(x.shape).clamp(least - 1, least).sub_(least - 1)


def _scale(dropout: float) -> float:
    return 2**16 / (2**16 - _threshold(dropout))


def _threshold(dropout: float) -> int:
    """How many of 65,536 numbers mean that an element is dropped."""
    return min(2**16 - 1, max(1, round(dropout * 2**16)))
