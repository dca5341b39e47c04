"""Zeros in place of what is hidden, NaN included."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def zeroed(x: Float[Tensor, "*shape"], keep: Bool[Tensor, "..."]) -> Float[Tensor, "*shape"]:
    """x with zeros where `keep`, which broadcasts to it, is False; so is the gradient. NaN stays nowhere.

    One pass, forward and backward, where `masked_fill` takes two.

    >>> zeroed(torch.tensor([1.0, torch.nan]), torch.tensor([True, False])).tolist()
    [1.0, 0.0]
    """
    return torch.where(keep, x, 0.0)
