"""Reports of the training loop: losses, validations, progress and the expected end."""

import time

from headwise.labels import visible
from headwise.runs.log import TIMING, RunLog
from headwise.training.limits import Budget, Snapshot, misfits
from headwise.training.session import Session

# seconds of training after which the log says where the run will end
FORECAST_AFTER_S = 60.0


class Reporter:
    """Makes events and lines from a session's counters; of these it changes only the window of the log."""

    def __init__(self, session: Session, log: RunLog, budget: Budget) -> None:
        self._session = session
        self._log = log
        self._budget = budget
        self._busy_s = 0.0
        self._busy_tokens = 0
        self._rate_now = 0.0
        self._loss: float | None = None
        self._began = self._snapshot()
        self._forecast_reported = False

    def begin(self) -> None:
        """Warns of a new run's recipe that does not fit its limits; the speed is measured from here."""
        if not self._session.progress.step:
            for warning in misfits(self._session.recipe.training, self._budget.planned_steps()):
                self._log.note(warning)
        self._began = self._snapshot()

    def forecast(self) -> None:
        """Once, about a minute after `begin`: the end of the run at this speed, and warnings if that is early."""
        if self._forecast_reported or self._budget.clock.wall_s() - self._began.seconds < FORECAST_AFTER_S:
            return
        self._forecast_reported = True
        forecast = self._began.forecast(self._snapshot())
        if forecast is None:
            return
        end = time.strftime("%H:%M", time.localtime(time.time() + forecast.seconds))
        size = f"about {forecast.steps:,.0f} steps and {forecast.epochs:,.1f} passes over the data"
        self._log.note(f"at this speed the run ends at {end}, by {forecast.limit}, after {size}")
        if forecast.steps < 0.9 * self._budget.planned_steps():
            for warning in misfits(self._session.recipe.training, forecast.steps):
                self._log.note(warning)

    def add_time(self, seconds: float, tokens: int) -> None:
        self._busy_s += seconds
        self._busy_tokens += tokens

    def steps(self) -> None:
        """A line of metrics on the steps since the last one."""
        progress, source = self._session.progress, self._session.source
        window = progress.take_window()
        self._loss = window.get("loss")
        event = {
            "event": "step",
            "step": progress.step,
            "epoch": round(source.progress(), 6),
            **window,
            "lr": self._rate(),
            "tokens": progress.tokens,
            "skipped": progress.skipped,
        }
        self._log.emit({**event, TIMING: self._timing()})

    def validation(self, metrics: dict[str, float], samples: list[str], best: bool) -> None:
        """A line of metrics on a validation, and its scores and samples for people."""
        step, epoch = self._session.progress.step, round(self._session.source.progress(), 6)
        event = {"event": "validation", "step": step, "epoch": epoch, "metrics": metrics, "best": best}
        self._log.emit({**event, "samples": samples, TIMING: self._timing()})
        values = "  ".join(f"{name} {value:.4g}" for name, value in metrics.items())
        self._log.note(f"validation at step {step}: {values}{'  (best)' if best else ''}")
        for sample in samples:
            self._log.note(f"    {visible(sample)}")

    def show(self) -> None:
        progress, now = self._session.progress, self._snapshot()
        forecast = self._began.forecast(now)
        facts = {
            "step": progress.step,
            "epoch": self._session.source.progress(),
            "loss": progress.window_loss / progress.window_tokens if progress.window_tokens else self._loss,
            "lr": self._rate(),
            "tokens_per_s": self._tokens_per_s(),
            "unit": self._session.task.unit,
            "skipped": progress.skipped,
            "share": min(1.0, max(now.shares.values())),
            "eta_s": forecast.seconds if forecast is not None else None,
        }
        self._log.display.progress(facts)

    def _timing(self) -> dict[str, float]:
        self._rate_now = self._tokens_per_s()
        self._busy_s, self._busy_tokens = 0.0, 0
        times = {"cpu_s": self._budget.clock.cpu_s(), "time": time.time()}
        return {"tokens_per_s": round(self._rate_now, 1), **{name: round(value, 3) for name, value in times.items()}}

    def _tokens_per_s(self) -> float:
        """The rate since the last line, or of that line."""
        return self._busy_tokens / self._busy_s if self._busy_s else self._rate_now

    def _rate(self) -> float:
        rate: float = self._session.optimizer.param_groups[0]["lr"]
        return rate

    def _snapshot(self) -> Snapshot:
        session, budget = self._session, self._budget
        return Snapshot(budget.clock.wall_s(), session.progress.step, session.source.progress(), budget.shares())
