"""Rates of this machine for one thread, in CPU time: matrix products and passes over memory."""

import statistics
from collections.abc import Callable
from time import process_time

import torch
from torch.nn import functional as F

# long enough that the clock's resolution does not matter
_SHORTEST_S = 0.02


def seconds(work: Callable[[], object], repeats: int = 5, shortest_s: float = _SHORTEST_S) -> float:
    """CPU seconds of one call: median over repeats, each long enough to be timed."""
    work()
    times = 1
    while (spent := _spent(work, times)) < shortest_s:
        times *= 2 if spent <= 0 else max(2, min(64, int(1.2 * shortest_s / spent)))
    return statistics.median(_spent(work, times) / times for _ in range(repeats))


def _spent(work: Callable[[], object], times: int) -> float:
    started = process_time()
    for _ in range(times):
        work()
    return process_time() - started


def linear_rate(rows: int, width: int, outputs: int, dtype: torch.dtype, repeats: int = 5) -> float:
    """10^9 operations a CPU second of x W^T, under the present settings."""
    left, weight = torch.randn(rows, width).to(dtype), torch.randn(outputs, width).to(dtype)
    with torch.inference_mode():
        return 2e-9 * rows * width * outputs / seconds(lambda: F.linear(left, weight), repeats)


def best_rates(d_model: int, d_ff: int, rows: int) -> dict[str, float]:
    """The best rate for each precision among the products of a model's layers, in 10^9 operations a CPU second."""
    products = [(rows, d_model, d_model), (rows, d_model, d_ff), (rows, d_ff, d_model)]
    return {
        name: max(linear_rate(*product, dtype, repeats=3) for product in products)
        for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16))
    }
