"""Heads of long inputs: maps of blocks, made strip by strip and kept within a number of bytes, and rows on demand."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from headwise.attention.mechanisms.mechanism import Rescored
from headwise.errors import ConfigError, Unsupported
from headwise.explain.pooling import SIDE, OnDemand, Pooled, block_for, pooled
from headwise.predictors.looking import Attended
from headwise.records import LayerRecord
from headwise.records.watching import Change

# pairs of a head from which on a page shows blocks
LONG = 1 << 19
# maps of all heads of a trace that are kept
_KEPT_BYTES = 1 << 27

How = Literal["max", "mean"]


def is_long(queries: int, keys: int) -> bool:
    """Whether a head of this size is shown as a map of blocks."""
    return queries * keys > LONG


def on_demand(record: LayerRecord) -> Attended:
    """The weights of a layer, row by row. Raises: Unsupported where its mechanism makes all of them at once."""
    if len(record.calls) > 1:
        raise Unsupported(f"{record.name} was called {len(record.calls)} times: of a long input no row is made alone")
    (recorded,) = record.calls
    if not isinstance(recorded.mechanism, Rescored):
        kind = type(recorded.mechanism).__name__
        raise Unsupported(
            f"{record.name}: {kind} makes the weights of all rows at once, so a long input is not shown;"
            f" give one of at most {LONG:,} pairs of a query and a key"
        )
    if changes := [change for change in recorded.changes if type(change).weights is not Change.weights]:
        raise Unsupported(
            f"{record.name}: {type(changes[0]).__name__} changes all weights of a layer at once, so it is not shown of"
            " a long input; undo the edit, or give a shorter input"
        )
    return Attended(record)


class Maps:
    """Maps of the heads of one trace, the latest ones within a number of bytes."""

    def __init__(self, limit: int = _KEPT_BYTES):
        self._limit = limit
        self._kept: OrderedDict[tuple[str, int, int, int], Pooled] = OrderedDict()
        self._largest: dict[tuple[str, int], tuple[int, int, float]] = {}
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """Memory of the maps that are kept."""
        with self._lock:
            return sum(map(_bytes, self._kept.values()))

    def overview(self, name: str, weights: OnDemand, head: int, special: tuple[list[int], list[int]]) -> dict[str, Any]:
        """The block with which all of a head is seen, what colours of each block are scaled by, and its largest weight.

        Args:
            special: queries and keys among which the largest is not looked for.
        """
        whole = self.whole(name, weights, head, special)
        query, key, weight = self._largest[name, head]
        return {
            "block": whole.block,
            "side": SIDE,
            "tops": {
                "mean": list(whole.tops),
                "max": float(whole.maxima.max(initial=0.0)),
                "later": float(whole.maxima[len(whole.maxima) // 2 :].max(initial=0.0)),
            },
            "hidden": bool((whole.maxima == -np.inf).any()),
            "largest": {"q": query, "k": key, "weight": weight},
        }

    def tile(
        self, name: str, weights: OnDemand, head: int, block: int, how: How, place: tuple[int, int]
    ) -> Float[np.ndarray, "rows columns"]:
        """A part of a map: at most `SIDE` x `SIDE` cells.

        Args:
            block: queries and keys of a side of a cell; 1: exact weights.
            place: which tile from the top, and from the left.

        Raises: ConfigError for a tile that is not there.
        """
        down, across = (-(-length // (SIDE * block)) for length in weights.shape[1:])
        if place[0] >= down or place[1] >= across:
            raise ConfigError(
                f"a map of blocks of {block} has {down} x {across} tiles, from 0; {place} is none of them"
            )
        strip = self._strip(name, weights, head, block, place[0])
        values = strip.maxima if how == "max" else strip.means
        return values[:, SIDE * place[1] : SIDE * (place[1] + 1)]

    def whole(self, name: str, weights: OnDemand, head: int, special: tuple[list[int], list[int]]) -> Pooled:
        """All of a head in blocks; arguments as of `overview`."""
        size = weights.shape[1:]
        block = block_for(*size)
        blocks = self._find((name, head, block, 0))
        if blocks is None or (name, head) not in self._largest:
            seen = Largest(size, special)
            blocks = self._keep((name, head, block, 0), pooled(weights, head, block, see=seen.see))
            self._largest[name, head] = seen.cell
        return blocks

    def _strip(self, name: str, weights: OnDemand, head: int, block: int, number: int) -> Pooled:
        part, rows = (name, head, block, number), SIDE * block
        tile = self._find(part)
        return tile or self._keep(part, pooled(weights, head, block, slice(number * rows, (number + 1) * rows)))

    def _find(self, part: tuple[str, int, int, int]) -> Pooled | None:
        with self._lock:
            if part in self._kept:
                self._kept.move_to_end(part)
            return self._kept.get(part)

    def _keep(self, part: tuple[str, int, int, int], made: Pooled) -> Pooled:
        with self._lock:
            self._kept[part] = made
            while len(self._kept) > 1 and sum(map(_bytes, self._kept.values())) > self._limit:
                self._kept.popitem(last=False)
        return made


class Largest:
    """The largest weight of a head among rows that may choose between keys, or else of all; strips are seen in order.

    Args:
        size: queries and keys.
        special: queries and keys that take no part where there are others.
    """

    def __init__(self, size: Sequence[int], special: tuple[list[int], list[int]] = ([], [])):
        self._rows, self._keys = (
            np.array([] if len(side) >= length else side, int) for side, length in zip(special, size, strict=True)
        )
        # of rows with a choice first
        self._best = (False, -np.inf, 0, 0)

    @property
    def cell(self) -> tuple[int, int, float]:
        """Query, key and weight."""
        _, weight, query, key = self._best
        return query, key, float(weight)

    def see(self, first: int, weights: np.ndarray, allowed: np.ndarray | None) -> None:
        """Looks at the rows from `first` on."""
        choosing = np.ones(len(weights), bool) if allowed is None else allowed.sum(1) > 1
        choosing[self._rows[(self._rows >= first) & (self._rows < first + len(weights))] - first] = False
        hidden = weights[:, self._keys].copy()
        weights[:, self._keys] = -np.inf
        keys = weights.argmax(1)
        tops = weights[np.arange(len(weights)), keys]
        weights[:, self._keys] = hidden
        for chosen in (True, False):
            (rows,) = np.nonzero(choosing == chosen)
            if len(rows):
                row = int(rows[tops[rows].argmax()])
                self._best = max(self._best, (chosen, float(tops[row]), first + row, int(keys[row])), key=_rank)


def _rank(cell: tuple[bool, float, int, int]) -> tuple[bool, float]:
    return cell[:2]


def _bytes(part: Pooled) -> int:
    return part.means.nbytes + part.maxima.nbytes
