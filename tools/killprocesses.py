"""Kills one of several training processes with SIGKILL at random moments: `python tools/killprocesses.py -n 200`.

The processes run under torchrun, as people start them. After every kill the whole job must end within a minute, and
whoever is left must say what is saved, unless torchrun names it as ended by force; there must be a good checkpoint, no
older than was said; the run must go on from it, in one, two or three processes, to an end; and nothing half written may
be left. At the end its weights are compared with those of one undisturbed process. All that was told in a job with a
problem or a silent process is kept in the folder of `--reports`.

torchrun and its processes are forked from this one, which has imported everything already (`--start-method fork
--run-path`); nothing else about torchrun differs. A checkpoint is written after every step.
"""

import argparse
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests" / "training"))

# what the processes import, once for all of them
import process_checks
import torch.distributed.fsdp
import training_toy  # noqa: F401
from torch.distributed import run as torchrun
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

import headwise.training.train  # noqa: F401
from headwise.locks import OWNER
from headwise.runs.checkpoints import STATE, Checkpoints
from headwise.runs.publish import MODEL

SCRIPT = Path(process_checks.__file__)
_MOST_S = 60.0
_SAVED = re.compile(r"everything up to step (\d+) is saved|nothing was saved yet|after step (\d+); everything is saved")
# torchrun tells signals by name or by number, as Python does
_FORCED = re.compile(r"Unable to shutdown process (\d+) via \S+, forcefully exiting via (?:\S*SIGKILL|9)\b")
# before a run has its folder, there is nothing to say of it
_STOPPED = re.compile(r"error: stopped by SIGTERM")


class Job:
    """A run under torchrun, whose agent is a child of this process and forks the processes of the run in its turn."""

    def __init__(self, world: int, kind: str, run: Path, told: Path, max_steps: int) -> None:
        self.world, self._told = world, told
        shutil.rmtree(told, ignore_errors=True)
        told.mkdir()
        self._agent, self.code = self._forked(kind, run, max_steps), -1

    def ended(self) -> bool:
        """Whether the agent has, and with it all that it started."""
        if self._agent and (found := os.waitpid(self._agent, os.WNOHANG))[0]:
            self._agent, self.code = 0, os.waitstatus_to_exitcode(found[1])
        return not self._agent and not any(map(_runs, self.pids()))

    def wait(self, most_s: float) -> float:
        """Until all have ended, by force if it takes too long; seconds it took."""
        began = time.monotonic()
        while not self.ended() and time.monotonic() - began < most_s:
            time.sleep(0.01)
        took = time.monotonic() - began
        for pid in (self._agent, *self.pids()):
            if pid and _runs(pid):
                os.kill(pid, signal.SIGKILL)
        while not self.ended():
            time.sleep(0.01)
        return took

    def pids(self) -> list[int]:
        """Those of the processes that have begun, in their order."""
        return [pid for rank in range(self.world) if (pid := self._pid(rank)) is not None]

    def said(self, rank: int) -> str:
        """All that a process has told."""
        return "".join(path.read_text(errors="replace") for path in self._told.glob(f"*/*/{rank}/*.log"))

    def reported(self) -> str:
        """All that the agent has told."""
        return (self._told / "agent").read_text(errors="replace")

    def forced(self, rank: int) -> bool:
        """Whether the agent says that it ended this process by force."""
        return self._pid(rank) in forced(self.reported())

    def whole(self) -> str:
        """All that was told, by each and by the agent."""
        told = [f"== process {rank + 1}, pid {self._pid(rank)}\n{self.said(rank)}" for rank in range(self.world)]
        return "\n".join([*told, f"== torchrun, exit code {self.code}\n{self.reported()}"])

    def _pid(self, rank: int) -> int | None:
        path = self._told / f"{rank}.pid"
        return int(path.read_text()) if path.exists() else None

    def _forked(self, kind: str, run: Path, max_steps: int) -> int:
        if pid := os.fork():
            return pid
        code = 1
        try:
            handle = os.open(self._told / "agent", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(handle, 1)
            os.dup2(handle, 2)
            os.environ |= {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
            options = ["--nproc-per-node", self.world, "--log-dir", self._told, "--redirects", 3]
            options += ["--start-method", "fork", "--run-path", SCRIPT, "killed", kind, run, max_steps, self._told]
            torchrun.main([str(option) for option in options])
            code = 0
        except ChildFailedError as error:
            print(error, flush=True)
        finally:
            # whatever it was, this is not the process that began the tool
            os._exit(code)


def forced(report: str) -> set[int]:
    """The processes that the agent says it ended by force, since they had not ended in time after SIGTERM."""
    return {int(pid) for pid in _FORCED.findall(report)}


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Kills:
    """Kill after kill of one run.

    Args:
        kinds: the ways to share a model, of which one is drawn for each start.
        within_s: a third of the kills come so many seconds, at most, after the run folder was taken; the others after
            the first new checkpoint.
        reports: where all is kept that was told in a job that is a problem, or in which a process was silent.
    """

    def __init__(self, folder: Path, rng: random.Random, kinds: list[str], within_s: float, reports: Path) -> None:
        self.run, self._told, self._reports = folder / "run", folder / "told", reports
        self._rng, self._kinds, self._within_s = rng, kinds, within_s
        self.longest, self.step = 0.0, 0
        self.seen: Counter[str] = Counter()

    def one(self) -> list[str]:
        """Kills a process and lets the run go on; what was wrong."""
        problems = self._killed()
        entry = Checkpoints(self.run).newest(problems.append) if (self.run / STATE).exists() else None
        step = entry.facts["step"] if entry is not None else 0
        if entry is not None:
            self.seen["checkpoints in parts"] += entry.parts is not None
            # every tensor, put together by this one process
            assert all(entry.tensors[name][0] for name in entry.tensors)
        if step < self.step:
            problems.append(f"step {self.step} is lost, {step} is left")
        return problems + self._went_on(step)

    def _killed(self) -> list[str]:
        world, kind = self._rng.choice((2, 3)), self._rng.choice(self._kinds)
        # while it opens the run, or while it trains and saves; a process that dies before it has met the others is a
        # matter of the launcher
        since, within_s = self._rng.choice(((_written, self._within_s), (_newest, 0.3), (_newest, 0.3)))
        before, job = since(self.run), Job(world, kind, self.run, self._told, 10**6)
        while since(self.run) == before and not job.ended():
            time.sleep(0.002)
        time.sleep(self._rng.uniform(0.0, within_s))
        victim = self._rng.randrange(world)
        if job.ended():
            self._keep(job, "ended before it was killed")
            return ["ended before it was killed"]
        os.kill(job.pids()[victim], signal.SIGKILL)
        took = job.wait(2 * _MOST_S)
        self.longest = max(self.longest, took)
        self.seen[f"{kind}, {world} processes"] += 1
        self.seen["while a checkpoint was written"] += bool(list(self.run.glob(f"{STATE}/.*.tmp")))
        problems = [f"{kind}: the job took {took:.0f} s"] if took > _MOST_S else []
        problems += self._wrong(job, [rank for rank in range(world) if rank != victim])
        if problems:
            self._keep(job, f"process {victim + 1} was killed: {'; '.join(problems)}")
        return problems

    def _wrong(self, job: Job, others: list[int]) -> list[str]:
        """What is wrong with what the others said before they ended."""
        problems, entries = [], Checkpoints(self.run).entries()
        for rank in others:
            said = job.said(rank)
            if told := _SAVED.search(said):
                self.seen["said what is saved"] += 1
                if int(told[1] or told[2] or 0) > (entries[0].step if entries else 0):
                    problems.append(f"less is there than was said: {told[0]}")
            elif _STOPPED.search(said):
                self.seen["stopped while it opened the run"] += 1
            elif job.forced(rank) and "error" not in said.lower():
                self.seen["ended by torchrun with SIGKILL"] += 1
                self._keep(job, f"process {rank + 1} was silent: torchrun ended it by force")
            else:
                problems.append(f"process {rank + 1}, not ended by force, does not say what is saved")
        if "exitcode" not in job.reported():
            problems.append("torchrun does not say what happened")
        return problems

    def _keep(self, job: Job, why: str) -> None:
        self._reports.mkdir(parents=True, exist_ok=True)
        path = self._reports / f"{sum(1 for _ in self._reports.iterdir()) + 1}.txt"
        path.write_text(f"{why}\n{job.whole()}")
        print(f"{why}; all that was told: {path}", flush=True)

    def _went_on(self, step: int) -> list[str]:
        world = self._rng.choice((1, 2, 3))
        job = Job(world, self._rng.choice(self._kinds) if world > 1 else "auto", self.run, self._told, step + 2)
        took, problems = job.wait(4 * _MOST_S), []
        if job.code != 0:
            problems.append(f"{world} did not go on in {took:.0f} s")
            self._keep(job, problems[-1])
        if left := [path.name for path in self.run.rglob("*.tmp")]:
            problems.append(f"left: {left}")
        self.seen[f"gone on by {world}"] += 1
        self.step = Checkpoints(self.run).entries()[0].step
        return problems


def _written(run: Path) -> int:
    """When a process last took the folder; 0: never."""
    owner = run / OWNER
    return owner.stat().st_mtime_ns if owner.exists() else 0


def _newest(run: Path) -> int:
    """The step of the newest checkpoint."""
    entries = Checkpoints(run).entries()
    return entries[0].step if entries else 0


def difference(kills: Kills, folder: Path) -> float:
    """The most by which a weight differs from that of one process that was never killed."""
    job = Job(1, "auto", folder / "whole", folder / "told", kills.step)
    job.wait(3600.0)
    one, other = (_weights(run) for run in (kills.run, folder / "whole"))
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def _weights(run: Path) -> dict[str, torch.Tensor]:
    saved = Checkpoints(run).newest(_told_to_nobody)
    assert saved is not None
    return saved.file(MODEL)[0]


_told_to_nobody: Callable[[str], None] = lambda _: None  # noqa: E731


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=200, help="kills")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=("ddp", "fsdp"), help="one way to share the model; both if not given")
    parser.add_argument("--within", type=float, default=3.0, help="seconds for a kill while the run is opened")
    place = Path(tempfile.gettempdir(), f"kills-{os.getpid()}")
    parser.add_argument("--reports", type=Path, default=place, help="a folder for what was told where it went wrong")
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        kinds = [given.kind] if given.kind else ["ddp", "fsdp"]
        kills = Kills(Path(folder), random.Random(given.seed), kinds, given.within, given.reports)
        for number in range(given.n):
            problems = kills.one()
            wrong += bool(problems)
            print(f"kill {number + 1}: step {kills.step}  {'; '.join(problems) or 'good'}", flush=True)
        for what, count in sorted(kills.seen.items()):
            print(f"{what}: {count}")
        print(f"at most {difference(kills, Path(folder)):.1e} from the weights of a run that was never killed")
    print(f"{given.n} kills, {wrong} with problems; the job ended within {kills.longest:.1f} s")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
