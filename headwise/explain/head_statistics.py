"""What each head of a layer does over some inputs, as numbers that can be followed through a training; odd heads."""

import collections
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from headwise.explain import heads

# in the order of the rows of `HeadStatistics.values`
STATISTICS = ("entropy", "distance", "diagonal", "first", "redundancy")
# those that compare positions of one sequence
POSITIONAL = ("distance", "diagonal")
# a head with a larger share of the largest entropy attends to all keys alike
UNIFORM = 0.98
# a head that gives one key a larger share of its weight looks at nothing else
ONE_KEY = 0.98
# heads that are more alike do the same
SAME = 0.98
# with fewer rows chance decides
_FEWEST_ROWS = 8

Odd = Literal["uniform", "one key", "same"]


class Flag(NamedTuple):
    """A head that is odd, and why; `other` is the head that does the same, -1 where that is not the reason."""

    head: int
    why: Odd
    other: int = -1


@dataclass(frozen=True, eq=False)
class HeadStatistics:
    """What the heads of one layer do, as means over the rows of some inputs that may choose between keys.

    Args:
        values: `STATISTICS` of each head: entropy as a share of the largest that the allowed keys permit; |query - key|
            in tokens; the weight of the query's own position and of the first key; how alike it is to the other heads,
            by the Jensen-Shannon distance, 0 where there is no other. Distance and own position are NaN where the keys
            are of another sequence.
        one_key: the weight that the key has that is attended to most of all.
        alike: of each two heads how alike they are, from 0 to 1.
        rows: how many rows there are.
    """

    values: Float[np.ndarray, "statistics heads"]
    one_key: Float[np.ndarray, "heads"]
    alike: Float[np.ndarray, "heads heads"]
    rows: int


def looked_at(
    weights: Float[np.ndarray, "heads queries keys"],
    allowed: Float[np.ndarray, "#heads queries"],
    *,
    one_sequence: bool = True,
) -> HeadStatistics:
    """The statistics of one layer and one input.

    Args:
        allowed: how many keys each row may attend to; rows with fewer than two cannot choose, and do not count.
        one_sequence: row and column i are the same position, as in self-attention.

    >>> uniform = looked_at(np.full((1, 3, 4), 0.25), np.full((1, 3), 4.0))
    >>> dict(zip(STATISTICS, uniform.values[:, 0].tolist()))["entropy"], uniform.rows
    (1.0, 3)
    """
    count = len(weights)
    counts = np.broadcast_to(allowed, weights.shape[:2])
    free = np.asarray((counts > 1).all(0))
    if not free.any():
        return HeadStatistics(np.zeros((len(STATISTICS), count)), np.zeros(count), np.eye(count), 0)
    most = np.log(counts[:, free]).mean(-1)
    known = [heads.described(weights, free)] + [heads.positional(weights, free)] * one_sequence
    alike = heads.alike(weights[:, free])
    found = [dict(collections.ChainMap(*parts)) for parts in zip(*known, strict=True)]
    values = np.array([[one.get(name, np.nan) for one in found] for name in STATISTICS[:-1]])
    values[0] = np.minimum(1.0, values[0] / most)
    others = (alike.sum(1) - 1) / (count - 1) if count > 1 else np.zeros(count)
    one_key = weights[:, free].mean(1).max(-1, initial=0.0)
    return HeadStatistics(np.concatenate([values, others[None]]), one_key, alike, int(free.sum()))


def together(found: Sequence[HeadStatistics]) -> HeadStatistics:
    """The same of several inputs, each row counting alike."""
    rows = np.array([one.rows for one in found])
    shares = rows / max(1, rows.sum())
    values, one_key, alike = (
        sum(share * getattr(one, part) for share, one in zip(shares, found, strict=True))
        for part in ("values", "one_key", "alike")
    )
    return HeadStatistics(np.asarray(values), np.asarray(one_key), np.asarray(alike), int(rows.sum()))


def flagged(found: HeadStatistics) -> list[Flag]:
    """The heads that choose no key: alike to all, all on one, or as another head chooses; none of fewer than 8 rows.

    Two heads that are uniform, or on one key, are called that, and not the same. Of two that are the same the later one
    is named.

    >>> weights = np.stack([np.full((9, 9), 1 / 9), np.eye(9), np.eye(9), np.eye(9)[[4] * 9]])
    >>> flagged(looked_at(weights, np.full((1, 9), 9.0)))
    [Flag(head=0, why='uniform', other=-1), Flag(head=2, why='same', other=1), Flag(head=3, why='one key', other=-1)]
    """
    if found.rows < _FEWEST_ROWS:
        return []
    flags: dict[int, Flag] = {}
    for head, (entropy, share) in enumerate(zip(found.values[0], found.one_key, strict=True)):
        if entropy > UNIFORM:
            flags[head] = Flag(head, "uniform")
        elif share > ONE_KEY:
            flags[head] = Flag(head, "one key")
    choosing = [head for head in range(len(found.one_key)) if head not in flags]
    for place, head in enumerate(choosing):
        twin = next((other for other in choosing[:place] if found.alike[head, other] > SAME), None)
        if twin is not None:
            flags[head] = Flag(head, "same", twin)
    return [flags[head] for head in sorted(flags)]
