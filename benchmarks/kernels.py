"""Attention kernels beside the usual ways: time and peak memory, forward and backward, each a ratio within one run.

python -m benchmarks.kernels [--only TEXT] [--rounds N] [--tuned]

Both sides run under PyTorch's own settings, or with --tuned both under `headwise.tune()`.
"""

import argparse
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from benchmarks import memory, sight
from benchmarks.contests import CONTESTS, Contest, Pass
from benchmarks.tables import print_table, write_json
from benchmarks.workers import ROOT
from headwise import runtime


def backward(forward: Pass, wanted: list[Tensor]) -> None:
    """One pass forward and backward."""
    output = forward()
    torch.autograd.grad(output, wanted, torch.ones_like(output), allow_unused=True)


def timed(passes: dict[str, Callable[[], None]], rounds: int) -> dict[str, list[float]]:
    """Processor seconds of each, turn by turn; each turn repeats a short pass until it takes 50 ms."""
    repeats = {}
    for name, run in passes.items():
        run()
        start = process_time()
        run()
        repeats[name] = max(1, int(0.05 / max(process_time() - start, 1e-6)))
    found: dict[str, list[float]] = {name: [] for name in passes}
    for _ in range(rounds):
        for name, run in passes.items():
            start = process_time()
            for _ in range(repeats[name]):
                run()
            found[name].append((process_time() - start) / repeats[name])
    return found


def difference(contest: Contest) -> float:
    """Largest difference of outputs and gradients, relative to the largest number."""
    ours, theirs, wanted = contest.make()
    sides = []
    for forward in (ours, theirs):
        output = forward()
        # random directions, which no symmetry can hide from
        direction = torch.randn(output.shape, generator=torch.Generator().manual_seed(1)).to(output.dtype)
        gradients = torch.autograd.grad(output, wanted, direction, allow_unused=True)
        sides.append([output.detach(), *(g for g in gradients if g is not None)])
    pairs = zip(*sides, strict=True)
    return max(float((a - b).float().abs().max() / b.float().abs().max().clamp(min=1e-30)) for a, b in pairs)


def peak(contest: Contest, side: str) -> float:
    """Extra MiB of one pass of a side, in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.kernels", "--memory", contest.name, "--side", side]
    answer = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if answer.returncode:
        raise RuntimeError(f"{contest.name}, {side}: {answer.stderr[-2000:]}")
    return float(answer.stdout.split()[-1])


def compare(contest: Contest, rounds: int) -> dict[str, float]:
    """The ratios of a contest: theirs divided by ours, so that more is better for us."""
    ours, theirs, wanted = contest.make()
    both = timed({"ours": lambda: backward(ours, wanted), "theirs": lambda: backward(theirs, wanted)}, rounds)
    faster = statistics.median(b / a for a, b in zip(both["ours"], both["theirs"], strict=True))
    mib = {side: peak(contest, side) for side in ("ours", "theirs")}
    return {
        "ours_ms": 1e3 * statistics.median(both["ours"]),
        "theirs_ms": 1e3 * statistics.median(both["theirs"]),
        "faster": faster,
        "ours_mib": mib["ours"],
        "theirs_mib": mib["theirs"],
        "smaller": mib["theirs"] / max(mib["ours"], 0.1),
        "difference": difference(contest),
    }


def profiled(contest: Contest, rows: int = 10) -> str:
    """Where our side of a contest spends its time, by operation, largest first."""
    ours, _, wanted = contest.make()
    backward(ours, wanted)
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        backward(ours, wanted)
    events = sorted(seen.key_averages(), key=lambda event: -event.self_cpu_time_total)
    total = sum(event.self_cpu_time_total for event in events)
    shares = [f"  {100 * e.self_cpu_time_total / total:5.1f} %  {e.count:6} x  {e.key}" for e in events[:rows]]
    return "\n".join([contest.name, *shares])


def report(contests: list[Contest], rounds: int) -> dict[str, dict[str, float]]:
    """Runs and prints the contests."""
    found, rows = {}, []
    for contest in contests:
        print(f"  {contest.name}", file=sys.stderr, flush=True)
        result = found[contest.name] = compare(contest, rounds)
        goal = f"{contest.faster:g}" + (f", {contest.smaller:g}" if contest.smaller else "")
        reached = result["faster"] >= contest.faster and result["smaller"] >= contest.smaller
        times = f"{result['ours_ms']:,.1f} : {result['theirs_ms']:,.1f}"
        sizes = f"{result['ours_mib']:,.0f} : {result['theirs_mib']:,.0f}"
        print(f"    {result['faster']:.2f} faster, {result['smaller']:.1f} smaller", file=sys.stderr, flush=True)
        ratios = [f"{result['faster']:.2f}", f"{result['smaller']:.1f}"]
        rows.append(
            [contest.name, times, sizes, *ratios, goal, "yes" if reached else "no", f"{result['difference']:.0e}"]
        )
    print_table(["contest", "ms", "MiB", "faster", "smaller", "goal", "reached", "difference"], rows)
    return found


def main() -> None:
    """Reads the options and runs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="contests whose name holds this text")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="where our side spends its time, in place of ratios")
    parser.add_argument("--tuned", action="store_true", help="both sides under headwise.tune()")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if options.memory:
        contest = next(contest for contest in CONTESTS if contest.name == options.memory)
        ours, theirs, wanted = contest.make()
        forward = ours if options.side == "ours" else theirs
        print(memory.growth(lambda: backward(forward, wanted)))
        return
    settings = "both sides as PyTorch sets them"
    if options.tuned:
        applied = runtime.apply(threads=1)
        settings = f"both sides tuned: freed memory kept, float32 products {applied.products} ({applied.reason})"
    print(f"{runtime.processor()}; one thread; {settings}\n")
    if options.profile:
        print("\n".join(profiled(contest) for contest in CONTESTS if options.only in contest.name))
        return
    found = report([contest for contest in CONTESTS if options.only in contest.name], options.rounds)
    if not options.only:
        found |= memory.report() | sight.report(timed)
    write_json(options.json, found)


if __name__ == "__main__":
    main()
