"""Scores that are a product of the query and the key."""

import torch
from torch import Tensor, nn

from headwise.attention.scores.score import AsDot, Key, KvKey, Query, Score, Scores, check_built


class Dot(Score):
    """q . k (Luong et al. 2015, arXiv:1508.04025, eq. 8 "dot")."""

    def forward(self, query: Query, key: Key) -> Scores:
        return query @ key.mT

    def as_dot(self, query: Query, key: KvKey) -> tuple[AsDot, AsDot, float]:
        return query, key, 1.0


class ScaledDot(Score):
    """q . k / sqrt(d), which keeps the variance of the scores at 1 (Vaswani et al. 2017, arXiv:1706.03762, eq. 1).

    >>> ScaledDot()(torch.ones(1, 1, 1, 4), torch.ones(1, 1, 1, 4)).item()
    2.0
    """

    def forward(self, query: Query, key: Key) -> Scores:
        return (query @ key.mT) * _root(query)

    def as_dot(self, query: Query, key: KvKey) -> tuple[AsDot, AsDot, float]:
        return query, key, _root(query)


class Bilinear(Score):
    """q^T W k with one learned W for all heads (Luong et al. 2015, arXiv:1508.04025, eq. 8 "general").

    Args:
        query_dim: width of a query.
        key_dim: width of a key.
    """

    def __init__(self, query_dim: int, key_dim: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(query_dim, key_dim))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, query: Query, key: Key) -> Scores:
        return (query @ self.weight.to(query.dtype)) @ key.mT

    def as_dot(self, query: Query, key: KvKey) -> tuple[AsDot, AsDot, float]:
        return query @ self.weight.to(query.dtype), key, 1.0

    def check(self, query_dim: int, key_dim: int) -> None:
        check_built(self, tuple(self.weight.shape), (query_dim, key_dim))


def _root(query: Tensor) -> float:
    # a head of no width has no score; any finite scale will do
    return max(1, query.shape[-1]) ** -0.5
