"""Measures every kernel on a grid of calls and fits the prices of its terms: what `headwise tune` does."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from time import process_time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headwise.attention import costs, kernels, normalizers
from headwise.attention.call import Call, check
from headwise.attention.kernels import _products
from headwise.attention.masks import Causal, Edges, Mask, Padding, Window
from headwise.attention.measured import Prices
from headwise.attention.relative import Relative
from headwise.attention.scores import Additive, ScaledDot, Score


@dataclass(frozen=True)
class Shape:
    """A call as a few numbers. `mask`: "", "causal", "padding", "window" or "edges"; `extra`: "", "bias" (one that
    learns), "relative" (a table that learns) or "dropout"."""

    batch: int
    heads: int
    query_len: int
    key_len: int
    dim: int
    kv_heads: int | None = None
    dtype: torch.dtype = torch.float32
    learns: bool = False
    mask: str = ""
    extra: str = ""
    normalizer: str = "softmax"
    score: str = "scaled_dot"

    def build(self) -> Call:
        """The call, over random tensors."""
        generator = torch.Generator().manual_seed(0)

        def normal(heads: int, length: int) -> torch.Tensor:
            tensor = torch.randn(self.batch, heads, length, self.dim, generator=generator).to(self.dtype)
            return tensor.requires_grad_(self.learns)

        kv_heads = self.kv_heads or self.heads
        bias = torch.zeros(1, self.heads, self.query_len, self.key_len) if self.extra == "bias" else None
        table = torch.zeros(self.heads, self.query_len + self.key_len - 1) if self.extra == "relative" else None
        call = Call(
            normal(self.heads, self.query_len),
            normal(kv_heads, self.key_len),
            normal(kv_heads, self.key_len),
            self._score(),
            normalizers.build(self.normalizer),
            self._mask(generator),
            None if bias is None else bias.requires_grad_(self.learns),
            None if table is None else Relative(1 - self.query_len, scalar=table.requires_grad_(self.learns)),
            dropout=0.1 if self.extra == "dropout" else 0.0,
        )
        return check(call)

    def _score(self) -> Score:
        score = Additive(self.dim, self.dim, self.dim) if self.score == "additive" else ScaledDot()
        return score.requires_grad_(self.learns)

    def _mask(self, generator: torch.Generator) -> Mask | None:
        if self.mask == "padding":
            lens = torch.linspace(max(1, self.key_len // 2), self.key_len, self.batch)
            return Padding(lens.round().long())
        if self.mask == "edges":
            index = torch.randint(0, self.key_len, (2, 8 * self.query_len), generator=generator)
            return Edges(index, max(self.query_len, self.key_len))
        width = max(1, self.key_len // 16)
        return {"": None, "causal": Causal(), "window": Window(width, width)}[self.mask]

    def __str__(self) -> str:
        parts = [f"{self.batch}x{self.heads}x{self.query_len}x{self.key_len}x{self.dim}", str(self.dtype)[6:]]
        parts += [self.mask, self.extra, "" if self.normalizer == "softmax" else self.normalizer]
        parts += ["" if self.score == "scaled_dot" else self.score, "gradients" if self.learns else ""]
        return " ".join(part for part in parts if part)


# batch, heads, query_len, key_len, width of a head: sentences, paragraphs, pages, a step with a cache
_SIZES: list[tuple[int, int, int, int, int]] = [
    (1, 4, 8, 8, 32),
    (1, 8, 24, 24, 64),
    (64, 4, 32, 32, 32),
    (32, 8, 24, 40, 64),
    (4, 8, 72, 112, 64),
    (8, 8, 128, 128, 64),
    (1, 8, 256, 256, 64),
    (4, 8, 512, 512, 64),
    (1, 8, 1024, 1024, 64),
    (1, 4, 2048, 2048, 64),
]
_STEPS: list[tuple[int, int, int, int, int]] = [
    (1, 8, 1, 128, 64),
    (1, 8, 1, 2048, 64),
    (32, 8, 1, 64, 64),
    (64, 8, 1, 512, 64),
]
_KINDS: list[dict[str, Any]] = [
    {},
    {"mask": "causal"},
    {"mask": "padding"},
    {"mask": "window"},
    {"extra": "dropout"},
    {"extra": "bias"},
    {"extra": "relative"},
    {"normalizer": "relu"},
    {"normalizer": "sparsemax"},
    {"mask": "edges"},
]


def grid() -> Iterator[Shape]:
    """The calls that prices are fitted to."""
    for dtype, learns in product((torch.float32, torch.bfloat16), (False, True)):
        for size, kind in product(_SIZES, _KINDS):
            yield replace(Shape(*size), dtype=dtype, learns=learns, **kind)
        for size in _SIZES[:5]:
            yield replace(Shape(*size), dtype=dtype, learns=learns, score="additive")
    for size, dtype in product(_STEPS, (torch.float32, torch.bfloat16)):
        step = replace(Shape(*size), dtype=dtype)
        yield from (step, replace(step, kv_heads=2), replace(step, score="additive"))


def measure(shape: Shape, rounds: int = 5, limit_s: float = 1.0) -> dict[str, float]:
    """Processor seconds of every kernel that takes the call, turn by turn, the fastest of the rounds.

    A kernel that is far slower than another in the first round is not run again.
    """
    call = shape.build()
    found: dict[str, float] = {}
    taking = [name for name in kernels.names() if kernels.kernel(name).refusal(call) is None]
    for name in taking:
        # the first run compiles, allocates and builds the mask
        _run(name, call)
    spent = 0.0
    for turn in range(rounds):
        for name in taking:
            if turn and found[name] > 4 * min(found.values()):
                continue
            start = process_time()
            _run(name, call)
            taken = process_time() - start
            found[name] = min(taken, found.get(name, taken))
            spent += taken
        if turn and spent > limit_s:
            break
    return found


def _run(name: str, call: Call) -> None:
    with torch.set_grad_enabled(call.query.requires_grad):
        output = kernels.kernel(name).compute(call)
    if call.query.requires_grad:
        wanted = [call.query, call.key, call.value, *call.score.parameters(), *call.relative_tensors]
        wanted += [] if call.bias is None else [call.bias]
        torch.autograd.grad(output, wanted, torch.ones_like(output), allow_unused=True)


def onednn_from() -> float:
    """Multiplications in a float32 product from which oneDNN is a tenth faster than MKL; infinity if it never is."""
    linear, least = _products.linear_of_onednn(), math.inf
    if linear is None:
        return least
    for rows in (512, 256, 128, 64, 32, 16):
        left, right = torch.randn(rows, 64), torch.randn(2 * rows, 64)
        multiplications = float(2 * rows**2 * 64)
        by_mkl, by_onednn = math.inf, math.inf
        for _ in range(5):
            by_mkl = min(by_mkl, _repeated(lambda: left @ right.mT, multiplications))  # noqa: B023
            by_onednn = min(by_onednn, _repeated(lambda: linear(left, right), multiplications))  # noqa: B023
        if by_mkl < 1.1 * by_onednn:
            break
        least = multiplications
    return least


def _repeated(run: Callable[[], object], multiplications: float) -> float:
    repeats = max(1, int(5e8 / multiplications))
    start = process_time()
    for _ in range(repeats):
        run()
    return process_time() - start


def fit(measured: Iterable[tuple[Shape, dict[str, float]]]) -> Prices:
    """Prices of every kernel's terms, for the least relative error, none below zero."""
    rows: dict[tuple[str, str], list[tuple[dict[str, float], float]]] = {}
    for shape, found in measured:
        call = shape.build()
        for name, taken in found.items():
            rows.setdefault((name, costs.kind(call)), []).append((kernels.kernel(name).terms(call), taken))
    table: Prices = {}
    for (name, kind), observed in rows.items():
        terms = sorted({term for amounts, _ in observed for term in amounts})
        table.setdefault(name, {})[kind] = dict(zip(terms, _prices(terms, observed), strict=True))
    return table


def _prices(terms: Sequence[str], observed: list[tuple[dict[str, float], float]]) -> list[float]:
    amounts = np.array([[amounts.get(term, 0.0) for term in terms] for amounts, _ in observed])
    taken = np.array([seconds for _, seconds in observed])
    # an estimate of half the time is as wrong as one of twice the time: the error is put in relation to both
    estimate = taken
    for _ in range(4):
        weight = 1 / np.sqrt(taken * np.maximum(estimate, 0.1 * taken))
        matrix = amounts * weight[:, None]
        # columns of equal size, so that all prices are found in as many steps
        size = np.maximum(np.linalg.norm(matrix, axis=0), 1e-30)
        prices = _not_negative(matrix / size, taken * weight) / size
        estimate = amounts @ prices
    return [float(f"{price:.3g}") for price in prices]


def _not_negative(matrix: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    """Least squares with no coefficient below zero, by descent along one coordinate after another."""
    gram, right = matrix.T @ matrix, matrix.T @ target
    found = np.zeros(len(right))
    for _ in range(2000):
        for i in range(len(right)):
            if gram[i, i] > 0:
                found[i] = max(0.0, found[i] + (right[i] - gram[i] @ found) / gram[i, i])
    return found
