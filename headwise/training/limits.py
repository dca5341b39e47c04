"""The limits of a run: how much of them is used, which the schedule and the end follow, and when it will end."""

import math
import time
from collections.abc import Callable
from typing import NamedTuple

from headwise.training.progress import Progress
from headwise.training.recipe import TrainingConfig
from headwise.training.session import Session


class Clock:
    """Seconds of this process since the clock was made, and those of earlier parts of the run.

    Args:
        cpu: CPU seconds of this process, all threads.
    """

    def __init__(
        self, wall: Callable[[], float] = time.monotonic, cpu: Callable[[], float] = time.process_time
    ) -> None:
        self._wall, self._cpu = wall, cpu
        self._wall_from, self._cpu_from = wall(), cpu()

    def wall_s(self) -> float:
        return self._wall() - self._wall_from

    def cpu_s(self) -> float:
        return self._cpu() - self._cpu_from

    def resume(self, progress: Progress) -> None:
        """Adds the time of earlier parts of the run."""
        self._wall_from -= progress.wall_s
        self._cpu_from -= progress.cpu_s

    def save_to(self, progress: Progress) -> None:
        """Writes both times into the counters of the run."""
        progress.wall_s, progress.cpu_s = self.wall_s(), self.cpu_s()


class Used(NamedTuple):
    """The limit that is used most, and the used share of it; the run ends at 1."""

    limit: str
    share: float


class Budget:
    """How much of its limits a run has used."""

    def __init__(self, session: Session, clock: Clock) -> None:
        self.clock = clock
        self._session = session
        self._config = session.recipe.training

    def begin(self) -> None:
        """Marks the start of the schedule, after preparation, of a new run."""
        progress = self._session.progress
        if not progress.step:
            progress.schedule_from = min(1.0, self.used().share)

    def shares(self) -> dict[str, float]:
        """The used share of every limit that is set."""
        session, config = self._session, self._config
        spent = {
            "max_steps": (session.progress.step, config.max_steps),
            "max_epochs": (session.source.progress(), config.max_epochs),
            "max_cpu_s": (self.clock.cpu_s(), config.max_cpu_s),
            "max_minutes": (self.clock.wall_s(), 60.0 * config.max_minutes),
        }
        return {name: so_far / limit for name, (so_far, limit) in spent.items() if limit}

    def used(self) -> Used:
        shares = self.shares()
        name = max(shares, key=shares.__getitem__)
        return Used(name, shares[name])

    def done(self, used: Used) -> float:
        """The share of the schedule that is done: 0 when training began, 1 at the limit."""
        start = self._session.progress.schedule_from
        return min(1.0, max(0.0, (used.share - start) / (1.0 - start))) if start < 1.0 else 1.0

    def planned_steps(self) -> float:
        """The steps that max_steps and max_epochs allow; infinite where neither is a limit."""
        config = self._config
        by_step = config.max_steps or math.inf
        a_pass = math.ceil(self._session.source.size() / config.accumulate)
        return float(min(by_step, config.max_epochs * a_pass or math.inf))


class Forecast(NamedTuple):
    """The end of a run at its present speed: steps, passes over the data, seconds from now, and the limit it meets."""

    steps: float
    epochs: float
    seconds: float
    limit: str


class Snapshot(NamedTuple):
    """The state of a run at a time: seconds of the clock, steps, passes over the data, used share of each limit."""

    seconds: float
    steps: int
    epochs: float
    shares: dict[str, float]

    def forecast(self, now: "Snapshot") -> Forecast | None:
        """Continues from `now` at the speed since this snapshot; None as long as there was no step.

        >>> Snapshot(0.0, 0, 0.0, {"max_steps": 0.0}).forecast(Snapshot(60.0, 100, 0.5, {"max_steps": 0.25}))
        Forecast(steps=400.0, epochs=2.0, seconds=180.0, limit='max_steps')
        """
        seconds = now.seconds - self.seconds
        if seconds <= 0 or now.steps == self.steps:
            return None
        seconds_left = {
            name: max(0.0, 1.0 - share) * seconds / (share - self.shares[name])
            for name, share in now.shares.items()
            if share > self.shares[name]
        }
        if not seconds_left:
            return None
        limit = min(seconds_left, key=seconds_left.__getitem__)
        times = seconds_left[limit] / seconds
        steps, epochs = now.steps - self.steps, now.epochs - self.epochs
        return Forecast(now.steps + times * steps, now.epochs + times * epochs, seconds_left[limit], limit)


def misfits(config: TrainingConfig, steps: float) -> list[str]:
    """Warnings about a warm-up and schedule that do not fit a run of about so many steps; infinite: unknown.

    >>> from headwise.training.recipe import TrainingConfig
    >>> misfits(TrainingConfig(warmup_steps=4000, max_steps=1000), 1000)[0]
    'the warm-up of 4,000 steps does not end in the 1,000 steps of this run: lower training.warmup_steps'
    """
    warnings = []
    warmup = 0 if config.warmup_share else config.warmup_steps
    if warmup > steps / 2:
        relation = "does not end in" if warmup >= steps else "is more than half of"
        problem = f"the warm-up of {warmup:,} steps {relation} the {steps:,.0f} steps of this run"
        warnings.append(f"{problem}: lower training.warmup_steps")
    if config.schedule in ("cosine", "linear") and config.max_steps > 1.1 * steps:
        warnings.append(
            f"schedule '{config.schedule}' falls until step {config.max_steps:,}, but this run ends after about "
            f'{steps:,.0f}: lower training.max_steps, or set training.schedule to "budget", which ends with the run'
        )
    return warnings
