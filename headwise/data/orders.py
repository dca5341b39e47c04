"""The order of windows of a text: as many numbers in batches as there are, without a list of all of them."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import overload

import numpy as np

from headwise.data.buckets import permutation

# numbers of a block that is read together, and blocks whose numbers are shuffled together
_BLOCK, _BLOCKS = 1 << 12, 1 << 8
# streams of random bits that the order of the blocks does not use
_STREAMS = 1 << 48

# (first, last + 1) -> what stands at these places
Places = Callable[[int, int], np.ndarray]


class Portions(Sequence[list[int]]):
    """Numbers in batches of `size`, each made when it is asked for; the last one may be smaller.

    >>> list(Portions(5, 2, np.arange))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, count: int, size: int, places: Places) -> None:
        self._count, self._size, self._places = count, size, places

    def __len__(self) -> int:
        return -(-self._count // self._size)

    @overload
    def __getitem__(self, place: int) -> list[int]: ...
    @overload
    def __getitem__(self, place: slice) -> list[list[int]]: ...
    def __getitem__(self, place: int | slice) -> list[int] | list[list[int]]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        if not 0 <= place < len(self):
            raise IndexError(place)
        start = place * self._size
        found: list[int] = self._places(start, min(start + self._size, self._count)).tolist()
        return found


def shuffled_places(count: int, seed: int, stream: int) -> Places:
    """A permutation of 0..count-1 by seed and stream alone.

    Up to a million (2^20) are shuffled as a whole. Of more, blocks of 4,096 neighbours are shuffled, and then the
    numbers of 256 blocks at a time: what is read within some time lies in 256 places, and memory is that of a million
    numbers and of one number a block. What is left at the end joins the last blocks.

    >>> shuffled_places(5, 0, 0)(0, 5).tolist()
    [3, 4, 1, 0, 2]
    """
    group = _BLOCK * _BLOCKS
    if count <= group:
        order = permutation(count, seed, stream)
        return lambda start, stop: order[start:stop]
    blocks = permutation(count // _BLOCK, seed, stream)
    last = -(-len(blocks) // _BLOCKS) - 1

    @lru_cache(maxsize=2)
    def members(number: int) -> np.ndarray:
        own = blocks[number * _BLOCKS : (number + 1) * _BLOCKS]
        found = (own[:, None] * _BLOCK + np.arange(_BLOCK)).ravel()
        if number == last:
            found = np.concatenate([found, np.arange(len(blocks) * _BLOCK, count)])
        return found[permutation(len(found), seed, _STREAMS + (stream << 24) + number)]

    def places(start: int, stop: int) -> np.ndarray:
        numbers = range(min(start // group, last), min((stop - 1) // group, last) + 1)
        pieces = [members(number)[max(0, start - number * group) : stop - number * group] for number in numbers]
        return np.concatenate(pieces)

    return places
