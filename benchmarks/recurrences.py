"""Cost of every mechanism with a recurrent form over the length, beside `linear`: time of both passes, and memory.

python -m benchmarks.recurrences --longest 16384
python -m benchmarks.recurrences --device cuda: our chunks beside fla's kernels on a GPU, in bfloat16
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
from headwise.attention.mechanisms._recurrence import Recurrence
from headwise.errors import Unsupported

NAMES = tuple(name for name in mechanisms.names() if mechanisms.mechanism_type(name).facts.recurrent)
LENGTHS = (1024, 2048, 4096, 8192, 16384)
HEADS, WIDTH = 4, 64
# of a batch on a GPU, which more of them fill
DEVICE_HEADS = 32
# the features of these have so many numbers for each width of a head that the papers make heads narrow
NARROW = {"based": 16}


def build_pass(name: str, length: int, *, learns: bool, kernel: str = "", heads: int = HEADS) -> Callable[[], None]:
    """A causal pass over random numbers that are always the same; forward and backward if it learns.

    With a kernel it is one on a GPU, in bfloat16.
    """
    torch.manual_seed(0)
    place = {"device": "cuda", "dtype": torch.bfloat16} if kernel else {}
    width = NARROW.get(name, WIDTH)
    mechanism = mechanisms.mechanism_type(name).sized(head_dim=width, num_heads=heads, max_len=length, dropout=0.0)
    query, key = (torch.randn(1, heads, length, width).to(**place).requires_grad_(learns) for _ in range(2))
    value = torch.randn(1, heads, length, WIDTH).to(**place).requires_grad_(learns)
    module = mechanism.gate_module(heads * width, heads)
    gates = None
    if module is not None:
        with torch.no_grad():
            gates = module(torch.randn(1, length, heads * width)).to(**place)
        gates.requires_grad_(learns)
    if kernel and isinstance(mechanism, Recurrence):
        mechanism.kernel = kernel
        mechanism.cuda()
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


def device_costs(name: str, length: int, kernel: str, rounds: int) -> dict[str, Any]:
    """Least times on a GPU after three passes that are not counted, and memory of a training pass beside its inputs."""
    record: dict[str, Any] = {"mechanism": name, "n": length, "kernel": kernel}
    for key, learns in (("forward", False), ("training", True)):
        try:
            run = build_pass(name, length, learns=learns, kernel=kernel, heads=DEVICE_HEADS)
            times = []
            for number in range(rounds + 3):
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                before = torch.cuda.memory_allocated()
                torch.cuda.reset_peak_memory_stats()
                start.record()
                run()
                end.record()
                torch.cuda.synchronize()
                times += [start.elapsed_time(end)] if number >= 3 else []
            record |= {f"{key}_ms": round(min(times), 2)}
            record |= {f"{key}_mib": round((torch.cuda.max_memory_allocated() - before) / 2**20, 1)}
        except Unsupported as error:
            record[f"{key}_refused"] = str(error)
    return record


def measure_device(names: tuple[str, ...], lengths: list[int], rounds: int) -> list[dict[str, Any]]:
    """Our chunks and fla's kernel for each mechanism and length, printed as they come."""
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; causal, {DEVICE_HEADS} heads, bfloat16")
    records = []
    for name in names:
        for length in lengths:
            for kernel in ("chunks", "fla"):
                records.append(device_costs(name, length, kernel, rounds))
                print("  ".join(f"{key} {value}" for key, value in records[-1].items()), flush=True)
    return records


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
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
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
    if options.device == "cuda":
        write_json(options.json, {"records": measure_device(tuple(wanted), list(lengths), options.rounds)})
        return
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
