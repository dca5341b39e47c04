"""What the loop tells while it runs: lines of losses and validations, the display, time and what is left of it."""

import time

from headwise.labels import visible
from headwise.runs.log import TIMING, RunLog
from headwise.training.session import Session


class CpuClock:
    """CPU seconds of this process since the clock was made, all threads, and those of earlier parts of the run."""

    def __init__(self) -> None:
        self._start = time.process_time()
        self.earlier_s = 0.0

    def used_s(self) -> float:
        """CPU seconds so far."""
        return self.earlier_s + time.process_time() - self._start


class Reporter:
    """Makes events and lines out of a session's counters; it changes none but the window of the log."""

    def __init__(self, session: Session, log: RunLog, clock: CpuClock) -> None:
        self._session = session
        self._log = log
        self._clock = clock
        self._busy_s = 0.0
        self._busy_tokens = 0
        self._rate_now = 0.0
        self._loss: float | None = None
        self._began = (time.monotonic(), self._share())

    def worked(self, seconds: float, tokens: int) -> None:
        """Counts the time of a step."""
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
        told = "  ".join(f"{name} {value:.4g}" for name, value in metrics.items())
        self._log.note(f"validation at step {step}: {told}{'  (best)' if best else ''}")
        for sample in samples:
            self._log.note(f"    {visible(sample)}")

    def show(self) -> None:
        """Progress on the display."""
        progress, share = self._session.progress, self._share()
        began, first_share = self._began
        done = share - first_share
        facts = {
            "step": progress.step,
            "epoch": self._session.source.progress(),
            "loss": progress.window_loss / progress.window_tokens if progress.window_tokens else self._loss,
            "lr": self._rate(),
            "tokens_per_s": self._tokens_per_s(),
            "skipped": progress.skipped,
            "share": share,
            "eta_s": (time.monotonic() - began) * (1.0 - share) / done if done > 0 else None,
        }
        self._log.display.progress(facts)

    def _timing(self) -> dict[str, float]:
        self._rate_now = self._tokens_per_s()
        self._busy_s, self._busy_tokens = 0.0, 0
        times = {"cpu_s": self._clock.used_s(), "time": time.time()}
        return {"tokens_per_s": round(self._rate_now, 1), **{name: round(value, 3) for name, value in times.items()}}

    def _tokens_per_s(self) -> float:
        """Of the steps since the last line, or of those before it."""
        return self._busy_tokens / self._busy_s if self._busy_s else self._rate_now

    def _rate(self) -> float:
        rate: float = self._session.optimizer.param_groups[0]["lr"]
        return rate

    def _share(self) -> float:
        progress, source, config = self._session.progress, self._session.source, self._session.recipe.training
        shares = [progress.step / config.max_steps] if config.max_steps else []
        shares += [source.progress() / config.max_epochs] if config.max_epochs else []
        shares += [self._clock.used_s() / config.max_cpu_s] if config.max_cpu_s else []
        return min(1.0, max(shares))
