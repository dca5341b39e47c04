"""Kills one of several training processes with SIGKILL at random moments: `python tools/killprocesses.py -n 200`.

After every kill the others must end within a minute by themselves, with a line that says what is saved; there must be a
good checkpoint, no older than that line says; and the run must go on, in one, two or three processes.
"""

import argparse
import os
import random
import re
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests" / "training"))

from process_checks import HERE, ended, started

from headwise.runs.checkpoints import Checkpoints
from headwise.runs.lock import OWNER

SCRIPT = [str(HERE / "process_checks.py")]
_MOST_S = 60.0
_SAVED = re.compile(r"everything up to step (\d+) is saved|nothing was saved yet")


def killed(run: Path, rng: random.Random, kind: str, within_s: float) -> tuple[list[str], float]:
    """Kills one of two or three processes of the run; what was wrong, and the seconds until the others ended."""
    world = rng.choice((2, 3))
    before = _written(run)
    processes = started(world, SCRIPT, "long", kind, run)
    # a process that dies before it has met the others is a matter of the launcher
    while _written(run) == before:
        time.sleep(0.02)
    time.sleep(rng.uniform(0.0, within_s))
    victim = rng.randrange(world)
    os.kill(processes[victim].pid, signal.SIGKILL)
    began = time.monotonic()
    found = ended(processes, 2 * _MOST_S)
    took = time.monotonic() - began
    others = [one for rank, one in enumerate(found) if rank != victim]
    problems = [f"exit code {code}: {err[-200:]}" for code, _, err in others if code != 5]
    told = [match for _, _, err in others if (match := _SAVED.search(err))]
    if took > _MOST_S:
        problems.append(f"the others took {took:.0f} s")
    if not told:
        problems.append("no line says what is saved")
    saved = Checkpoints(run).newest(problems.append)
    step = saved.facts["step"] if saved is not None else 0
    if any(int(match[1] or 0) > step for match in told):
        problems.append(f"step {step} is older than what was said: {told[0][0]}")
    return problems, took


def _written(run: Path) -> int:
    """When a process last took the folder; 0: never."""
    owner = run / OWNER
    return owner.stat().st_mtime_ns if owner.exists() else 0


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=200, help="kills")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=("ddp", "fsdp"), default="ddp")
    parser.add_argument("--within", type=float, default=12.0, help="seconds after a start in which the kill comes")
    given = parser.parse_args()
    rng, wrong, longest, reached = random.Random(given.seed), 0, 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        for number in range(given.n):
            problems, took = killed(run, rng, given.kind, given.within)
            entries = Checkpoints(run).entries()
            step, longest = entries[0].step if entries else 0, max(longest, took)
            if step < reached:
                problems.append(f"step {reached} is lost, {step} is left")
            reached = step
            wrong += bool(problems)
            print(f"kill {number + 1}: ended in {took:.1f} s, step {step}  {'; '.join(problems) or 'good'}", flush=True)
        final = started(1, SCRIPT, "goes on", "auto", run, reached + 3)
        wrong += ended(final)[0][0] != 0
    print(f"{given.n} kills, {wrong} with problems; the others ended within {longest:.1f} s")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
