"""What heads do, as numbers: per head, over several inputs, which heads are odd, how alike they are; thumbnails."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, UInt8

Weights = Float[np.ndarray, "heads queries keys"]
Odd = Literal["uniform", "one key", "same"]

# in the order of the rows of `HeadStatistics.values`
STATISTICS = ("entropy", "distance", "diagonal", "first", "redundancy")
# these compare positions of one sequence
POSITIONAL = ("distance", "diagonal")
# a head above this share of the largest entropy attends to all keys alike
UNIFORM = 0.98
# a head with more than this share of its weight on one key ignores the rest
ONE_KEY = 0.98
# heads more alike than this are duplicates
SAME = 0.98
# in fewer rows a head may look odd by chance
_FEWEST_ROWS = 8


def describe(
    weights: Weights, *, one_sequence: bool, rows: Bool[np.ndarray, "queries"] | None = None
) -> dict[str, Float[np.ndarray, "heads"]]:
    """Means over the rows of each head, by name; each row is scaled to sum to one.

    entropy: in nats; effective: exp(entropy), the number of keys attended to; first: the weight of the first key;
    largest: the largest weight of the row. In one sequence also distance: |query - key|; diagonal: the weight of the query's own
    position; previous: that of the position before, where there is one.

    Args:
        one_sequence: row and column i are the same position.

    >>> table = describe(np.eye(4)[None, [0, 0, 1, 2]], one_sequence=True)
    >>> {name: float(values[0]) for name, values in table.items() if name != "first"}
    {'entropy': 0.0, 'effective': 1.0, 'largest': 1.0, 'distance': 0.75, 'diagonal': 0.25, 'previous': 1.0}
    """
    queries, keys = weights.shape[1:]
    counted = np.ones(queries, bool) if rows is None else rows
    shares = _shares(weights)
    spread = entropy(shares[:, counted])
    table = {
        "entropy": _mean(spread),
        "effective": _mean(np.exp(spread)),
        "first": _mean(shares[:, counted, 0]) if keys else np.zeros(len(weights)),
        "largest": _mean(weights[:, counted].max(-1, initial=0.0)),
    }
    if one_sequence:
        distance = np.abs(np.arange(queries)[:, None] - np.arange(keys))
        table["distance"] = _mean((shares * distance).sum(-1)[:, counted])
        table["diagonal"], table["previous"] = (_mean(_at_offset(shares, offset, counted)) for offset in (0, -1))
    return table


def roles(
    weights: Weights, labels: Sequence[str], separators: Bool[np.ndarray, "keys"], *, causal: bool
) -> dict[str, Float[np.ndarray, "heads"]]:
    """The weight on keys that stand to the query in some way, within one sequence: means over the rows that have such
    keys; only those that some row has. Rows are scaled to sum to one.

    next: the position behind; separator: all separators; same: the other positions with the label of the query;
    induction: the positions right behind an earlier one with the label of the query.

    Args:
        labels: of each position; those of equal text are the same.
        separators: which positions are special tokens or punctuation.
        causal: a query attends to no later key.

    Source: Clark et al. 2019, arXiv:1906.04341, section 3 (next, separator); Olsson et al. 2022, arXiv:2209.11895
    (induction).

    >>> labels, weights = ["a", "b", "a", "b"], np.eye(4)[None, [0, 0, 1, 2]]
    >>> {name: float(value[0]) for name, value in roles(weights, labels, np.zeros(4, bool), causal=True).items()}
    {'same': 0.0, 'induction': 1.0}
    """
    shares, positions = _shares(weights), np.arange(len(labels))
    texts = np.array([label.strip() for label in labels])
    equal = (texts[:, None] == texts) & (positions[:, None] != positions)
    earlier = equal & (positions < positions[:, None])
    keys = {
        "next": np.eye(len(labels), k=1, dtype=bool),
        "separator": np.broadcast_to(separators, equal.shape),
        "same": equal,
        # one behind an earlier one, as far as that is not the query itself
        "induction": np.pad(earlier, ((0, 0), (1, 0)))[:, :-1] & (positions != positions[:, None]),
    }
    if causal:
        keys = {name: pairs & (positions <= positions[:, None]) for name, pairs in keys.items()}
    return {
        name: _mean(np.einsum("hqk,qk->hq", shares, pairs.astype(shares.dtype))[:, pairs.any(1)])
        for name, pairs in keys.items()
        if pairs.any()
    }


@dataclass(frozen=True, eq=False)
class HeadStatistics:
    """The heads of one layer: means over the rows of some inputs that may choose between keys.

    Args:
        values: `STATISTICS` of each head: entropy as a share of the largest that the allowed keys permit; |query - key|
            in tokens; the weight of the query's own position and of the first key; the mean similarity to the other
            heads, 0 where there is no other. Distance and own position are NaN where the keys are another sequence.
        one_key: the mean weight of the key that is attended to most.
        alike: the `similarity` of each two heads.
    """

    values: Float[np.ndarray, "statistics heads"]
    one_key: Float[np.ndarray, "heads"]
    alike: Float[np.ndarray, "heads heads"]
    rows: int

    @classmethod
    def of(
        cls, weights: Weights, allowed: Float[np.ndarray, "#heads queries"], *, one_sequence: bool = True
    ) -> "HeadStatistics":
        """The statistics of one layer and one input.

        Args:
            allowed: how many keys each row may attend to; rows with fewer than two cannot choose and do not count.
            one_sequence: row and column i are the same position, as in self-attention.

        >>> uniform = HeadStatistics.of(np.full((1, 3, 4), 0.25), np.full((1, 3), 4.0))
        >>> dict(zip(STATISTICS, uniform.values[:, 0].tolist()))["entropy"], uniform.rows
        (1.0, 3)
        """
        count = len(weights)
        counts = np.broadcast_to(allowed, weights.shape[:2])
        rows = np.asarray((counts > 1).all(0))
        if not rows.any():
            return cls(np.zeros((len(STATISTICS), count)), np.zeros(count), np.eye(count), 0)
        table = describe(weights, one_sequence=one_sequence, rows=rows)
        table["entropy"] = np.minimum(1.0, table["entropy"] / np.log(counts[:, rows]).mean(-1))
        similarities = similarity(weights[:, rows])
        table["redundancy"] = (similarities.sum(1) - 1) / (count - 1) if count > 1 else np.zeros(count)
        values = np.stack([table.get(name, np.full(count, np.nan)) for name in STATISTICS])
        return cls(values, weights[:, rows].mean(1).max(-1, initial=0.0), similarities, int(rows.sum()))

    @classmethod
    def mean(cls, inputs: Sequence["HeadStatistics"]) -> "HeadStatistics":
        """The statistics over several inputs; each row counts alike."""
        rows = np.array([statistics.rows for statistics in inputs])
        shares = rows / max(1, rows.sum())
        values, one_key, similarities = (
            np.asarray(sum(share * getattr(statistics, name) for share, statistics in zip(shares, inputs, strict=True)))
            for name in ("values", "one_key", "alike")
        )
        return cls(values, one_key, similarities, int(rows.sum()))


class Flag(NamedTuple):
    """An odd head and why; `other` is the head that does the same, -1 where that is not the reason."""

    head: int
    why: Odd
    other: int = -1


def odd_heads(statistics: HeadStatistics) -> list[Flag]:
    """The heads that choose no key: uniform, all on one key, or the same as another head; none in fewer than 8 rows.

    Two heads that are uniform, or on one key, are flagged as that, not as the same. Of two that are the same the later
    one is flagged.

    >>> weights = np.stack([np.full((9, 9), 1 / 9), np.eye(9), np.eye(9), np.eye(9)[[4] * 9]])
    >>> odd_heads(HeadStatistics.of(weights, np.full((1, 9), 9.0)))
    [Flag(head=0, why='uniform', other=-1), Flag(head=2, why='same', other=1), Flag(head=3, why='one key', other=-1)]
    """
    if statistics.rows < _FEWEST_ROWS:
        return []
    flags: dict[int, Flag] = {}
    for head, (entropy, share) in enumerate(zip(statistics.values[0], statistics.one_key, strict=True)):
        if entropy > UNIFORM:
            flags[head] = Flag(head, "uniform")
        elif share > ONE_KEY:
            flags[head] = Flag(head, "one key")
    choosing = [head for head in range(len(statistics.one_key)) if head not in flags]
    for number, head in enumerate(choosing):
        twin = next((other for other in choosing[:number] if statistics.alike[head, other] > SAME), None)
        if twin is not None:
            flags[head] = Flag(head, "same", twin)
    return [flags[head] for head in sorted(flags)]


def entropy(rows: Float[np.ndarray, "*rows keys"], log: np.ufunc = np.log) -> Float[np.ndarray, "*rows"]:
    """Entropy of each row in nats, or the unit of another logarithm; 0 for a row without any weight.

    >>> float(entropy(np.array([0.25, 0.25, 0.25, 0.25])).round(4))
    1.3863
    """
    return np.asarray(-(rows * log(rows, out=np.zeros_like(rows), where=rows > 0)).sum(axis=-1))


def is_one_sequence(kind: str, queries: int, keys: int) -> bool:
    """Whether row and column i of a layer are the same position, so that positions can be compared."""
    return kind == "self" and queries == keys


def thumbnails(weights: Weights, size: int) -> UInt8[np.ndarray, "heads rows columns"]:
    """Small pictures that keep every strong weight: the square root of the largest weight of each cell in 256 steps.

    Args:
        size: rows and columns of a picture, fewer where the table has fewer.

    >>> thumbnails(np.eye(4)[None], 2)[0].tolist()
    [[255, 0], [0, 255]]
    """
    small = pooled(weights, size)
    largest = small.max(axis=(1, 2), keepdims=True, initial=0.0)
    shares = np.divide(small, largest, out=np.zeros_like(small, dtype=float), where=largest > 0)
    return np.rint(np.sqrt(np.clip(shares, 0, 1)) * 255).astype(np.uint8)


def pooled(weights: Weights, size: int) -> Float[np.ndarray, "heads rows columns"]:
    """The largest weight of each cell of a table with at most `size` rows and columns."""
    for axis in (1, 2):
        length = weights.shape[axis]
        if length > size:
            # where each of `size` parts of equal length begins
            weights = np.maximum.reduceat(weights, np.arange(size) * length // size, axis=axis)
    return weights


def similarity(weights: Weights) -> Float[np.ndarray, "heads heads"]:
    """1 less the mean Jensen-Shannon distance, in bits, between the rows of each two heads; 1: the same.

    Source: Lin 1991, "Divergence measures based on the Shannon entropy", IEEE Transactions on Information Theory 37.

    >>> similarity(np.array([[[1.0, 0.0]], [[0.0, 1.0]], [[1.0, 0.0]]])).tolist()
    [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    """
    rows = _shares(weights)
    entropies = entropy(rows, np.log2)
    similarities = np.ones((len(rows), len(rows)))
    for head in range(len(rows)):
        divergence = entropy((rows[head] + rows) / 2, np.log2) - (entropies[head] + entropies) / 2
        similarities[head] = 1 - np.sqrt(np.clip(divergence, 0, 1)).mean(-1)
    return similarities


def mean_similarity(inputs: Iterable[Weights]) -> Float[np.ndarray, "heads heads"]:
    """The similarity of the same heads over several inputs; each row counts alike.

    >>> mean_similarity([np.array([[[1.0, 0.0]], [[0.0, 1.0]]]), np.array([[[1.0]], [[1.0]]])]).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    similarities, rows = zip(*((similarity(weights), weights.shape[1]) for weights in inputs), strict=True)
    return np.average(similarities, axis=0, weights=rows)


def _shares(weights: Weights) -> Weights:
    """Each row scaled to sum to one."""
    sums = weights.sum(-1, keepdims=True)
    return np.divide(weights, sums, out=np.zeros_like(weights, dtype=float), where=sums > 0)


def _at_offset(rows: np.ndarray, offset: int, counted: Bool[np.ndarray, "queries"]) -> np.ndarray:
    """The weight of the key at this offset, of each counted row that has such a key."""
    keys = np.arange(rows.shape[1]) + offset
    (queries,) = np.nonzero((keys >= 0) & (keys < rows.shape[2]) & counted)
    return rows[:, queries, keys[queries]]


def _mean(values: Float[np.ndarray, "heads rows"]) -> Float[np.ndarray, "heads"]:
    return np.asarray(values.mean(-1)) if values.shape[-1] else np.zeros(len(values))
