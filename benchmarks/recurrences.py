"""Cost of every mechanism with a recurrent form over the length, beside `linear`: time of both passes, and memory.

python -m benchmarks.recurrences --longest 16384
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import torch

from benchmarks.memory import growth, peak_apart
from benchmarks.tables import print_table, write_json
from headwise import runtime
from headwise.attention import mechanisms
from headwise.attention.call import Call
from headwise.attention.masks import Causal

NAMES = tuple(name for name in mechanisms.names() if mechanisms.mechanism_type(name).facts.recurrent)
LENGTHS = (1024, 2048, 4096, 8192, 16384)
HEADS, WIDTH = 4, 64
# the features of these have so many numbers for each width of a head that the papers make heads narrow
NARROW = {"based": 16}


def build_pass(name: str, length: int, *, learns: bool) -> Callable[[], None]:
    """A causal pass over random numbers that are always the same; forward and backward if it learns."""
    torch.manual_seed(0)
    width = NARROW.get(name, WIDTH)
    mechanism = mechanisms.mechanism_type(name).sized(head_dim=width, num_heads=HEADS, max_len=length, dropout=0.0)
    query, key = (torch.randn(1, HEADS, length, width, requires_grad=learns) for _ in range(2))
    value = torch.randn(1, HEADS, length, WIDTH, requires_grad=learns)
    module = mechanism.gate_module(HEADS * width, HEADS)
    gates = None
    if module is not None:
        with torch.no_grad():
            gates = module(torch.randn(1, length, HEADS * width))
        gates.requires_grad_(learns)
    call = Call(query, key, value, mask=Causal(), gates=gates)

    def run() -> None:
        with torch.set_grad_enabled(learns):
            output = mechanism(call)
        if learns:
            output.sum().backward()
            for tensor in call.tensors:
                tensor.grad = None

    return run


def milliseconds(run: Callable[[], None], rounds: int) -> float:
    """The least processor time of some runs, after one that is not counted."""
    run()
    spent = []
    for _ in range(rounds):
        start = process_time()
        run()
        spent.append(process_time() - start)
    return 1e3 * min(spent)


def costs(module: str, build: Callable[..., Callable[[], None]], name: str, length: int, rounds: int) -> dict[str, Any]:
    """Times of the passes that `build` makes, and memory, weighed by this module in a process of its own."""
    return {
        "n": length,
        "forward_ms": round(milliseconds(build(name, length, learns=False), rounds), 2),
        "training_ms": round(milliseconds(build(name, length, learns=True), rounds), 2),
        "training_mib": round(peak_apart(module, "--weigh", name, length), 1),
    }


def rows_of(records: list[dict[str, Any]]) -> list[list[str]]:
    """A row for each record: how it grows from the length before, and what it is beside `linear` at this length."""
    by_place = {(record["mechanism"], record["n"]): record for record in records}
    rows = []
    for record in records:
        before = by_place.get((record["mechanism"], record["n"] // 2))
        baseline = by_place.get(("linear", record["n"]))
        growth_ratio = "" if before is None else f"{record['training_ms'] / before['training_ms']:.2f}"
        beside = "" if baseline is None else f"{record['training_ms'] / baseline['training_ms']:.1f}"
        numbers = f"{record['forward_ms']:.1f}", f"{record['training_ms']:.1f}", f"{record['training_mib']:.0f}"
        rows.append([record["mechanism"], f"{record['n']:,}", *numbers, growth_ratio, beside])
    return rows


def main() -> None:
    """Measures every recurrence at every length, or weighs one pass."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--longest", type=int, default=LENGTHS[-1], help="the longest length")
    parser.add_argument("--only", default="", help="names with commas between; linear is always measured")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="two short lengths of two mechanisms, for a test")
    parser.add_argument("--json", type=Path, help="a file for the records")
    parser.add_argument("--weigh", choices=NAMES, help=argparse.SUPPRESS)
    parser.add_argument("--length", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.weigh:
        print(max(0.0, growth(build_pass(options.weigh, options.length, learns=True))))
        return
    wanted = ("linear", "gated_delta") if options.quick else options.only.split(",") if options.only else NAMES
    lengths = (32, 64) if options.quick else [length for length in LENGTHS if length <= options.longest]
    records = []
    for name in sorted({"linear", *wanted}, key=lambda name: (name != "linear", name)):
        for length in lengths:
            print(f"  {name}, {length}", file=sys.stderr, flush=True)
            records.append(
                {"mechanism": name} | costs("benchmarks.recurrences", build_pass, name, length, options.rounds)
            )
    print(f"{runtime.processor()}; one thread; causal, {HEADS} heads, {WIDTH} wide, float32\n")
    header = ["mechanism", "n", "forward ms", "training ms", "training MiB", "times n/2", "times linear"]
    print_table(header, rows_of(records))
    write_json(options.json, {"records": records})


if __name__ == "__main__":
    main()
