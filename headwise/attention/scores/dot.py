"""Scores that are a product of the query and the key, or of what is put beside them."""

import math

import torch
from torch import Tensor, nn

from headwise.attention.scores.score import AsDot, KvKey, Product, Query
from headwise.errors import ConfigError


class Dot(Product):
    """scale q . k (Luong et al. 2015, arXiv:1508.04025, eq. 8 "dot").

    Args:
        scale: a fixed factor.
    Raises: ConfigError: a scale that is not finite.

    >>> Dot(scale=0.25)(torch.ones(1, 1, 1, 4), torch.ones(1, 1, 1, 4)).item()
    1.0
    """

    def __init__(self, scale: float = 1.0):
        super().__init__()
        if not math.isfinite(scale):
            raise ConfigError(f"scale ({scale}) of a dot product must be finite, such as 0.125")
        self.scale = scale

    def as_dot(self, query: Query, key: KvKey) -> tuple[AsDot, AsDot, float]:
        return query, key, self.scale


class ScaledDot(Product):
    """q . k / sqrt(d), which keeps the variance of the scores at 1 (Vaswani et al. 2017, arXiv:1706.03762, eq. 1).

    >>> ScaledDot()(torch.ones(1, 1, 1, 4), torch.ones(1, 1, 1, 4)).item()
    2.0
    """

    def as_dot(self, query: Query, key: KvKey) -> tuple[AsDot, AsDot, float]:
        # a head of no width has no score; any finite scale will do
        return query, key, max(1, query.shape[-1]) ** -0.5


class Bilinear(Product):
    """q^T W k with one learned W for all heads (Luong et al. 2015, arXiv:1508.04025, eq. 8 "general").

    Args:
        query_dim: width of a query.
        key_dim: width of a key.
    >>> Bilinear(3, 5)(torch.ones(2, 1, 4, 3), torch.ones(2, 1, 7, 5)).shape
    torch.Size([2, 1, 4, 7])
    """

    def __init__(self, query_dim: int, key_dim: int):
        super().__init__()
        self.widths = (query_dim, key_dim)
        self.weight = nn.Parameter(torch.empty(query_dim, key_dim))
        nn.init.xavier_uniform_(self.weight)

    def as_dot(self, query: Query, key: KvKey) -> tuple[AsDot, AsDot, float]:
        return query @ self.weight.to(query.dtype), key, 1.0


class Distance(Product):
    """-|q - k|^2 / (2 sqrt(d)): the nearer a key is to the query, the higher; under softmax a Gaussian kernel.

    That is q . k / sqrt(d) less |q|^2 / (2 sqrt(d)) and |k|^2 / (2 sqrt(d)), so long keys gain nothing by their
    length. It is computed as this product, exact to rounding where vectors are not far longer than their distance.
    Source: Nadaraya 1964 and Watson 1964 (kernel regression), as in Zhang et al., "Dive into Deep Learning", 11.2.

    >>> Distance()(torch.tensor([[[[3.0, 0.0, 0.0, 1.0]]]]), torch.tensor([[[[1.0, 0.0, 0.0, 1.0]]]])).item()
    -1.0
    """

    def as_dot(self, query: Query, key: KvKey) -> tuple[AsDot, AsDot, float]:
        return _with(query, half=0), _with(key, half=1), 1 / math.sqrt(max(1, query.shape[-1]))


def _with(x: Tensor, half: int) -> Tensor:
    """x beside 1 and -|x|^2 / 2, which of these first is told by `half`: the halves of a query and a key meet ones."""
    square = -x.square().sum(-1, keepdim=True) / 2
    ones = torch.ones_like(square)
    return torch.cat([x, ones, square] if half else [x, square, ones], -1)
