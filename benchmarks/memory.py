"""Peak memory of one pass, and how that of the kernels grows with length.

python -m benchmarks.memory
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace

import torch

from benchmarks.tables import print_table
from benchmarks.workers import ROOT
from headwise.attention import kernels, planner
from headwise.attention.call import Call
from headwise.attention.masks import Causal, Edges, Window
from headwise.attention.mechanisms import mechanism_type
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.attention.normalizers import build
from headwise.attention.relative import Relative
from headwise.attention.scores import ScaledDot
from headwise.compare.costs import peak_bytes

LENGTHS, QUICK = (8192, 16384), (128, 256)


def growth(run: Callable[[], None]) -> float:
    """MiB that one run adds to the resident memory of this process at its height, after a first one."""
    return peak_bytes(run) / 2**20


def _kernel(name: str, length: int) -> Callable[[], None]:
    query, key, value = (torch.randn(1, 1, length, 64, requires_grad=True) for _ in range(3))
    call = Call(query, key, value, ScaledDot())
    if name == "banded":
        call = replace(call, mask=Window(128, 128))
    elif name == "edges":
        index = torch.randint(0, length, (2, 8 * length), generator=torch.Generator().manual_seed(0))
        call = replace(call, mask=Edges(index, length))
    elif name == "strips, sparsemax":
        call = replace(call, normalizer=build("sparsemax"))
    elif name == "strips, relative":
        call = replace(call, relative=Relative(1 - length, scalar=torch.zeros(1, 2 * length - 1, requires_grad=True)))
    elif name == "strips, causal":
        call = replace(call, mask=Causal())
    kernel = kernels.KERNELS[name.partition(",")[0]]

    def run() -> None:
        output = planner.run(call, kernel.__name__.rpartition(".")[2])
        output.backward(torch.ones_like(output))
        for tensor in (query, key, value):
            tensor.grad = None

    return run


def _mechanism(name: str, length: int) -> Callable[[], None]:
    query, key, value = (torch.randn(1, 1, length, 64, requires_grad=True) for _ in range(3))
    kind: type[Mechanism] = mechanism_type(name)
    mechanism = kind.sized(head_dim=64, num_heads=1, max_len=length, dropout=0.0)
    mask = Causal() if kind.facts.recurrent else None

    def run() -> None:
        output = mechanism(Call(query, query if name == "reformer" else key, value, mask=mask))
        output.backward(torch.ones_like(output))
        for tensor in (query, key, value):
            tensor.grad = None

    return run


LINEAR: dict[str, Callable[[str, int], Callable[[], None]]] = {
    "fused": _kernel,
    "strips, causal": _kernel,
    "strips, sparsemax": _kernel,
    "strips, relative": _kernel,
    "banded": _kernel,
    "edges": _kernel,
    "linear": _mechanism,
    "gated_linear": _mechanism,
    "retention": _mechanism,
    "performer": _mechanism,
    "linformer": _mechanism,
    "nystrom": _mechanism,
    "reformer": _mechanism,
    "sinkhorn": _mechanism,
}


def report(names: Iterable[str] = LINEAR, lengths: tuple[int, int] = LENGTHS) -> dict[str, dict[str, float]]:
    """Prints the peak of each way at both lengths, each in a process of its own, and its growth."""
    records, rows = {}, []
    for name in names:
        print(f"  memory of {name}", file=sys.stderr, flush=True)
        peaks = [peak_apart("benchmarks.memory", "--name", name, length) for length in lengths]
        ratio = peaks[1] / max(peaks[0], 0.1)
        records[f"memory of {name}"] = {"first_mib": peaks[0], "second_mib": peaks[1], "growth": ratio}
        rows.append([name, *(f"{peak:,.1f}" for peak in peaks), f"{ratio:.2f}", "yes" if ratio <= 2.2 else "no"])
    print_table(["peak MiB, forward and backward", *map(str, lengths), "growth", "at most 2.2"], rows)
    return records


def peak_apart(module: str, option: str, name: str, length: int) -> float:
    """MiB that a module, run in a process of its own with `option name`, prints last for this length."""
    command = [sys.executable, "-W", "ignore", "-m", module, option, name, "--length", str(length)]
    answer = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if answer.returncode:
        raise RuntimeError(f"{name}, {length}: {answer.stderr[-2000:]}")
    return float(answer.stdout.split()[-1])


def main() -> None:
    """Reads the options and measures one way, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--name", choices=LINEAR)
    parser.add_argument("--length", type=int, default=LENGTHS[0])
    parser.add_argument("--quick", action="store_true", help="two ways at short lengths, to see that it runs")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.name:
        print(growth(LINEAR[options.name](options.name, options.length)))
    elif options.quick:
        report(list(LINEAR)[:2], QUICK)
    else:
        report()


if __name__ == "__main__":
    main()
