"""Feature maps of linear attention: vector -> features, none negative, whose dot product replaces exp(q . k)."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.mechanisms._linear_inputs import check_width

Vectors = Float[Tensor, "batch heads length head_dim"]
Features = Float[Tensor, "batch heads length features"]


class FeatureMap(nn.Module, ABC):
    """phi(x) >= 0, the same for queries and keys, each vector by itself."""

    @abstractmethod
    def forward(self, x: Vectors) -> Features:
        """The features of each vector."""


class Elu(FeatureMap):
    """phi(x) = elu(x) + 1: x + 1 if positive, else exp(x) (Katharopoulos et al. 2020, arXiv:2006.16236, eq. 7).

    >>> Elu()(torch.tensor([[[[0.0, 3.0]]]])).tolist()
    [[[[1.0, 4.0]]]]
    """

    def forward(self, x: Vectors) -> Features:
        # elu(x) + 1 itself rounds to 0 below -17 in float32
        positive = x.relu()
        return (x - positive).exp() + positive


class Rectified(FeatureMap):
    """phi(x) = relu(W x + b), learned (Kasai et al. 2021, arXiv:2103.13076).

    A query whose features are all zero attends to nothing and gives zero. One W for all heads; the paper has one each.

    Args:
        head_dim: width of a query.
        features: width of phi.

    >>> Rectified(8, 32)(torch.ones(2, 3, 5, 8)).shape
    torch.Size([2, 3, 5, 32])
    """

    def __init__(self, head_dim: int, features: int):
        super().__init__()
        self.linear = nn.Linear(head_dim, features)

    def forward(self, x: Vectors) -> Features:
        return _times(self.linear, x).relu()


class Hedgehog(FeatureMap):
    """phi(x) = softmax([W x + b, -W x - b]), learned to be as peaked as exp (Zhang et al. 2024, arXiv:2402.04347).

    W starts as the identity. Softmax over the features in place of exp cannot overflow. One W for all heads and for
    queries and keys; the paper has one each.

    Args:
        head_dim: width of a query; phi is twice as wide.

    >>> Hedgehog(8)(torch.ones(2, 3, 5, 8)).shape
    torch.Size([2, 3, 5, 16])
    """

    def __init__(self, head_dim: int):
        super().__init__()
        self.linear = nn.Linear(head_dim, head_dim)
        nn.init.eye_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Vectors) -> Features:
        projected = _times(self.linear, x)
        return torch.cat((projected, -projected), dim=-1).softmax(-1)


def _times(linear: nn.Linear, x: Tensor) -> Tensor:
    check_width("the feature map", linear.in_features, x.shape[-1])
    # the vectors are wider than the parameters of a half-precision model
    return F.linear(x, linear.weight.to(x.dtype), linear.bias.to(x.dtype))
