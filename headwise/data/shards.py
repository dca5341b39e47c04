"""Arrays one after another as one long array: nothing is read but what is asked for."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from headwise.errors import ShapeError


class Shards:
    """Flat arrays, such as files that are mapped, in the place of one that would have to be put together.

    Args:
        parts: arrays of one type, none of them empty.

    >>> Shards([np.array([3, 1]), np.array([4])])[1:3].tolist()
    [1, 4]
    """

    def __init__(self, parts: Sequence[np.ndarray]) -> None:
        self.parts = list(parts)
        self._starts = list(accumulate(map(len, self.parts), initial=0))

    def __len__(self) -> int:
        """Numbers of all arrays."""
        return self._starts[-1]

    def __getitem__(self, places: slice) -> np.ndarray:
        """The numbers of a slice: a view where they are in one array. Raises: ShapeError for a step other than one."""
        start, stop, step = places.indices(len(self))
        if step != 1:
            raise ShapeError(f"a slice of shards has no step, got {step}")
        found: list[np.ndarray] = []
        number = bisect_right(self._starts, start) - 1
        while start < stop:
            begin = self._starts[number]
            found.append(self.parts[number][start - begin : stop - begin])
            number += 1
            start = self._starts[number]
        return found[0] if len(found) == 1 else np.concatenate(found) if found else self.parts[0][:0]

    def first(self, count: int) -> "Shards":
        """The first numbers, which are not read."""
        count = min(count, len(self))
        number = max(1, bisect_right(self._starts, count - 1))
        kept = self.parts[:number]
        return Shards([*kept[:-1], kept[-1][: count - self._starts[number - 1]]])


# the numbers of a text, wherever they are
Tokens = np.ndarray | Shards
