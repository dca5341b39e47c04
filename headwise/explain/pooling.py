"""Maps of long inputs: means and maxima of blocks of cells, made strip by strip from rows that are made on demand."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

from headwise.cancellation import poll_cancellation
from headwise.errors import ShapeError, Unsupported

Cells = Float[np.ndarray, "rows columns"]
# cells of a side of a map; a longer input is pooled into blocks until it has no more
SIDE = 512
# weights of all rows of a strip
_AT_ONCE = 1 << 22
# weights of a layer that are made all at once
MOST_WHOLE = 1 << 27


@runtime_checkable
class OnDemand(Protocol):
    """Weights of a layer that are made when they are asked for, exactly, without those that are not."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Heads, queries, keys."""
        ...

    def part(self, heads: Sequence[int] | None, queries: slice, keys: slice) -> Float[np.ndarray, "heads queries keys"]:
        """The weights of these heads, queries and keys."""
        ...

    def allowed(self, queries: slice = slice(None)) -> Bool[np.ndarray, "#heads queries keys"] | None:
        """Which pairs of these queries the mask allows; None: all."""
        ...


@dataclass(frozen=True, eq=False)
class Whole:
    """Weights that are there, as if they were made on demand.

    Args:
        mask: which pairs may meet; None: all.
    """

    weights: Float[np.ndarray, "heads queries keys"]
    mask: Bool[np.ndarray, "#heads #queries #keys"] | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        heads, queries, keys = self.weights.shape
        return heads, queries, keys

    def part(self, heads: Sequence[int] | None, queries: slice, keys: slice) -> Float[np.ndarray, "heads queries keys"]:
        return (self.weights if heads is None else self.weights[list(heads)])[:, queries, keys]

    def allowed(self, queries: slice = slice(None)) -> Bool[np.ndarray, "#heads queries keys"] | None:
        if self.mask is None:
            return None
        return np.broadcast_to(self.mask, (len(self.mask), *self.weights.shape[1:]))[:, queries]


def whole(weights: OnDemand) -> Float[np.ndarray, "heads queries keys"]:
    """All weights of a layer. Raises: Unsupported for more than `MOST_WHOLE`."""
    heads, queries, keys = weights.shape
    if heads * queries * keys > MOST_WHOLE:
        raise Unsupported(
            f"this layer has {heads} x {queries:,} x {keys:,} weights, which would take {8 * heads * queries * keys:,}"
            " bytes; ask for a part of them, as layer.part([0], slice(0, 9)), or layer.pooled(0)"
        )
    return weights.part(None, slice(None), slice(None)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Pooled:
    """A map in which each cell stands for a block of `block` x `block` weights, at an end for those that are left.

    Args:
        means, maxima: minus infinity where the mask forbids every pair of a block.
        tops: the largest mean of blocks of 1, 2, 4 and so on up to `block`: what colours of finer maps are scaled by.
    """

    block: int
    means: Cells
    maxima: Cells
    tops: tuple[float, ...]


def block_for(queries: int, keys: int, side: int = SIDE) -> int:
    """The smallest power of two whose blocks make a map of at most `side` rows and columns.

    >>> block_for(8192, 8192), block_for(700, 30), block_for(512, 512)
    (16, 2, 1)
    """
    return 1 << max(0, (max(queries, keys, 1) - 1) // side).bit_length()


# is told of each strip: its first row, its weights, and which pairs its mask allows
See = Callable[[int, Cells, Bool[np.ndarray, "queries keys"] | None], None]


def pooled(weights: OnDemand, head: int, block: int, rows: slice = slice(None), see: See = lambda *_: None) -> Pooled:
    """A head as a map of blocks; of its weights no more than a strip is in memory at once.

    Args:
        block: a power of two.
        rows: queries that the map is of; the first is that of a block.
        see: what looks at each strip of weights besides.

    Raises: ShapeError for another block, or rows that begin within one.
    """
    queries, keys = weights.shape[1:]
    first, last, _ = rows.indices(queries)
    if not isinstance(block, int) or block < 1 or block & (block - 1):
        raise ShapeError(f"block must be a power of two, not {block}")
    if first % block:
        raise ShapeError(f"rows must begin at a multiple of the block, {block}, not at {first}")
    parts = []
    for ends in strips(first, last, keys, block):
        poll_cancellation()
        parts.append(_strip(weights, head, block, slice(*ends), see))
    if not parts:
        empty = np.zeros((0, -(-keys // block)))
        return Pooled(block, empty, empty, (0.0,) * block.bit_length())
    tops = tuple(map(max, zip(*(part.tops for part in parts), strict=True)))
    means, maxima = (
        np.concatenate(cells) for cells in zip(*((part.means, part.maxima) for part in parts), strict=True)
    )
    return Pooled(block, means, maxima, tops)


def strips(first: int, last: int, keys: int, block: int = 1) -> Iterator[tuple[int, int]]:
    """First and last + 1 of the rows that are made at once; each strip but the last holds whole blocks."""
    step = max(1, _AT_ONCE // max(1, keys) // block) * block
    return ((low, min(low + step, last)) for low in range(first, last, step))


def _strip(weights: OnDemand, head: int, block: int, rows: slice, see: See) -> Pooled:
    (values,), every = weights.part([head], rows, slice(None)), weights.allowed(rows)
    allowed = None if every is None else every[head if len(every) > 1 else 0]
    see(rows.start, values, allowed)
    means = list(_means(values, block))
    maxima, tops = _maxima(values, block), tuple(float(level.max(initial=0.0)) for level in means)
    if allowed is None:
        return Pooled(block, means[-1], maxima, tops)
    some = _maxima(allowed, block)
    return Pooled(block, np.where(some, means[-1], -np.inf), np.where(some, maxima, -np.inf), tops)


def _means(values: Cells, block: int) -> Iterator[Cells]:
    """Of blocks of 1, 2, 4 and so on; those of a block are made of those of half of it."""
    yield values
    sums, size = _padded(values, block, 0.0), 1
    while size < block:
        size *= 2
        # rows first, which lie behind each other in memory
        sums = sums[::2] + sums[1::2]
        sums = sums[:, ::2] + sums[:, 1::2]
        counts = np.outer(*(_counts(length, size) for length in values.shape))
        yield sums[: counts.shape[0], : counts.shape[1]] / counts.astype(sums.dtype)


def _maxima(values: np.ndarray, block: int) -> np.ndarray:
    if block == 1:
        return values
    values = _padded(values, block, False if values.dtype == bool else -np.inf)
    tall = np.maximum.reduce(values.reshape(-1, block, values.shape[1]), axis=1)
    return np.asarray(np.maximum.reduce(tall.reshape(len(tall), -1, block), axis=2))


def _padded(values: np.ndarray, block: int, nothing: float | bool) -> np.ndarray:
    """As many rows and columns as whole blocks have."""
    down, across = (-length % block for length in values.shape)
    return np.pad(values, ((0, down), (0, across)), constant_values=nothing) if down or across else values


def _counts(length: int, block: int) -> np.ndarray:
    """Places that each block of a side holds: the last may hold fewer."""
    return np.diff([*range(0, length, block), length])
