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
    family, _, option = normalizer.partition(":")
    return ROWS[family](scores, float(option) if option else None)


def _softmax(scores: list[float], option: float | None) -> tuple[Array, Array]:
    top = max(scores)
    powers = [math.exp(score - top) for score in scores]
    w = np.array([power / sum(powers) for power in powers])
    return w, np.diag(w) - np.outer(w, w)


def _softmax1(scores: list[float], option: float | None) -> tuple[Array, Array]:
    w, jacobian = _softmax([*scores, 0.0], None)
    return w[:-1], jacobian[:-1, :-1]


def _scalable(scores: list[float], scale: float | None) -> tuple[Array, Array]:
    factor = scale * math.log(len(scores))
    w, jacobian = _softmax([factor * s for s in scores], None)
    return w, factor * jacobian


def _relu(scores: list[float], option: float | None) -> tuple[Array, Array]:
    n = len(scores)
    return np.array([max(s, 0.0) / n for s in scores]), np.diag([1.0 / n if s > 0 else 0.0 for s in scores])


def _relu2(scores: list[float], option: float | None) -> tuple[Array, Array]:
    n = len(scores)
    return np.array([max(s, 0.0) ** 2 / n for s in scores]), np.diag([2 * max(s, 0.0) / n for s in scores])


def _identity(scores: list[float], option: float | None) -> tuple[Array, Array]:
    return np.array(scores), np.eye(len(scores))


def _sigmoids(scores: list[float], bias: float | None) -> tuple[Array, Array]:
    bias = -math.log(len(scores)) if bias is None else bias
    w = np.array([_sigmoid(s + bias) for s in scores])
    return w, np.diag(w * (1 - w))


def _sparsemax(scores: list[float], option: float | None) -> tuple[Array, Array]:
    # the threshold of the largest support whose smallest score is above it
    # from the largest on, so that huge scores keep their differences
    scores = [score - max(scores) for score in scores]
    ordered = sorted(scores, reverse=True)
    taus = [(sum(ordered[: k + 1]) - 1) / (k + 1) for k in range(len(ordered))]
    tau = [tau for tau, score in zip(taus, ordered, strict=True) if score > tau][-1]
    w = np.array([max(s - tau, 0.0) for s in scores])
    support = (w > 0).astype(float)
    return w, np.diag(support) - np.outer(support, support) / support.sum()


def _entmax(scores: list[float], alpha: float | None) -> tuple[Array, Array]:
    # halving the threshold until the floats between the ends are used up
    scaled = [(alpha - 1) * s for s in scores]
    low, high = max(scaled) - 1, max(scaled)
    for _ in range(200):
        middle = (low + high) / 2
        if sum(max(s - middle, 0.0) ** (1 / (alpha - 1)) for s in scaled) > 1:
            low = middle
        else:
            high = middle
    w = np.array([max(s - low, 0.0) ** (1 / (alpha - 1)) for s in scaled])
    slope = np.array([weight ** (2 - alpha) if weight > 0 else 0.0 for weight in w])
    return w, np.diag(slope) - np.outer(slope, slope) / slope.sum()


def _hard(scores: list[float], option: float | None) -> tuple[Array, Array]:
    w = np.zeros(len(scores))
    w[scores.index(max(scores))] = 1.0
    # straight-through: the gradient is that of softmax
    return w, _softmax(scores, None)[1]


def _top_k(scores: list[float], k: float | None) -> tuple[Array, Array]:
    chosen = sorted(sorted(range(len(scores)), key=lambda j: (-scores[j], j))[: int(k)])
    w, jacobian = np.zeros(len(scores)), np.zeros((len(scores), len(scores)))
    w[chosen], jacobian[np.ix_(chosen, chosen)] = _softmax([scores[j] for j in chosen], None)
    return w, jacobian


ROWS: dict[str, Callable[[list[float], float | None], tuple[Array, Array]]] = {
    "softmax": _softmax,
    "softmax1": _softmax1,
    "relu": _relu,
    "relu2": _relu2,
    "sigmoid": _sigmoids,
    "identity": _identity,
    "sparsemax": _sparsemax,
    "entmax15": lambda scores, option: _entmax(scores, 1.5),
    "entmax": _entmax,
    "hard": _hard,
    "top_k": _top_k,
    "scalable": _scalable,
}


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x))


def _summed(d_scores: Array, bias: Array | None) -> Array:
    """The gradient of a bias that was broadcast: summed over its axes of size 1."""
    if bias is None:
        return d_scores
    axes = tuple(axis for axis in range(4) if bias.shape[axis] == 1)
    return d_scores.sum(axis=axes, keepdims=True)
