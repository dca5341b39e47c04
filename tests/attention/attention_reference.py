"""The definition of attention, forward and backward, as loops in float64: what every kernel is held against."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Allowed = Callable[[int, int, int, int], bool]


@dataclass(frozen=True)
class Reference:
    """Output, weights, and the gradients of query, key, value and bias for a given gradient of the output."""

    output: Array
    weights: Array
    d_query: Array
    d_key: Array
    d_value: Array
    d_bias: Array


def reference(
    query: Array,
    key: Array,
    value: Array,
    *,
    scale: float,
    normalizer: str,
    allowed: Allowed,
    bias: Array | None = None,
    gradient: Array | None = None,
) -> Reference:
    """normalizer(scale q.k + bias under mask) v, one row at a time, and its gradient."""
    batch, heads, query_len, _ = query.shape
    kv_heads, key_len = key.shape[1], key.shape[2]
    full_bias = (
        np.zeros((batch, heads, query_len, key_len))
        if bias is None
        else np.broadcast_to(bias, (batch, heads, query_len, key_len))
    )
    output = np.zeros((batch, heads, query_len, value.shape[-1]))
    gradient = np.zeros_like(output) if gradient is None else gradient
    weights = np.zeros((batch, heads, query_len, key_len))
    d_query, d_key, d_value = np.zeros_like(query), np.zeros_like(key), np.zeros_like(value)
    d_scores = np.zeros_like(weights)
    for b in range(batch):
        for h in range(heads):
            source = h * kv_heads // heads
            for i in range(query_len):
                seen = [j for j in range(key_len) if allowed(b, h, i, j)]
                if not seen:
                    continue
                k, v = key[b, source, seen], value[b, source, seen]
                scores = [
                    scale * float(k[n] @ query[b, h, i]) + float(full_bias[b, h, i, j]) for n, j in enumerate(seen)
                ]
                w, jacobian = _row(normalizer, scores)
                output[b, h, i] = w @ v
                weights[b, h, i, seen] = w
                d_row = jacobian @ (v @ gradient[b, h, i])
                d_scores[b, h, i, seen] = d_row
                d_query[b, h, i] += scale * (d_row @ k)
                for n, j in enumerate(seen):
                    d_key[b, source, j] += scale * d_row[n] * query[b, h, i]
                    d_value[b, source, j] += w[n] * gradient[b, h, i]
    return Reference(output, weights, d_query, d_key, d_value, _summed(d_scores, bias))


def _row(normalizer: str, scores: list[float]) -> tuple[Array, Array]:
    """Weights of one row over its allowed keys, and their Jacobian."""
    n = len(scores)
    if normalizer == "softmax":
        top = max(scores)
        powers = [math.exp(score - top) for score in scores]
        w = np.array([power / sum(powers) for power in powers])
        return w, np.diag(w) - np.outer(w, w)
    if normalizer == "relu":
        return np.array([max(s, 0.0) / n for s in scores]), np.diag([1.0 / n if s > 0 else 0.0 for s in scores])
    w = np.array([_sigmoid(s - math.log(n)) for s in scores])
    return w, np.diag(w * (1 - w))


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x))


def _summed(d_scores: Array, bias: Array | None) -> Array:
    """The gradient of a bias that was broadcast: summed over its axes of size 1."""
    if bias is None:
        return d_scores
    axes = tuple(axis for axis in range(4) if bias.shape[axis] == 1)
    return d_scores.sum(axis=axes, keepdims=True)
