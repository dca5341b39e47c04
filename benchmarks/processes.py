"""Several processes beside one: speed as ratios, and bytes that a process sends in a step beside the ring formula.

    python -m benchmarks.processes
    python -m benchmarks.processes --world 4 --width 512 --rounds 6
    python -m benchmarks.processes --quick

Every run trains the phrasebook that ships, in processes of its own, one run after another: one process of many threads,
then as many processes of one thread each, under ddp, under fsdp and, where it is installed, by the loop of Hugging Face
Accelerate around the same model, optimizer and batches.
"""

import argparse
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.peers import accelerate_loop
from benchmarks.tables import write_json

# steps that are not counted, and where the counting ends
_FIRST, _LAST = 4, 12
# of the structure that Linux gives of a connection: how many bytes the other side has acknowledged
_ACKNOWLEDGED_AT = 120


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", type=int, default=2, help="processes")
    parser.add_argument("--width", type=int, default=256, help="d_model")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a model of no use, one round")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--kind", default="none", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker is not None:
        _work(given.worker, given.width, given.kind)
        return
    width, rounds = (16, 1) if given.quick else (given.width, given.rounds)
    figures: dict[str, list[float]] = {"none": [], "ddp": [], "fsdp": []}
    if accelerate_loop.is_there():
        figures["accelerate"] = []
    else:
        print("accelerate is not installed and is left out: pip install accelerate")
    told: dict[str, dict[str, float]] = {}
    for _ in range(rounds):
        for kind, rates in figures.items():
            world = 1 if kind == "none" else given.world
            told[kind] = _measured(kind, world, given.world // world, width)
            rates.append(told[kind]["tokens_per_s"])
    _tell(figures, told, given.world)
    if given.json is not None:
        write_json(given.json, {"figures": figures, "told": told})


def _tell(figures: dict[str, list[float]], told: dict[str, dict[str, float]], world: int) -> None:
    """Prints each kind beside one process, and beside what the ring formula says."""
    blocks, others = told["none"]["blocks"], told["none"]["others"]
    part = (world - 1) / world * 4
    # what is around the blocks stays together from the forward to the backward pass; gloo scatters a sum by sending it
    # to all, which is twice the traffic of NCCL's
    formulas = {"ddp": 2 * part * (blocks + others), "fsdp": part * ((2 + 2) * blocks + (1 + 2) * others)}
    formulas |= {"accelerate": formulas["ddp"]} if "accelerate" in figures else {}
    print(f"{blocks + others:,.0f} weights; {world} processes of one thread beside one of {world} threads")
    for kind, formula in formulas.items():
        ratios = [many / one for one, many in zip(figures["none"], figures[kind], strict=True)]
        told[kind] |= {"ratio": statistics.median(ratios), "formula": formula}
        print(f"{kind}: {told[kind]['ratio']:.2f} [{min(ratios):.2f}..{max(ratios):.2f}] times as many tokens a second")
        sent = told[kind]["sent"]
        print(
            f"{kind}: {sent:,.0f} bytes sent a step by a process, {sent / formula:.4f} of the formula's {formula:,.0f}"
        )
    if "accelerate" in figures:
        beside = [own / other for own, other in zip(figures["ddp"], figures["accelerate"], strict=True)]
        told["ddp"]["beside_accelerate"] = statistics.median(beside)
        print(f"ddp: {statistics.median(beside):.2f} [{min(beside):.2f}..{max(beside):.2f}] times Accelerate's")


def _measured(kind: str, world: int, threads: int, width: int) -> dict[str, float]:
    """What the first of so many processes found."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": str(world)}
        free.close()
        command = [sys.executable, "-m", "benchmarks.processes", "--worker", f"{folder}/run", "--width", str(width)]
        command += ["--kind", kind]
        started = [
            subprocess.Popen(
                command,
                env={**os.environ, **place, "RANK": str(rank), "OMP_NUM_THREADS": str(threads)}
                | {"LOCAL_RANK": str(rank), "TORCH_CPP_LOG_LEVEL": "ERROR", "OMP_WAIT_POLICY": "passive"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(world)
        ]
        found = [process.communicate() for process in started]
    if any(process.returncode for process in started):
        raise SystemExit("\n".join(errors for _, errors in found))
    values = (part.split("=") for part in found[0][0].splitlines()[-1].split())
    return {name: float(value) for name, value in values}


def _work(run: Path, width: int, kind: str) -> None:
    """One process of a run: trains, and the first tells what it saw between two of its steps."""
    from headwise.processes import launched
    from headwise.training import recipes
    from headwise.training.train import train

    model = {"d_model": width, "d_ff": 4 * width, "num_heads": 4, "dropout": 0.0}
    settings = [f"model.{name}={value}" for name, value in model.items()]
    settings += [
        f"training.parallel={'none' if kind == 'accelerate' else kind}",
        f"training.max_steps={_LAST}",
        "training.max_epochs=0",
        f"training.log_every={_FIRST}",
    ]
    settings += ["training.validate_every_epochs=0", "training.validate_every=0", "training.ema_decay=0"]
    recipe = recipes.read("phrasebook", settings)
    if kind == "accelerate":
        seen = _by_accelerate(recipe)
    else:
        seen = []

        def tell(event: dict[str, Any]) -> None:
            if event["event"] == "step":
                seen.append((event["step"], _sent(), event["timing"]["tokens_per_s"]))

        train(recipe, run, on_event=tell)
    if (launched() or (0, 1, 0))[0] == 0:
        (first, before, _), (last, after, _) = seen[0], seen[-1]
        rate = statistics.median(rate for _, _, rate in seen[1:])
        print(f"tokens_per_s={rate} sent={(after - before) / (last - first)} {_weights(run)}")


def _by_accelerate(recipe: Any) -> list[tuple[int, float, float]]:
    """What there is to see of Accelerate's loop, which leaves no run folder."""
    session = accelerate_loop.session_of(recipe)
    return accelerate_loop.measured(recipe, session, range(_FIRST, _LAST + 1, _FIRST), _sent)


def _sent() -> float:
    """Bytes that all connections of this process have delivered."""
    total = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            with socket.socket(fileno=os.dup(int(name))) as found:
                facts = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        except OSError:
            continue
        if len(facts) >= _ACKNOWLEDGED_AT + 8:
            total += struct.unpack_from("Q", facts, _ACKNOWLEDGED_AT)[0]
    return float(total)


def _weights(run: Path) -> str:
    """How many there are in the blocks of the model, and around them; nothing where there is no run."""
    import headwise

    if not run.exists():
        return ""
    from headwise.training.parallel import blocks_of

    model: Any = headwise.load(run)
    blocks = sum(weight.numel() for block in blocks_of(model.model) for weight in block.parameters())
    return f"blocks={blocks} others={sum(weight.numel() for weight in model.model.parameters()) - blocks}"


if __name__ == "__main__":
    main()
