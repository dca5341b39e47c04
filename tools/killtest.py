"""Kills training with SIGKILL at random moments and resumes it: `python tools/killtest.py -n 200 --case all`.

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
from typing import Any

sys.path += [str(Path(__file__).parents[1] / "tests" / name) for name in ("training", "tasks", "data")]

import torch
import training_toy
from tiny_tasks import CASES

from headwise.runs.checkpoints import Checkpoints
from headwise.training.loading import load
from headwise.training.train import train

SAVING = {"validate_every": 6, "save_every": 2, "average_last": 3, "ema_decay": 0.9, "accumulate": 2}
TOY = training_toy.recipe({"max_steps": 90, **SAVING})

Recipe = dict[str, Any]


@dataclass
class Tally:
    """What the kills did."""

    kills: int = 0
    runs: int = 0
    phases: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


def recipe_of(case: str, folder: Path) -> Recipe:
    """A recipe that writes often: of the toy task, or of a case of `tiny_tasks.py`, whose data goes into the folder."""
    if case == "toy":
        return TOY
    os.chdir(folder)
    made = CASES[case].whole(folder, 24)
    return {**made, "training": {**made["training"], **SAVING}}


def run(kills: int, seed: int, root: Path, recipe: Recipe) -> Tally:
    """Kills `kills` times, over as many whole runs as that takes; returns what was found."""
    torch.set_num_threads(1)
    # the first training of a process is slow: it is not the measure
    train(recipe, root / "first")
    begun = time.monotonic()
    train(recipe, root / "whole")
    whole, span_s = training_toy.final_digest(root / "whole"), time.monotonic() - begun
    rng, tally = random.Random(seed), Tally()
    while tally.kills < kills:
        folder = root / f"run{tally.runs}"
        tally.runs += 1
        # about four kills a run
        while tally.kills < kills and _killed(recipe, folder, rng.uniform(0, span_s / 2), tally):
            pass
        _finish(recipe, folder)
        if training_toy.final_digest(folder) != whole:
            tally.problems.append(f"{folder.name}: the end differs from that of the uninterrupted run")
    return tally


def _killed(recipe: Recipe, folder: Path, delay_s: float, tally: Tally) -> bool:
    """Trains in a child and kills it after a while; False when it was done before."""
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ready)
        _train_and_tell(recipe, folder, told)
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


def _train_and_tell(recipe: Recipe, folder: Path, told: int) -> None:
    _silence()
    os.write(told, struct.pack("<q", 0))

    def tell(event: dict[str, object]) -> None:
        if event["event"] == "checkpoint":
            os.write(told, struct.pack("<q", event["step"]))

    try:
        train(recipe, folder, on_event=tell)
    except BaseException:
        os._exit(1)
    os._exit(0)


def _finish(recipe: Recipe, folder: Path) -> None:
    pid = os.fork()
    if pid == 0:
        _silence()
        train(recipe, folder)
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
    parser.add_argument("--case", default="toy", choices=["toy", "all", *CASES], help="the task (default: a toy)")
    options = parser.parse_args()
    # a model that is being replaced at the moment of the kill is read from its checkpoint, with a warning
    warnings.simplefilter("ignore")
    training_toy.install()
    cases = ["toy", *CASES] if options.case == "all" else [options.case]
    return int(sum(_report(case, options.n, options.seed) for case in cases) > 0)


def _report(case: str, kills: int, seed: int) -> int:
    """Kills the training of one case and prints what was found; returns the number of problems."""
    begun = time.monotonic()
    # a kill loses nothing that a disk would keep: memory is as good, and syncs at once
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as root:
        saved = os.dup(2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        tally = run(kills, seed, Path(root), recipe_of(case, Path(root)))
        os.dup2(saved, 2)
        os.chdir(Path(__file__).parent)
    rows = {"kills": tally.kills, "whole runs": tally.runs, **dict(sorted(tally.phases.items()))}
    rows |= {"problems": len(tally.problems), "seconds": round(time.monotonic() - begun, 1)}
    print(case)
    for name, value in rows.items():
        print(f"  {name:<32}{value:>8}")
    for problem in tally.problems:
        print(f"  {problem}")
    return len(tally.problems)


if __name__ == "__main__":
    sys.exit(main())
