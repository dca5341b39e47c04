"""The two loops of additive scores, compiled: one reciprocal a number, and nothing is written but the sums."""

import inspect
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

# why the compiler does not serve in this process: it is not asked twice
_failures: list[str] = []
# example sizes of batch, rows, columns and hidden; all differ, for equal ones would be compiled as one size
_EXAMPLE = {"b": 3, "r": 61, "c": 67, "h": 71}
_OFF = "torch.compile is switched off"


def failure() -> str | None:
    """Why the compiled loops are not used, or None while nothing has gone wrong."""
    return _failures[0] if _failures else None


def scores(query: Tensor, key: Tensor, value: Tensor) -> Tensor | None:
    """sum_h value_h tanh of every pair, from exponentials (batch, rows, hidden); None where no compiler works."""
    return _run(_scores, ("brh", "bch", "h"), (query, key, value))


def sums(query: Tensor, key: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor] | None:
    """Over the keys (batch, hidden, columns): sums of gradient r and gradient (r - r^2), each (batch, rows, hidden)."""
    return _run(_sums, ("brh", "bhc", "brc"), (query, key, gradient))


def _scores(query, key, value):
    # run as it stands, it would keep every number
    if not torch.compiler.is_compiling():
        raise RuntimeError(_OFF)
    return (value * (1.0 - 2.0 / (1.0 + query.unsqueeze(2) * key.unsqueeze(1)))).sum(-1)


def _sums(query, key, gradient):
    if not torch.compiler.is_compiling():
        raise RuntimeError(_OFF)
    ratio = 1.0 / (1.0 + query.unsqueeze(3) * key.unsqueeze(1))
    weighted = gradient.unsqueeze(2) * ratio
    return weighted.sum(-1), (weighted - weighted * ratio).sum(-1)


def _run(function: Callable[..., Any], axes: tuple[str, ...], tensors: tuple[Tensor, ...]) -> Any:
    if _failures:
        return None
    # a size of 1 is compiled apart, every other serves all sizes
    shapes = tuple(
        tuple(1 if size == 1 else _EXAMPLE[axis] for axis, size in zip(names, tensor.shape, strict=True))
        for names, tensor in zip(axes, tensors, strict=True)
    )
    try:
        # the compiler's own imports warn
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            return _compiled(function, shapes)(*tensors)
    except Exception as error:
        # whatever fails in a compiler, the answer is the same
        _failures.append((str(error).strip().splitlines() or [type(error).__name__])[0][:200])
        return None


@cache
def _compiled(function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...]) -> Callable[..., Any]:
    settings: dict[str, Any] = {"dynamic": True, "fullgraph": True, "recompile_limit": 64}
    # unwrapped, since checked annotations cannot be compiled
    compiled: Callable[..., Any] = torch.compile(inspect.unwrap(function), **settings)
    compiled(*(torch.ones(shape) for shape in shapes))
    return compiled
