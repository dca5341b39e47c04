"""Kills training with SIGKILL at random moments and resumes it: `python tools/killtest.py -n 200`.

After every kill there must be a good checkpoint, no older than the last one that training reported; in the end the
weights must be, bit for bit, those of a run that nobody killed. torch is imported once; each training is a fork.
"""

import argparse
import os
import random
import signal
import struct
import sys
import tempfile
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "training"))

import torch
import training_toy

from headwise.runs.checkpoints import Checkpoints
from headwise.training.loading import load
from headwise.training.train import train

RECIPE = training_toy.recipe(
    {"max_steps": 90, "validate_every": 6, "save_every": 2, "average_last": 3, "ema_decay": 0.9, "accumulate": 2}
)


@dataclass
class Tally:
    """What the kills did."""

    kills: int = 0
    runs: int = 0
    phases: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


def run(kills: int, seed: int, root: Path) -> Tally:
    """Kills `kills` times, over as many whole runs as that takes; returns what was found."""
    torch.set_num_threads(1)
    training_toy.install()
    # the first training of a process is slow: it is not the measure
    train(RECIPE, root / "first")
    begun = time.monotonic()
    train(RECIPE, root / "whole")
    whole, span_s = training_toy.final_digest(root / "whole"), time.monotonic() - begun
    rng, tally = random.Random(seed), Tally()
    while tally.kills < kills:
        folder = root / f"run{tally.runs}"
        tally.runs += 1
        # about four kills a run
        while tally.kills < kills and _killed(folder, rng.uniform(0, span_s / 2), tally):
            pass
        _finish(folder)
        if training_toy.final_digest(folder) != whole:
            tally.problems.append(f"{folder.name}: the end differs from that of the uninterrupted run")
    return tally


def _killed(folder: Path, delay_s: float, tally: Tally) -> bool:
    """Trains in a child and kills it after a while; False when it was done before."""
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ready)
        _train_and_tell(folder, told)
    os.close(told)
    os.read(ready, 8)
    time.sleep(delay_s)
    os.kill(pid, signal.SIGKILL)
    acknowledged = 0
    while part := os.read(ready, 8):
        acknowledged = max(acknowledged, struct.unpack("<q", part)[0])
    os.close(ready)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code == 0:
        return False
    tally.kills += 1
    if code != -signal.SIGKILL:
        tally.problems.append(f"kill {tally.kills}: training ended with code {code}")
    _check(folder, acknowledged, tally)
    return True


def _train_and_tell(folder: Path, told: int) -> None:
    _silence()
    os.write(told, struct.pack("<q", 0))

    def tell(event: dict[str, object]) -> None:
        if event["event"] == "checkpoint":
            os.write(told, struct.pack("<q", event["step"]))

    try:
        train(RECIPE, folder, on_event=tell)
    except BaseException:
        os._exit(1)
    os._exit(0)


def _finish(folder: Path) -> None:
    pid = os.fork()
    if pid == 0:
        _silence()
        train(RECIPE, folder)
        os._exit(0)
    os.waitpid(pid, 0)


def _silence() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def _check(folder: Path, acknowledged: int, tally: Tally) -> None:
    state = folder / "state"
    left = [path.name for place in (folder, state) if place.is_dir() for path in place.glob(".*.tmp")]
    tally.phases["while something was written" if left else "between writes"] += 1
    checkpoints = Checkpoints(folder)
    newest = checkpoints.entries()[0].step if checkpoints.entries() else 0
    if newest < acknowledged:
        tally.problems.append(f"kill {tally.kills}: step {acknowledged} was reported, step {newest} is the newest")
    if not newest:
        tally.phases["before the first checkpoint"] += 1
        return
    warned: list[str] = []
    try:
        step = checkpoints.newest(warned.append).facts["step"]
        load(folder)
    except Exception as error:
        tally.problems.append(f"kill {tally.kills}: nothing can be loaded: {error}")
        return
    if warned or step < acknowledged:
        tally.problems.append(f"kill {tally.kills}: a committed checkpoint is damaged: {warned}")


def main() -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=20, help="kills (default 20)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    begun = time.monotonic()
    # a model that is being replaced at the moment of the kill is read from its checkpoint, with a warning
    warnings.simplefilter("ignore")
    # a kill loses nothing that a disk would keep: memory is as good, and syncs at once
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as root:
        saved = os.dup(2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        tally = run(options.n, options.seed, Path(root))
        os.dup2(saved, 2)
    rows = {"kills": tally.kills, "whole runs": tally.runs, **dict(sorted(tally.phases.items()))}
    rows |= {"problems": len(tally.problems), "seconds": round(time.monotonic() - begun, 1)}
    for name, value in rows.items():
        print(f"{name:<32}{value:>8}")
    for problem in tally.problems:
        print(problem)
    return int(bool(tally.problems))


if __name__ == "__main__":
    sys.exit(main())
