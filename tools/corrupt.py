"""Damages every file of a run folder that a model depends on: `python tools/corrupt.py --flips 300 --truncations 100`.

Each damage must be refused with the name of the file, and the last good checkpoint must take over.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "training"))

import torch
import training_toy

from headwise.errors import CheckpointError
from headwise.runs.checkpoints import Checkpoints
from headwise.training.loading import load
from headwise.training.train import train

RECIPE = training_toy.recipe({"max_steps": 10, "ema_decay": 0.9})


@dataclass
class Tally:
    """Damages by file and how, and what was wrong about the answer to them."""

    done: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


def flip(data: bytes, rng: random.Random) -> bytes:
    """One bit changed."""
    place = rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << rng.randrange(8))]) + data[place + 1 :]


def truncate(data: bytes, rng: random.Random) -> bytes:
    """The end cut off somewhere."""
    return data[: rng.randrange(len(data))]


def run(flips: int, truncations: int, seed: int, root: Path) -> Tally:
    """Trains a run, then damages it in `flips` + `truncations` ways, each undone afterwards."""
    torch.set_num_threads(1)
    training_toy.install()
    folder = train(RECIPE, root / "run").folder
    digests = {training_toy.digest_of_weights(load(folder))}
    newest = Checkpoints(folder).entries()[0].path
    published = sorted(path for path in folder.iterdir() if path.name in _covered(folder))
    saved = sorted(newest.iterdir())
    pointer = [folder / "state" / "best.json"]
    rng, tally = random.Random(seed), Tally()
    for damage, count in ((flip, flips), (truncate, truncations)):
        for place in range(count):
            # every kind of file in turn
            path = (published + saved + pointer)[place % (len(published) + len(saved) + 1)]
            _damaged(folder, path, damage, rng, digests, tally)
    return tally


def _covered(folder: Path) -> set[str]:
    return {path.name for path in Checkpoints(folder).entries()[0].path.iterdir()}


def _damaged(
    folder: Path,
    path: Path,
    damage: Callable[[bytes, random.Random], bytes],
    rng: random.Random,
    digests: set[str],
    tally: Tally,
) -> None:
    whole = path.read_bytes()
    path.write_bytes(damage(whole, rng))
    told: list[str] = []
    checkpoints = Checkpoints(folder)
    try:
        if path.parent == folder:
            told, good = _loaded(folder, digests)
        elif path.name == "best.json":
            good = checkpoints.best_step(told.append) is None
        else:
            good = checkpoints.newest(told.append).folder != path.parent
            good &= _refused_without_fallback(path)
    except CheckpointError as error:
        told, good = [str(error)], False
    path.write_bytes(whole)
    kind = f"{'model' if path.parent == folder else 'checkpoint'} {path.name}"
    tally.done[f"{kind}, {damage.__name__}"] += 1
    if not good or not any(str(path) in text for text in told):
        tally.problems.append(f"{kind}, {damage.__name__}: answered with {told or 'nothing'}")


def _loaded(folder: Path, digests: set[str]) -> tuple[list[str], bool]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = load(folder)
    return [str(warning.message) for warning in caught], training_toy.digest_of_weights(model) in digests


def _refused_without_fallback(path: Path) -> bool:
    """The damaged checkpoint alone in a run folder is an error that names the file, with its exit code."""
    alone = path.parents[2].parent / "alone"
    shutil.copytree(path.parent, alone / "state" / path.parent.name)
    try:
        Checkpoints(alone).newest(lambda _: None)
    except CheckpointError as error:
        return path.name in str(error) and error.exit_code == 4
    finally:
        shutil.rmtree(alone)
    return False


def main() -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flips", type=int, default=30, help="bit flips (default 30)")
    parser.add_argument("--truncations", type=int, default=10, help="truncations (default 10)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as root:
        saved = os.dup(2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        tally = run(options.flips, options.truncations, options.seed, Path(root))
        os.dup2(saved, 2)
    for name, count in sorted(tally.done.items()):
        print(f"{name:<48}{count:>6}")
    print(f"{'all':<48}{tally.done.total():>6}")
    print(f"{'not refused, not named or no fallback':<48}{len(tally.problems):>6}")
    for problem in tally.problems:
        print(problem)
    return int(bool(tally.problems))


if __name__ == "__main__":
    sys.exit(main())
