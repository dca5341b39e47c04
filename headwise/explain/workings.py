"""The workings of steps, done: numbers of a step from those of the steps before it, by the rule that it states."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from headwise.attention.stages import Working

Array = Float[np.ndarray, "..."]
# of the largest number of a step: all is float64
_EXACT = 1e-9


def worked(working: Working, steps: Mapping[str, Array], parameters: Mapping[str, Array]) -> Array | None:
    """The numbers that a working makes of those of other steps; None where it cannot be done.

    >>> worked(Working("sum", ("a", "b")), {"a": np.array([1.0]), "b": np.array([2.0])}, {})
    array([3.])
    """
    numbers = working.numbers
    used = [numbers[name] for name in ("matrix", "bias") if name in numbers]
    if working.rule not in _RULES or not all(name in steps for name in working.of) or not {*used} <= {*parameters}:
        return None
    known = {name: parameters[number] if name in ("matrix", "bias") else number for name, number in numbers.items()}
    return _RULES[working.rule]([steps[name] for name in working.of], known)


def holds(working: Working, values: Array, steps: Mapping[str, Array], parameters: Mapping[str, Array]) -> bool:
    """Whether a working gives the numbers of its step."""
    result = worked(working, steps, parameters)
    if working.rule == "join":
        result, first = steps[working.of[0]], working.numbers["first"]
        values = values[:, first : first + result.shape[1]]
    if working.rule == "mask":
        result = np.where(np.isfinite(values), steps[working.of[0]], -math.inf)
    if result is None or result.shape != values.shape:
        return False
    finite = np.isfinite(values)
    scale = max(1.0, float(np.abs(values[finite]).max(initial=0.0)))
    same = np.array_equal(finite, np.isfinite(result))
    return same and bool(np.all(np.abs(values[finite] - result[finite]) <= _EXACT * scale))


def checked_working(
    working: Working | None, values: Array, steps: Mapping[str, Array], parameters: Mapping[str, Array]
) -> Working | None:
    """The working if it holds, else the formula of its operands, without terms."""
    if working is None or holds(working, values, steps, parameters):
        return working
    return replace(working, rule="formula", numbers={name: n for name, n in working.numbers.items() if name == "name"})


def _linear(of: Sequence[Array], numbers: Mapping[str, Any]) -> Array:
    return of[0] @ numbers["matrix"].astype(float).T + numbers.get("bias", 0.0)


def _dot(of: Sequence[Array], numbers: Mapping[str, Any]) -> Array:
    return numbers.get("factor", 1.0) * (of[0] @ of[1].T)


def _additive(of: Sequence[Array], numbers: Mapping[str, Any]) -> Array:
    sums = of[0][:, None] + of[1][None]
    bent = np.tanh(sums) if "slope" not in numbers else np.where(sums > 0, sums, numbers["slope"] * sums)
    return bent @ numbers["vector"]


def _share(of: Sequence[Array], numbers: Mapping[str, Any]) -> Array:
    products = of[0]
    if "reach" in numbers:
        products = np.tril(products, numbers["reach"])
    sums = products.sum(1, keepdims=True)
    return np.divide(products, sums, out=np.zeros_like(products), where=sums != 0)


def _rotation(of: Sequence[Array], numbers: Mapping[str, Any]) -> Array:
    return numbers["cos"] * of[0] + numbers["sin"] * of[0][:, numbers["partner"]]


def _norm(of: Sequence[Array], numbers: Mapping[str, Any]) -> Array:
    centred = of[0] - (of[0].mean(1, keepdims=True) if numbers["mean"] else 0.0)
    variance = np.square(centred).mean(1, keepdims=True)
    return centred / np.sqrt(variance + numbers["eps"]) * numbers["gain"] + numbers["shift"]


def _normalizer(of: Sequence[Array], numbers: Mapping[str, Any]) -> Array | None:
    name, _, option = str(numbers["name"]).partition(":")
    if name not in _NORMALIZERS:
        return None
    return np.array([_NORMALIZERS[name](row, option) for row in of[0]]).reshape(of[0].shape)


def _softmax(row: Array, option: str) -> Array:
    if not np.isfinite(row).any():
        return np.zeros_like(row)
    powers = np.exp(row - row.max())
    return powers / powers.sum()


def _softmax1(row: Array, option: str) -> Array:
    top = max(0.0, row.max())
    powers = np.exp(row - top)
    return powers / (math.exp(-top) + powers.sum())


def _top_k(row: Array, option: str) -> Array:
    order = np.argsort(-row, kind="stable")[: int(option)]
    chosen = np.full_like(row, -math.inf)
    chosen[order] = row[order]
    return _softmax(chosen, "")


def _sparsemax(row: Array, option: str) -> Array:
    if not np.isfinite(row).any():
        return np.zeros_like(row)
    ordered = np.sort(row[np.isfinite(row)])[::-1]
    sums = ordered.cumsum()
    size = int((1 + np.arange(1, len(ordered) + 1) * ordered > sums).sum())
    return np.maximum(row - (sums[size - 1] - 1) / size, 0.0)


def _hard(row: Array, option: str) -> Array:
    weights = np.zeros_like(row)
    if np.isfinite(row).any():
        weights[row.argmax()] = 1.0
    return weights


def _sigmoid(row: Array, option: str) -> Array:
    bias = float(option) if option else -math.log(_allowed(row))
    return 1 / (1 + np.exp(-row - bias))


def _allowed(row: Array) -> int:
    return max(1, int(np.isfinite(row).sum()))


_NORMALIZERS: dict[str, Callable[[Array, str], Array]] = {
    "softmax": _softmax,
    "softmax1": _softmax1,
    "sparsemax": _sparsemax,
    "top_k": _top_k,
    "hard": _hard,
    "sigmoid": _sigmoid,
    "identity": lambda row, option: np.where(np.isfinite(row), row, 0.0),
    "relu": lambda row, option: np.maximum(row, 0.0) / _allowed(row),
    "relu2": lambda row, option: np.square(np.maximum(row, 0.0)) / _allowed(row),
}
_RULES: dict[str, Callable[[Sequence[Array], Mapping[str, Any]], Array | None]] = {
    "linear": _linear,
    "dot": _dot,
    "additive": _additive,
    "quotient": lambda of, numbers: of[0] / numbers["divisor"],
    "product": lambda of, numbers: of[0] * of[1],
    "sum": lambda of, numbers: np.sum(of, 0),
    "normalizer": _normalizer,
    "share": _share,
    "mix": lambda of, numbers: of[0] @ of[1][: of[0].shape[1]],
    "rotation": _rotation,
    "norm": _norm,
}
