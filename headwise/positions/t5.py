"""A learned number for each bucket of distances, added to the scores."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.attention.relative import Relative
from headwise.errors import ConfigError
from headwise.positions.position import Position


def bucket(distance: int, *, bidirectional: bool, num_buckets: int, max_distance: int) -> int:
    """The bucket of a distance (key - query): one each for near ones, then wider and wider ones up to max_distance.

    With n buckets for a side, distance a has its own below n/2; above, its bucket is n/2 + floor(n/2 log(2a/n) /
    log(2 max_distance/n)), at most n - 1. Bidirectional: later keys have the second half of the buckets; otherwise
    they share bucket 0 with the query's own place.

    >>> [bucket(-a, bidirectional=False, num_buckets=8, max_distance=16) for a in (0, 3, 4, 5, 6, 15, 99)]
    [0, 3, 4, 4, 5, 7, 7]
    """
    side = num_buckets // 2 if bidirectional else num_buckets
    base = side if bidirectional and distance > 0 else 0
    away = abs(distance) if bidirectional else max(0, -distance)
    exact = side // 2
    if away < exact:
        return base + away
    wider = side - exact
    # floor(wider log(away/exact) / log(max_distance/exact)) >= b, written in integers, which never round
    reached = [b for b in range(wider) if away**wider >= max_distance**b * exact ** (wider - b)]
    return base + exact + reached[-1]


class T5(Position):
    """score + table[bucket(j - i), head]: near distances have a learned number each, far ones share.

    Beyond max_distance all distances are one bucket. T5 itself does not divide its dot product by sqrt(d), and has
    one table for all layers of an encoder and one for those of a decoder; an instance is one such table.

    Args:
        num_heads: heads of the query.
        bidirectional: whether earlier and later keys are told apart; otherwise all later ones count as distance 0.
        num_buckets: rows of the table, even; at least 4 if bidirectional, else 2.
        max_distance: distance from which on all are one bucket; beyond the distances that have one of their own.
    Raises:
        ConfigError: for buckets or distances that leave no room for both kinds of buckets.
    Source: Raffel et al. 2020, arXiv:1910.10683, section 2.1, and its code.

    >>> query = torch.zeros(1, 3, 5, 8)
    >>> T5(3).relative(query, query, -4, 4).scalar.shape
    torch.Size([3, 9])
    """

    where = "scores"
    extrapolates = "Distances beyond max_distance share a learned number, so any length has its bias."
    paper = "Raffel et al. 2020, arXiv:1910.10683"

    _buckets: Tensor

    def __init__(self, num_heads: int, *, bidirectional: bool = True, num_buckets: int = 32, max_distance: int = 128):
        super().__init__()
        least = 4 if bidirectional else 2
        if num_buckets < least or num_buckets % 2:
            raise ConfigError(f"num_buckets of t5 positions must be even and at least {least}, got {num_buckets}")
        exact = num_buckets // least
        if max_distance <= exact:
            raise ConfigError(
                f"max_distance of t5 positions ({max_distance}) must be above {exact}, the distances that"
                f" {num_buckets} buckets tell apart one by one"
            )
        self.max_distance = max_distance
        self.table = nn.Parameter(torch.empty(num_buckets, num_heads))
        nn.init.normal_(self.table, std=0.02)
        found = [
            bucket(n, bidirectional=bidirectional, num_buckets=num_buckets, max_distance=max_distance)
            for n in range(-max_distance, max_distance + 1)
        ]
        self.register_buffer("_buckets", torch.tensor(found), persistent=False)

    @classmethod
    def sized(cls, d_model: int, head_dim: int, num_heads: int, max_len: int) -> "T5":
        return cls(num_heads)

    def buckets(self, low: int, high: int) -> Int[Tensor, "size"]:
        """The buckets of the distances low .. high, none beyond max_distance."""
        return self._buckets[low + self.max_distance : high + 1 + self.max_distance]

    def relative(
        self,
        query: Float[Tensor, "batch heads query_len head_dim"],
        key: Float[Tensor, "batch kv_heads key_len head_dim"],
        low: int,
        high: int,
    ) -> Relative:
        low, high = max(low, -self.max_distance), min(high, self.max_distance)
        return Relative(low, scalar=self.table[self.buckets(low, high)].mT)
