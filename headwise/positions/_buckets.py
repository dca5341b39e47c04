"""Buckets of distances: one each for near ones, then wider and wider ones."""

from bisect import bisect_left
from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Int
from torch import Tensor


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
