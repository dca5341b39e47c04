"""Time and memory of each mechanism over the length: the records that the explorer draws as curves.

python -m benchmarks.lengths --json lengths.json
"""

import argparse
import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.kernels import timed
from benchmarks.memory import growth, peak_apart
from benchmarks.tables import print_table, write_json
from benchmarks.workers import ROOT
from headwise import runtime
from headwise.attention import mechanisms
from headwise.attention.call import Call
from headwise.attention.masks import Causal, Window

NAMES = ("scored", "scored, window 128", "linear", "retention", "performer", "linformer", "nystrom", "reformer")
LENGTHS = (256, 512, 1024, 2048, 4096, 8192)
HEADS, WIDTH = 8, 64


def made(name: str, length: int, heads: int = HEADS, width: int = WIDTH) -> Callable[[], None]:
    """A forward pass without gradient, over random numbers that are always the same."""
    torch.manual_seed(0)
    kind = mechanisms.mechanism_type(name.partition(",")[0])
    mechanism = kind.sized(head_dim=width, num_heads=heads, max_len=length, dropout=0.0).eval()
    query, key, value = (torch.randn(1, heads, length, width) for _ in range(3))
    mask = Window(128, 128) if "window" in name else None if kind.facts.bidirectional else Causal()
    call = Call(query, query if name == "reformer" else key, value, mask=mask)

    def run() -> None:
        with torch.no_grad():
            mechanism(call)

    return run


def quantiles(seconds: Sequence[float]) -> dict[str, float]:
    """Milliseconds that half, and nine in ten, stay within.

    >>> quantiles([0.003, 0.001, 0.002])
    {'p50': 2.0, 'p90': 3.0}
    """
    order = sorted(1e3 * one for one in seconds)
    last = len(order) - 1
    return {name: round(order[math.ceil(share * last)], 4) for name, share in (("p50", 0.5), ("p90", 0.9))}


def measured(name: str, length: int, rounds: int) -> dict[str, Any]:
    """A record, as `headwise.explorer.bench.Measurement` reads it; memory is weighed in a process of its own."""
    facts = {"d": WIDTH, "heads": HEADS, "dtype": "float32", "device": "cpu, one thread"}
    spent = quantiles(timed({name: made(name, length)}, rounds)[name])
    record = {"mechanism": name, "n": length, **facts, "hardware": runtime.processor(), "fwd_ms": spent}
    return {
        **record,
        "mem_mib": round(peak_apart("benchmarks.lengths", "--weigh", name, length), 2),
        "commit": _commit(),
    }


def _commit() -> str:
    try:
        found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT)
    except OSError:
        return ""
    return found.stdout.strip() if not found.returncode else ""


def main() -> None:
    """Measures every mechanism at every length, or weighs one pass."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--longest", type=int, default=LENGTHS[-1], help="the longest length")
    parser.add_argument("--only", default="", help="mechanisms whose name holds this text")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="two short lengths, for a test")
    parser.add_argument("--json", type=Path, help="the file that `headwise explore --bench` reads")
    parser.add_argument("--weigh", choices=NAMES, help=argparse.SUPPRESS)
    parser.add_argument("--length", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.weigh:
        with torch.no_grad():
            print(max(0.0, growth(made(options.weigh, options.length))))
        return
    names = NAMES[:2] if options.quick else [name for name in NAMES if options.only in name]
    lengths = (32, 64) if options.quick else [length for length in LENGTHS if length <= options.longest]
    records = []
    for name in names:
        for length in lengths:
            print(f"  {name}, {length}", file=sys.stderr, flush=True)
            records.append(measured(name, length, options.rounds))
    rows = [
        [one["mechanism"], f"{one['n']:,}", f"{one['fwd_ms']['p50']:.2f}", f"{one['mem_mib']:.1f}"] for one in records
    ]
    print(f"{runtime.processor()}; one thread; forward, {HEADS} heads, {WIDTH} wide\n")
    print_table(["mechanism", "n", "ms", "MiB"], rows)
    write_json(options.json, {"records": records})


if __name__ == "__main__":
    main()
