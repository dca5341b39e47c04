"""Cost of mechanisms that choose blocks of keys, over the length: chosen blocks alone, all pairs, and `scored`.

python -m benchmarks.sparse --longest 16384
"""

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from benchmarks.memory import growth
from benchmarks.recurrences import LENGTHS, costs
from benchmarks.tables import print_table, write_json
from headwise import runtime
from headwise.attention.call import Call
from headwise.attention.masks import Causal
from headwise.attention.mechanisms import _blocks
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.attention.mechanisms.moba import Moba
from headwise.attention.mechanisms.native_sparse import NativeSparse
from headwise.attention.mechanisms.scored import Scored

HEADS, WIDTH = 2, 64
WAYS: dict[str, Callable[[], Mechanism]] = {
    "scored": Scored,
    "moba": lambda: Moba(64, 3),
    "moba, all pairs": lambda: Moba(64, 3),
    "native_sparse": lambda: NativeSparse(WIDTH, 32, 8, 256),
    "native_sparse, all pairs": lambda: NativeSparse(WIDTH, 32, 8, 256),
}
# tables of all pairs of more keys need gigabytes
MOST_OF_ALL = 8192


def build_pass(name: str, length: int, *, learns: bool) -> Callable[[], None]:
    """A causal pass over random numbers that are always the same; forward and backward if it learns."""
    torch.manual_seed(0)
    mechanism = WAYS[name]()
    tensors = [torch.randn(1, HEADS, length, WIDTH, requires_grad=learns) for _ in range(3)]
    gates = torch.zeros(1, HEADS, length, 3) if isinstance(mechanism, NativeSparse) else None
    call = Call(*tensors, mask=Causal(), gates=gates)
    # no block is as wide
    limit = math.inf if name.endswith("all pairs") else _blocks._NARROW

    def run() -> None:
        with torch.set_grad_enabled(learns), mock.patch.object(_blocks, "_NARROW", limit):
            output = mechanism(call)
        if learns:
            output.sum().backward()
            for tensor in tensors:
                tensor.grad = None

    return run


def rows_of(records: list[dict[str, Any]]) -> list[list[str]]:
    """A row for each record: how it grows from the length before, and how many times as fast as over all pairs."""
    by_place = {(record["way"], record["n"]): record for record in records}
    rows = []
    for record in records:
        before = by_place.get((record["way"], record["n"] // 2))
        whole = by_place.get((f"{record['way']}, all pairs", record["n"]))
        ratios = [
            "" if before is None else f"{record['training_ms'] / before['training_ms']:.2f}",
            "" if whole is None else f"{whole['training_ms'] / record['training_ms']:.1f}",
        ]
        numbers = f"{record['forward_ms']:,.1f}", f"{record['training_ms']:,.1f}", f"{record['training_mib']:,.0f}"
        rows.append([record["way"], f"{record['n']:,}", *numbers, *ratios])
    return rows


def main() -> None:
    """Measures every way at every length, or weighs one pass."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--longest", type=int, default=LENGTHS[-1], help="the longest length")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="two short lengths, for a test")
    parser.add_argument("--json", type=Path, help="a file for the records")
    parser.add_argument("--weigh", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--length", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.weigh:
        print(max(0.0, growth(build_pass(options.weigh, options.length, learns=True))))
        return
    lengths = (16, 32) if options.quick else [length for length in LENGTHS if length <= options.longest]
    records = []
    for name in ("scored", "moba", "moba, all pairs") if options.quick else WAYS:
        for length in lengths:
            if name.endswith("all pairs") and length > MOST_OF_ALL:
                continue
            print(f"  {name}, {length}", file=sys.stderr, flush=True)
            records.append({"way": name} | costs("benchmarks.sparse", build_pass, name, length, options.rounds))
    print(f"{runtime.processor()}; one thread; causal, {HEADS} heads, {WIDTH} wide, float32\n")
    header = ["way", "n", "forward ms", "training ms", "training MiB", "times n/2", "faster than all pairs"]
    print_table(header, rows_of(records))
    write_json(options.json, {"records": records})


if __name__ == "__main__":
    main()
