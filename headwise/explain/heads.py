"""What a head does, in a few numbers that can be sorted by; and small pictures of many heads."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Bool, Float, UInt8

Weights = Float[np.ndarray, "heads queries keys"]
Chosen = Bool[np.ndarray, "queries"] | None


def described(weights: Weights, chosen: Chosen = None) -> list[dict[str, float]]:
    """Of each head, means over its rows; a row is taken as shares of its sum.

    entropy: in nats; effective: exp(entropy), how many keys it looks at; first: the weight of the first key; largest:
    the largest weight.

    Args:
        chosen: the rows that count; None: all.

    >>> described(np.eye(3)[None])[0]["largest"], described(np.full((1, 2, 4), 0.25))[0]["effective"]
    (1.0, 4.0)
    """
    counted = slice(None) if chosen is None else chosen
    rows, weights = _shares(weights)[:, counted], weights[:, counted]
    logs = np.log(rows, out=np.zeros_like(rows), where=rows > 0)
    entropy = -(rows * logs).sum(-1)
    return [
        {
            "entropy": _mean(entropy[head]),
            "effective": _mean(np.exp(entropy[head])),
            "first": _mean(rows[head, :, 0]) if rows.shape[2] else 0.0,
            "largest": float(weights[head].max(initial=0.0)),
        }
        for head in range(len(rows))
    ]


def one_sequence(kind: str, queries: int, keys: int) -> bool:
    """Whether row and column i of a layer are the same position, so that positions can be compared."""
    return kind == "self" and queries == keys


def positional(weights: Weights, chosen: Chosen = None) -> list[dict[str, float]]:
    """Of each head of self-attention, means over its rows; row and column i are the same position of one sequence.

    distance: |query - key|; diagonal: the weight of the query's own position; previous: of the one before it. A mean
    leaves out the rows that have no such position, as the first row has none before it.

    Args:
        chosen: the rows that count; None: all.

    >>> positional(np.eye(4)[None, [0, 0, 1, 2]])[0]
    {'distance': 0.75, 'diagonal': 0.25, 'previous': 1.0}
    """
    rows = _shares(weights)
    queries, keys = rows.shape[1:]
    counted = np.ones(queries, bool) if chosen is None else chosen
    apart = np.abs(np.arange(queries)[:, None] - np.arange(keys))
    distance = (rows * apart).sum(-1)[:, counted]
    own, before = (_along(rows, offset, counted) for offset in (0, -1))
    return [
        {"distance": _mean(distance[head]), "diagonal": _mean(own[head]), "previous": _mean(before[head])}
        for head in range(len(rows))
    ]


def thumbnails(weights: Weights, size: int) -> UInt8[np.ndarray, "heads rows columns"]:
    """Small pictures, in which no strong weight is lost: the largest of each cell, its square root in 256 steps.

    Args:
        size: rows and columns of a picture, fewer where the table has fewer.

    >>> thumbnails(np.eye(4)[None], 2)[0].tolist()
    [[255, 0], [0, 255]]
    """
    heads, queries, keys = weights.shape
    rows, columns = _edges(queries, size), _edges(keys, size)
    if not queries or not keys:
        return np.zeros((heads, len(rows), len(columns)), dtype=np.uint8)
    pooled = np.maximum.reduceat(np.maximum.reduceat(weights, rows, axis=1), columns, axis=2)
    largest = pooled.max(axis=(1, 2), keepdims=True, initial=0.0)
    shares = np.divide(pooled, largest, out=np.zeros_like(pooled, dtype=float), where=largest > 0)
    return np.rint(np.sqrt(np.clip(shares, 0, 1)) * 255).astype(np.uint8)


def alike(weights: Weights) -> Float[np.ndarray, "heads heads"]:
    """How alike heads are: 1 less the mean Jensen-Shannon distance of their rows, in bits; 1: the same.

    Source: Lin 1991, "Divergence measures based on the Shannon entropy", IEEE Transactions on Information Theory 37.

    >>> alike(np.array([[[1.0, 0.0]], [[0.0, 1.0]], [[1.0, 0.0]]])).tolist()
    [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    """
    rows = _shares(weights)
    own = _bits(rows)
    found = np.ones((len(rows), len(rows)))
    for head in range(len(rows)):
        divergence = _bits((rows[head] + rows) / 2) - (own[head] + own) / 2
        found[head] = 1 - np.sqrt(np.clip(divergence, 0, 1)).mean(-1)
    return found


def alike_over(inputs: Iterable[Weights]) -> Float[np.ndarray, "heads heads"]:
    """How alike the same heads are over the rows of several inputs, each row counting once.

    >>> alike_over([np.array([[[1.0, 0.0]], [[0.0, 1.0]]]), np.array([[[1.0]], [[1.0]]])]).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    parts = [(alike(weights), weights.shape[1]) for weights in inputs]
    total: np.ndarray = sum((found * rows for found, rows in parts), np.zeros_like(parts[0][0]))
    return total / sum(rows for _, rows in parts)


def rollout(layers: Iterable[Weights]) -> Float[np.ndarray, "queries keys"]:
    """How much of each first state is in each last one, were every layer half the mean of its heads, half a copy.

    Source: Abnar and Zuidema 2020, arXiv:2005.00928, section 3; rows are taken as shares of their sums.

    >>> rollout([np.array([[[0.0, 1.0], [1.0, 0.0]]])] * 2).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    found: np.ndarray | None = None
    for weights in layers:
        mixed = weights.mean(0) + np.eye(weights.shape[-1])
        mixed = mixed / mixed.sum(-1, keepdims=True)
        found = mixed if found is None else mixed @ found
    assert found is not None, "a group has layers"
    return found


def _bits(rows: np.ndarray) -> np.ndarray:
    logs = np.log2(rows, out=np.zeros_like(rows), where=rows > 0)
    return -(rows * logs).sum(-1)


def _shares(weights: Weights) -> Weights:
    """Each row as shares of its sum."""
    sums = weights.sum(-1, keepdims=True)
    return np.divide(weights, sums, out=np.zeros_like(weights, dtype=float), where=sums > 0)


def _along(rows: np.ndarray, offset: int, counted: Bool[np.ndarray, "queries"]) -> np.ndarray:
    """The weight of the key at this offset, of each counted row that has such a key."""
    places = np.arange(rows.shape[1]) + offset
    (there,) = np.nonzero((places >= 0) & (places < rows.shape[2]) & counted)
    found: np.ndarray = rows[:, there, places[there]]
    return found


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else 0.0


def _edges(length: int, size: int) -> np.ndarray:
    """Where each of at most `size` parts of equal length begins."""
    count = min(length, size)
    return np.arange(count) * length // max(1, count)
