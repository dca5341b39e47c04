"""What a head does, in a few numbers that can be sorted by; and small pictures of many heads."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Bool, Float, UInt8

Weights = Float[np.ndarray, "heads queries keys"]


def described(weights: Weights, chosen: Bool[np.ndarray, "queries"] | None = None) -> list[dict[str, float]]:
    """Of each head, means over its rows; a row is taken as shares of its sum.

    entropy: in nats; effective: exp(entropy), how many keys it looks at; distance: |query - key|; diagonal, previous,
    first: the weight of the query's own place, of the one before it, of the first key; largest: the largest weight.

    Args:
        chosen: the rows that count; None: all.

    >>> described(np.eye(3)[None])[0]["diagonal"], described(np.full((1, 2, 4), 0.25))[0]["effective"]
    (1.0, 4.0)
    """
    sums = weights.sum(-1, keepdims=True)
    rows = np.divide(weights, sums, out=np.zeros_like(weights, dtype=float), where=sums > 0)
    queries, keys = rows.shape[1:]
    logs = np.log(rows, out=np.zeros_like(rows), where=rows > 0)
    entropy = -(rows * logs).sum(-1)
    apart = np.abs(np.arange(queries)[:, None] - np.arange(keys))
    diagonal, before = (_along(rows, off) for off in (0, -1))
    if chosen is not None:
        rows, weights, apart = rows[:, chosen], weights[:, chosen], apart[chosen]
        entropy, diagonal, before = entropy[:, chosen], diagonal[:, chosen], before[:, chosen]
    return [
        {
            "entropy": _mean(entropy[head]),
            "effective": _mean(np.exp(entropy[head])),
            "distance": _mean((rows[head] * apart).sum(-1)),
            "diagonal": _mean(diagonal[head]),
            "previous": _mean(before[head]),
            "first": _mean(rows[head, :, 0]) if keys else 0.0,
            "largest": float(weights[head].max(initial=0.0)),
        }
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
    sums = weights.sum(-1, keepdims=True)
    rows = np.divide(weights, sums, out=np.zeros_like(weights, dtype=float), where=sums > 0)
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


def _along(rows: np.ndarray, offset: int) -> np.ndarray:
    """Of each row the weight of the key so many places behind it; 0 where there is none."""
    queries, keys = rows.shape[1:]
    places = np.arange(queries) + offset
    there = (places >= 0) & (places < keys)
    found = np.zeros(rows.shape[:2])
    found[:, there] = rows[:, there, places[there]]
    return found


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else 0.0


def _edges(length: int, size: int) -> np.ndarray:
    """Where each of at most `size` parts of equal length begins."""
    count = min(length, size)
    return np.arange(count) * length // max(1, count)
