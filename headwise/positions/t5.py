"""A learned number for each bucket of distances, added to the scores."""

from bisect import bisect_left
from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Int
from torch import Tensor, nn

from headwise.attention.relative import Relative
from headwise.errors import ConfigError
from headwise.positions.position import Key, Position, Query


class T5(Position):
    """score + table[bucket(j - i), head]: near distances have a learned number each, far ones share.

    With n buckets for a side, distance a has its own below n/2; above, its bucket is n/2 + floor(n/2 log(2a/n) /
    log(2 max_distance/n)), at most n - 1. Bidirectional: later keys have the second half of the buckets; otherwise
    they share bucket 0 with the query's own place. T5 itself does not divide its dot product by sqrt(d), and has one
    table for all layers of an encoder and one for those of a decoder; an instance is one such table.

    Args:
        num_heads: heads of the query.
        bidirectional: whether earlier and later keys are told apart; otherwise all later ones count as distance 0.
        num_buckets: rows of the table, even; at least 4 if bidirectional, else 2.
        max_distance: distance from which on all are one bucket; beyond the distances that have one of their own.
    Raises: ConfigError for buckets or distances that leave no room for both kinds of buckets.
    Source: Raffel et al. 2020, arXiv:1910.10683, section 2.1, and its code.

    >>> query = torch.zeros(1, 3, 5, 8)
    >>> T5(3).relative(query, query, -4, 4).scalar.shape
    torch.Size([3, 9])
    """

    where = "scores"
    extrapolates = "Distances beyond max_distance share a learned number, so any length has its bias."

    def __init__(self, num_heads: int, *, bidirectional: bool = True, num_buckets: int = 32, max_distance: int = 128):
        super().__init__()
        least = 4 if bidirectional else 2
        if num_buckets < least or num_buckets % 2:
            raise ConfigError(f"num_buckets of t5 positions must be even and at least {least}, got {num_buckets}")
        near = num_buckets // least
        if max_distance <= near:
            raise ConfigError(
                f"max_distance of t5 positions ({max_distance}) must be above {near}, the distances that"
                f" {num_buckets} buckets tell apart one by one"
            )
        self.bidirectional, self.max_distance = bidirectional, max_distance
        self.table = nn.Parameter(torch.empty(num_buckets, num_heads))
        nn.init.normal_(self.table, std=0.02)

        wider = num_buckets * 2 // least - near

        def reached(number: int, distance: int) -> bool:
            # wider log(distance / near) / log(max_distance / near) >= number
            return distance**wider >= max_distance**number * near ** (wider - number)

        self._starts = starts(max_distance, wider - 1, reached, near)

    def buckets(self, low: int, high: int) -> Int[Tensor, "size"]:
        """The buckets of the distances (key - query) from `low` to `high`.

        >>> T5(1, bidirectional=False, num_buckets=8, max_distance=16).buckets(-7, 1).tolist()
        [5, 5, 4, 4, 3, 2, 1, 0, 0]
        """
        distances = torch.arange(low, high + 1, device=self.table.device)
        if not self.bidirectional:
            return bucket(distances.neg().clamp(min=0), self._starts)
        return bucket(distances.abs(), self._starts) + (distances > 0) * (self.table.shape[0] // 2)

    def relative(self, query: Query, key: Key, low: int, high: int) -> Relative:
        low, high = torch.sym_max(low, -self.max_distance), torch.sym_min(high, self.max_distance)
        return Relative(low, scalar=self.table.mT.index_select(1, self.buckets(low, high)))


def starts(last: int, wider: int, reached: Callable[[int, int], bool], near: int) -> tuple[int, ...]:
    """The first distance of every bucket but that of 0: 1 .. near, then the first to reach each of the wider ones.

    `reached(number, distance)` is asked in integers, which never round, for numbers from 1 to `wider` and distances
    up to `last`.

    >>> starts(9, 2, lambda number, distance: distance >= 2 ** (number + 1), 2)
    (1, 2, 4, 8)
    """
    numbers = range(1, wider + 1)
    first = (bisect_left(range(last), True, near, key=partial(reached, number)) for number in numbers)
    return (*range(1, near + 1), *first)


def bucket(distances: Int[Tensor, "size"], starts: tuple[int, ...]) -> Int[Tensor, "size"]:
    """How many buckets start at or before each distance, none of which is negative."""
    return torch.bucketize(distances, torch.tensor(starts, device=distances.device), right=True)
