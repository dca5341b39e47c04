"""What each of several processes keeps of a model, and takes while it saves, beside the formulas of docs/scale.md.

    python -m benchmarks.shares
    python -m benchmarks.shares --world 3 --width 768
    python -m benchmarks.shares --quick

Bytes kept are those of the tensors; bytes taken are resident memory at its height, with pages given back when they are
freed, above what it was before.
"""

import argparse
import gc
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.tables import print_table, write_json
from benchmarks.workers import peak_mib


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", type=int, default=2, help="processes")
    parser.add_argument("--width", type=int, default=512, help="d_model")
    parser.add_argument("--quick", action="store_true", help="a model of no use")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--kind", default="none", help=argparse.SUPPRESS)
    given = parser.parse_args()
    width = 16 if given.quick else given.width
    if given.worker is not None:
        print(json.dumps(_work(given.worker, width, given.kind)))
        return
    found = {kind: _measured(kind, 1 if kind == "none" else given.world, width) for kind in ("none", "ddp", "fsdp")}
    _tell(found)
    write_json(given.json, found)


def _tell(found: dict[str, list[dict[str, float]]]) -> None:
    """Prints, for each process, what it keeps beside the formula, and what it takes for a moment beside one tensor."""
    weights = found["none"][0]["weights"]
    print(f"{weights / 4:,.0f} weights; the largest tensor has {found['none'][0]['largest']:,.0f} bytes; MiB")
    rows = []
    for kind, processes in found.items():
        for rank, one in enumerate(processes):
            # weights, gradients, two means of Adam and the moving average, 4 bytes each
            formula = 5 * weights / (len(processes) if kind == "fsdp" else 1)
            kept = sum(one[name] for name in ("weights", "gradients", "optimizer", "average"))
            shown = [one[name] for name in ("weights", "gradients", "optimizer", "average")]
            taken = [one[name] for name in ("saving", "publishing")]
            cells = [f"{value / 2**20:,.1f}" for value in (*shown, *taken)]
            rows.append([f"{kind}, process {rank + 1}", *cells[:4], f"{kept / formula:.4f}", *cells[4:]])
    header = ["", "weights", "gradients", "optimizer", "average", "of formula", "to save", "to publish"]
    print_table(header, rows)


def _measured(kind: str, world: int, width: int) -> list[dict[str, float]]:
    """What each of so many processes found."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": str(world)}
        free.close()
        command = [sys.executable, "-m", "benchmarks.shares", "--worker", f"{folder}/run", "--width", str(width)]
        started = [
            subprocess.Popen(
                [*command, "--kind", kind],
                env={**os.environ, **place, "RANK": str(rank), "LOCAL_RANK": str(rank)}
                | {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"},
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(world)
        ]
        told = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise SystemExit("a process failed; its message is above")
    return [json.loads(one.splitlines()[-1]) for one in told]


def _work(run: Path, width: int, kind: str) -> dict[str, float]:
    """One process: a step, a checkpoint, a published model."""
    from headwise import runtime
    from headwise.processes import process_group
    from headwise.runs.checkpoints import Checkpoints
    from headwise.runs.commits import probe
    from headwise.runs.publish import MODEL, publish
    from headwise.tasks import registry
    from headwise.training import recipes
    from headwise.training.saving import save_checkpoint, write_at_first
    from headwise.training.session import Session

    runtime.return_freed_memory()
    torch.set_num_threads(1)
    settings = [f"model.d_model={width}", f"model.d_ff={4 * width}", "model.num_heads=4", "model.dropout=0.0"]
    settings += [f"training.parallel={kind}", "training.ema_decay=0.9"]
    recipe = recipes.read("phrasebook", settings)
    task_type = registry.task_type(recipe.task)
    with process_group("cpu") as processes:
        session = Session(task_type(recipe, task_type.prepare(recipe)), recipe, processes)
        kept = _step(session)
        processes.once(lambda: probe(run))
        checkpoints, files = Checkpoints(run), session.files()
        save = partial(save_checkpoint, processes, checkpoints, 0, files, (), print)
        # the first one imports what it needs, and connects the processes
        save()
        kept["saving"] = _taken(save)
        best = {MODEL: session.published_weights()}
        put = partial(write_at_first, processes, best.values(), lambda: publish(run, best, {}))
        put()
        kept["publishing"] = _taken(put)
        return kept


def _step(session: Any) -> dict[str, float]:
    """A step of training; bytes that this process keeps after it."""
    from headwise.runs.tensors import local
    from headwise.training.optimizers import optimizer_tensors
    from headwise.training.parallel import Engine, share_of_step

    engine = Engine(session.objective, session.kind, session.processes, session.device, None)
    batch = share_of_step(session.source, 1, session.processes, session.device).batches[0]
    with engine.passing(last=True):
        engine(batch).backward()

    def held(tensors: Iterable[torch.Tensor | None]) -> float:
        return float(sum(local(one).nbytes for one in tensors if one is not None))

    parameters = list(session.model.parameters())
    gradients = held(parameter.grad for parameter in parameters)
    session.optimizer.step()
    session.optimizer.zero_grad(set_to_none=True)
    session.mean.update(1)
    return {
        "weights": held(parameters),
        "gradients": gradients,
        "optimizer": held(optimizer_tensors(session.optimizer, session.model).values()),
        "average": held({id(one): one for one in session.mean.weights().values()}.values()),
        "largest": float(max(parameter.nbytes for parameter in parameters)),
    }


def _taken(work: Callable[[], object]) -> float:
    """Bytes of resident memory that the work takes at its height, above what there was before."""
    gc.collect()
    # the height so far is forgotten: proc(5)
    Path("/proc/self/clear_refs").write_text("5")
    before = peak_mib()
    work()
    return (peak_mib() - before) * 2**20


if __name__ == "__main__":
    main()
