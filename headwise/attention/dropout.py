"""Dropout with cheap random numbers: on a processor eight elements share a draw of 64 bits.

PyTorch draws a number for each element there, which costs as much as a small product; `python -m benchmarks.gradients`
sets both side by side.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.errors import ConfigError

# PyTorch's own is faster where a call costs more than its elements
_FEW = 2**13
_COLUMNS = 2**12


def drop(x: Float[Tensor, "*shape"], dropout: float) -> Float[Tensor, "*shape"]:
    """x with elements zeroed at the rate `dropout` and the others divided by 1 - dropout, in training or not.

    The rate is met to one in a million. `torch.manual_seed` and the random state of the device of x govern the draws.
    On a processor, elements a multiple of 4,096 apart are all but independent: knowing one moves the odds of the
    other by less than 1/256.

    Args:
        dropout: from 0 to below 1.
    Raises:
        ConfigError: another rate.

    >>> drop(torch.ones(2, 3), 0.0).tolist()
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """
    if dropout == 0.0:
        return x
    return x * _factors(x, dropout) if _draws_cheaply(x, dropout) else F.dropout(x, check_dropout(dropout))


def dropout_add(
    residual: Float[Tensor, "*shape"], branch: Float[Tensor, "*shape"], dropout: float
) -> Float[Tensor, "*shape"]:
    """residual + drop(branch, dropout) in the type of the residual."""
    branch = branch.to(residual.dtype)
    if _draws_cheaply(branch, dropout):
        return torch.addcmul(residual, branch, _factors(branch, dropout))
    return residual + drop(branch, dropout)


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
        self.dropout = check_dropout(dropout)

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return drop(x, self.dropout) if self.training else x

    def extra_repr(self) -> str:
        return f"{self.dropout}"


def check_dropout(dropout: float) -> float:
    """The rate. Raises: ConfigError if it is none from 0 to below 1."""
    if not isinstance(dropout, int | float) or not 0.0 <= dropout < 1.0:
        raise ConfigError(f"dropout ({dropout!r}) must be at least 0 and below 1")
    return dropout


def _draws_cheaply(x: Tensor, dropout: float) -> bool:
    few = torch.compiler.is_compiling() or x.device.type != "cpu" or x.numel() < _FEW
    return not few and 1 / 256 <= dropout <= 255 / 256


def _factors(x: Float[Tensor, "*shape"], dropout: float) -> Float[Tensor, "*shape"]:
    """What each element is multiplied by: 0 where its byte is below a bound from 1 to 255, else the same scale."""
    share = round(dropout * 2**24)
    # bytes alone tell rates apart by 1/256: the bound is one higher in some of the columns, drawn anew each time
    bound, more = divmod(share, 2**16)
    low = (_bits((_COLUMNS // 4,), x).view(torch.int16) < more - 2**15).to(torch.int8).add_(bound - 129)
    words = _bits((-(-x.numel() // _COLUMNS), _COLUMNS // 8), x)
    # 0 or 1; to compare, whose result is bool, is slower
    keep = words.view(torch.int8).clamp(low, low + 1).sub_(low).view(-1)[: x.numel()].view(x.shape)
    return keep.to(x.dtype).mul_(2**24 / (2**24 - share))


def _bits(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Words of 64 random bits."""
    return like.new_empty(shape, dtype=torch.int64).random_(-(2**63), None)
