"""Whether the planner picks well: its kernel beside the fastest on a grid of calls, under both settings of products.

    python -m benchmarks.planner
    python -m benchmarks.planner --settings oneDNN --every 3

Freed memory is kept, as in training. "oneDNN" is left out where oneDNN would take no float32 product, or round it.
"""

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from time import process_time

import torch

from benchmarks.tables import print_table
from headwise import runtime
from headwise.attention import kernels, planner
from headwise.attention.call import Call
from headwise.attention.masks import Causal, Edges, Mask, Padding, Window
from headwise.attention.relative import Relative
from headwise.attention.scores import Additive


@dataclass(frozen=True)
class Shape:
    """A call as a few numbers. `mask`: "", "causal", "padding", "window" or "edges"; `extra`: "", "relative" (a table
    that learns) or "dropout"."""

    batch: int
    heads: int
    query_len: int
    key_len: int
    dim: int
    dtype: torch.dtype = torch.float32
    learns: bool = False
    mask: str = ""
    extra: str = ""
    normalizer: str = "softmax"
    score: str = "scaled_dot"

    def build(self) -> Call:
        """The call, over random tensors."""
        generator = torch.Generator().manual_seed(0)

        def normal(length: int) -> torch.Tensor:
            tensor = torch.randn(self.batch, self.heads, length, self.dim, generator=generator).to(self.dtype)
            return tensor.requires_grad_(self.learns)

        table = torch.zeros(self.heads, self.query_len + self.key_len - 1).requires_grad_(self.learns)
        return Call(
            normal(self.query_len),
            normal(self.key_len),
            normal(self.key_len),
            score=Additive(self.dim, self.dim, self.dim) if self.score == "additive" else self.score,
            normalizer=self.normalizer,
            mask=self._mask(generator),
            relative=Relative(1 - self.query_len, scalar=table) if self.extra == "relative" else None,
            dropout=0.1 if self.extra == "dropout" else 0.0,
        )

    def _mask(self, generator: torch.Generator) -> Mask | None:
        if self.mask == "padding":
            return Padding(torch.linspace(max(1, self.key_len // 2), self.key_len, self.batch).round().long())
        if self.mask == "edges":
            nodes = max(self.query_len, self.key_len)
            return Edges(torch.randint(0, self.key_len, (2, 8 * self.query_len), generator=generator), nodes)
        width = max(1, self.key_len // 16)
        return {"": None, "causal": Causal(), "window": Window(width, width)}[self.mask]

    def __str__(self) -> str:
        parts = [f"{self.batch}x{self.heads}x{self.query_len}x{self.key_len}x{self.dim}", str(self.dtype)[6:]]
        parts += [self.mask, self.extra, "" if self.normalizer == "softmax" else self.normalizer]
        parts += ["" if self.score == "scaled_dot" else self.score, "gradients" if self.learns else ""]
        return " ".join(part for part in parts if part)


# batch, heads, query_len, key_len, width of a head: sentences, paragraphs, pages
SIZES = [(1, 8, 16, 16, 64), (16, 4, 48, 48, 32), (4, 8, 96, 160, 64), (2, 8, 384, 384, 64), (1, 4, 1536, 1536, 64)]
KINDS = [
    {},
    {"mask": "causal"},
    {"mask": "padding"},
    {"mask": "window"},
    {"extra": "dropout"},
    {"extra": "relative"},
    {"normalizer": "sigmoid"},
    {"normalizer": "entmax15"},
]
WITHIN = 1.3
SETTINGS = ("default", "oneDNN")


def grid() -> Iterator[Shape]:
    """The calls: every size in the types that are used, and steps with a cache."""
    for size, kind, dtype, learns in product(SIZES, KINDS, (torch.float32, torch.bfloat16), (False, True)):
        yield replace(Shape(*size, dtype=dtype, learns=learns), **kind)
    for dtype in (torch.float32, torch.bfloat16):
        for size in ((1, 8, 1, 700, 64), (24, 8, 1, 96, 64), (40, 8, 1, 300, 64)):
            yield Shape(*size, dtype=dtype)
    for size in SIZES[:4]:
        yield replace(Shape(*size, learns=True), score="additive")
        yield replace(Shape(*size, learns=True), mask="edges")


def measure(call: Call, rounds: int = 5, limit_s: float = 1.0) -> dict[str, float]:
    """Processor seconds of every kernel that takes the call, turn by turn, the fastest of the rounds.

    A kernel that is far slower than another in the first round is not run again.
    """
    # a program is compiled for each call, which takes longer than all other measurements
    taking = [name for name, kernel in kernels.KERNELS.items() if name != "flex" and kernel.refusal(call) is None]
    for name in taking:
        # the first run compiles and allocates
        _run(name, call)
    found: dict[str, float] = {}
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
    output = kernels.KERNELS[name].compute(call.zero_unseen())
    if call.learns:
        wanted = [call.query, call.key, call.value, *call.score.parameters()]
        wanted += [] if call.relative is None else call.relative.tensors
        torch.autograd.grad(output, wanted, torch.ones_like(output), allow_unused=True)


def report(title: str, shapes: Sequence[Shape], every_call: bool) -> list[float]:
    """Measures every kernel on every call; prints the picks that are slower, or all, and returns their ratios."""
    rows, slower = [], []
    for number, shape in enumerate(shapes):
        print(f"  {title}, {number + 1} of {len(shapes)}: {shape}", file=sys.stderr, flush=True)
        with torch.set_grad_enabled(shape.learns):
            call = shape.build()
            picked, found = planner.plan(call).kernel, measure(call)
        best = min(found, key=lambda name: found[name])
        slower.append(found[picked] / found[best])
        if every_call or slower[-1] > WITHIN:
            times = f"{1e3 * found[picked]:.3f} : {1e3 * found[best]:.3f}"
            rows.append([str(shape), picked, best, times, f"{slower[-1]:.2f}"])
    print(f"float32 products: {title}\n")
    if rows:
        print_table(["call", "picked", "fastest", "ms", "ratio"], rows)
    good = sum(ratio <= WITHIN for ratio in slower)
    print(f"{good} of {len(slower)} picks ({good / len(slower):.0%}) are within {WITHIN} of the fastest; goal 85 %")
    print(f"median {statistics.median(slower):.2f}, largest {max(slower):.2f}; goal 3\n", flush=True)
    return slower


def main() -> None:
    """Measures every kernel on every call under each setting, and counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--all", action="store_true", help="print every call")
    parser.add_argument("--every", type=int, default=1, help="only every n-th call")
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=SETTINGS, help="of float32 products")
    parser.add_argument("--quick", action="store_true", help="calls of the smallest size, to see that it runs")
    options = parser.parse_args()
    runtime.apply(threads=1, fast_products=False)
    print(f"{runtime.processor()}; one thread\n")
    shapes = [shape for shape in grid() if not options.quick or shape.query_len == SIZES[0][2]][:: options.every]
    for setting in options.settings:
        with runtime.products_as("bf16" if setting == "oneDNN" else "ieee") as exact:
            if setting == "oneDNN" and not (exact and runtime.onednn_multiplies()):
                print("float32 products: oneDNN\n\nit takes none here, or would round them\n")
            else:
                report(setting, shapes, options.all)
    call, start = Shape(2, 4, 8, 8, 32, mask="causal").build(), process_time()
    for _ in range(10_000):
        planner.plan(call)
    print(f"a plan with all its reasons: {(process_time() - start) * 100:.1f} us")


if __name__ == "__main__":
    main()
