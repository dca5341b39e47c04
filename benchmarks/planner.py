"""Whether the planner picks well: on calls that its prices were not fitted to, its kernel beside the fastest one.

python -m benchmarks.planner
"""

import argparse
import statistics
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from time import process_time

import torch

from benchmarks.tables import print_table
from headwise import runtime
from headwise.attention import planner, tuning
from headwise.attention.tuning import Shape

# batch, heads, query_len, key_len, width of a head: none of them is a size of the tuning grid
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


def main() -> None:
    """Measures every kernel on every call and counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--all", action="store_true", help="print every call")
    parser.add_argument("--every", type=int, default=1, help="only every n-th call")
    parser.add_argument("--default", action="store_true", help="PyTorch's own settings in place of headwise.tune()")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if not options.default:
        runtime.apply(threads=1)
    shapes = list(grid())[:: options.every]
    rows, slower = [], []
    for number, shape in enumerate(shapes):
        print(f"  {number + 1} of {len(shapes)}: {shape}", file=sys.stderr, flush=True)
        picked = planner.plan(shape.build()).kernel
        found = tuning.measure(shape)
        best = min(found, key=lambda name: found[name])
        slower.append(found[picked] / found[best])
        if options.all or slower[-1] > WITHIN:
            times = f"{1e3 * found[picked]:.3f} : {1e3 * found[best]:.3f}"
            rows.append([str(shape), picked, best, times, f"{slower[-1]:.2f}"])
    if rows:
        print_table(["call", "picked", "fastest", "ms", "ratio"], rows)
    good = sum(ratio <= WITHIN for ratio in slower)
    share = 100 * good / len(slower)
    print(f"{good} of {len(slower)} picks ({share:.0f} %) are within {WITHIN} of the fastest; goal 95 %")
    print(f"median {statistics.median(slower):.2f}, largest {max(slower):.2f}")
    call = Shape(2, 4, 8, 8, 32, mask="causal").build()
    planner.run(call)
    start = process_time()
    for _ in range(10_000):
        planner.signature(call)
    print(f"planning a call of a kind seen before: {(process_time() - start) * 100:.1f} us; goal 20 us")


if __name__ == "__main__":
    main()
