"""Features of many things at once, dense or as the entries that are not zero, and the linear layer that reads both."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.dropout import checked, drop
from headwise.attention.precision import wide


@dataclass(frozen=True, eq=False)
class SparseRows:
    """A table of features by its entries that are not zero, row by row (CSR).

    Args:
        start: where the entries of each row begin; those of the last row end with the list.
        column: of each entry.
        value: of each entry.
    """

    start: Int[Tensor, "rows"]
    column: Int[Tensor, "entries"]
    value: Float[Tensor, "entries"]

    def to(self, device: torch.device | str) -> "SparseRows":
        """The same on a device."""
        return replace(self, start=self.start.to(device), column=self.column.to(device), value=self.value.to(device))


Features = Float[Tensor, "rows features"] | SparseRows


class FeatureProjection(nn.Module):
    """dropout(x) W + b, where a row of x may be given by its entries that are not zero.

    Of sparse rows only the entries are read: time is entries x width, memory rows x width, and dropout draws a number
    for each entry, since a zero that is dropped stays a zero.

    Args:
        num_features: columns of x.
        width: of the result.
        dropout: on the features, while training.

    >>> layer = FeatureProjection(3, 2)
    >>> sparse = SparseRows(torch.tensor([0, 1]), torch.tensor([2, 0, 2]), torch.tensor([1.0, 4.0, 5.0]))
    >>> dense = torch.tensor([[0.0, 0.0, 1.0], [4.0, 0.0, 5.0]])
    >>> torch.allclose(layer(sparse), layer(dense))
    True
    """

    def __init__(self, num_features: int, width: int, dropout: float = 0.0):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_features, width))
        self.bias = nn.Parameter(torch.zeros(width))
        nn.init.xavier_uniform_(self.weight)
        self.dropout = checked(dropout)

    def forward(self, features: Features) -> Float[Tensor, "rows width"]:
        rate = self.dropout if self.training else 0.0
        if isinstance(features, Tensor):
            return drop(features.to(self.weight.dtype), rate) @ self.weight + self.bias
        # sums of bags are not made in half precision
        weight, value = wide(self.weight), drop(features.value, rate)
        found = F.embedding_bag(
            features.column,
            weight,
            features.start,
            mode="sum",
            per_sample_weights=value.to(weight.dtype),
        )
        return found.to(self.weight.dtype) + self.bias

    def extra_repr(self) -> str:
        return f"features={self.weight.shape[0]}, width={self.weight.shape[1]}, dropout={self.dropout}"
