"""Linear attention: a product of features in place of exp(q . k), summed once over the keys."""

from abc import ABC, abstractmethod
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention.mechanisms._recurrence import KERNEL, Call, Keys, Recurrence, State, Terms
from headwise.attention.scores.score import check_built, times

Vectors = Float[Tensor, "batch heads length head_dim"]


class FeatureMap(nn.Module, ABC):
    """phi(x) >= 0, vector -> features whose dot product replaces exp(q . k); the same for queries and keys."""

    @abstractmethod
    def forward(self, x: Vectors) -> Float[Tensor, "batch heads length features"]:
        """The features of each vector."""


class Elu(FeatureMap):
    """phi(x) = elu(x) + 1: x + 1 if positive, else exp(x) (Katharopoulos et al. 2020, arXiv:2006.16236, eq. 7).

    >>> Elu()(torch.tensor([[[[0.0, 3.0]]]])).tolist()
    [[[[1.0, 4.0]]]]
    """

    def forward(self, x: Vectors) -> Float[Tensor, "batch heads length features"]:
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

    def forward(self, x: Vectors) -> Float[Tensor, "batch heads length features"]:
        check_built(self, "head_dim", self.linear.in_features, x.shape[-1])
        return times(self.linear, x).relu()


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

    def forward(self, x: Vectors) -> Float[Tensor, "batch heads length features"]:
        check_built(self, "head_dim", self.linear.in_features, x.shape[-1])
        projected = times(self.linear, x)
        return torch.cat((projected, -projected), dim=-1).softmax(-1)


class Linear(Recurrence):
    """Linear attention: out_i = sum_j (phi(q_i) . phi(k_j)) v_j / sum_j phi(q_i) . phi(k_j).

    Time is linear in length: the sums over keys are matrices of features x head_dim, taken once for all queries, or
    chunk by chunk under a causal mask.

    Args:
        features: phi, applied to queries and keys; elu(x) + 1 if None.
    Raises: as `Recurrence`.
    Source: Katharopoulos et al. 2020, arXiv:2006.16236, eq. 5, 9 (causal) and 18 to 20 (recurrent). The causal form
    works in chunks, where the paper's keeps a sum for each position.

    >>> x = torch.ones(2, 3, 5, 8)
    >>> Linear()(Call(x, x, x)).shape
    torch.Size([2, 3, 5, 8])
    """

    facts = replace(KERNEL, formula="sum_j (phi(q) . phi(k_j)) v_j / sum_j phi(q) . phi(k_j), phi(x) = elu(x) + 1")
    normalised = True

    def __init__(self, features: FeatureMap | None = None):
        super().__init__()
        self.features = Elu() if features is None else features

    def terms(self, call: Call, past: State, keys: Keys | None) -> tuple[Terms, State]:
        return Terms(self.features(call.query), self.features(call.key), call.value), ()
