"""Dice, an activation whose bend lies where the data does."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class Dice(nn.Module):
    """p(s) s + (1 - p(s)) alpha s with p(s) = sigmoid((s - E[s]) / sqrt(Var[s] + epsilon)), column by column.

    Mean and variance are those of the batch in training, and their running means afterwards, so that an answer does not
    depend on what stands beside it. A batch of one row has no variance and uses the running ones. With mean 0 and
    variance 0 it is PReLU.

    Args:
        width: columns, each with an alpha of its own, which begins at 0.
        epsilon: of the paper, 1e-8.
        momentum: share of a batch in the running means.
    Source: Zhou et al. 2018, arXiv:1706.06978, section 5.2.

    >>> Dice(2).eval()(torch.zeros(3, 2)).tolist()
    [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    """

    def __init__(self, width: int, epsilon: float = 1e-8, momentum: float = 0.1):
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(width))
        self.norm = nn.BatchNorm1d(width, eps=epsilon, momentum=momentum, affine=False)

    def forward(self, x: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows width"]:
        rows, norm = x.flatten(0, -2), self.norm
        if rows.shape[0] > 1:
            normed = norm(rows)
        else:
            # PyTorch's refuses to train on one row, which has no variance
            normed = F.batch_norm(rows, norm.running_mean, norm.running_var, eps=norm.eps)
        share = normed.sigmoid().view_as(x)
        return share * x + (1 - share) * self.alpha * x
