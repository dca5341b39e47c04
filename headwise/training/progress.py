"""The counters of a run, which are in every checkpoint."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import ConfigDict, Field

# above any count of a run; numpy and JSON represent it exactly
COUNTED = 2**53

Count = Annotated[int, Field(ge=0, le=COUNTED)]
Seconds = Annotated[float, Field(ge=0)]


@dataclass
class Progress:
    """Counters of a run. `step` counts all steps, skipped ones included."""

    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)

    step: Count = 0
    updates: Count = 0
    tokens: Count = 0
    skipped: Count = 0
    skipped_in_row: Count = 0
    cpu_s: Seconds = 0.0
    wall_s: Seconds = 0.0
    # the used share of the limits when the first step was taken
    schedule_from: Annotated[float, Field(ge=0, le=1)] = 0.0
    # sums since the last line of the log
    window_loss: float = 0.0
    window_tokens: Count = 0
    window_norm: float = 0.0
    window_steps: Count = 0
    # validation: the last step validated, the best one, validations since then, and the steps to average
    validated_step: Count = 0
    best_step: Count = 0
    best_value: float | None = None
    best_metrics: dict[str, float] = field(default_factory=dict)
    since_best: Count = 0
    recent_steps: list[Count] = field(default_factory=list)

    def note_loss(self, loss: float, norm: float, tokens: int) -> None:
        """Counts a step that was taken: loss a token, gradient norm, target tokens."""
        self.updates += 1
        self.tokens += tokens
        self.skipped_in_row = 0
        self.window_loss += loss * tokens
        self.window_tokens += tokens
        self.window_norm += norm
        self.window_steps += 1

    def note_skip(self) -> None:
        self.skipped += 1
        self.skipped_in_row += 1

    def protected(self, saved: Iterable[int]) -> set[int]:
        """Of the steps with a checkpoint, those that stay however old they are: the best, and those to average.

        While steps are skipped, all: the run may be diverging, and earlier checkpoints are needed.
        """
        return {self.best_step, *self.recent_steps, *(saved if self.skipped_in_row else ())}

    def replace_best(self, step: int, value: float | None, metrics: dict[str, float]) -> None:
        """Another model replaces a best one that is lost."""
        finite = value is not None and math.isfinite(value)
        self.best_step, self.best_value, self.best_metrics = step, value if finite else None, finite_only(metrics)

    def take_window(self) -> dict[str, float]:
        """Mean loss a token and mean gradient norm since the last call; nothing when every step was skipped."""
        if not self.window_steps:
            return {}
        result = {"loss": self.window_loss / self.window_tokens, "grad_norm": self.window_norm / self.window_steps}
        self.window_loss, self.window_tokens, self.window_norm, self.window_steps = 0.0, 0, 0.0, 0
        return result

    def note_validation(self, metrics: dict[str, float], value: float, smaller_is_better: bool, recent: int) -> bool:
        """Counts a validation; True when `value` is a new best. NaN never is, and of equal ones the first stays."""
        self.validated_step = self.step
        if recent:
            self.recent_steps = [*self.recent_steps, self.step][-recent:]
        best = self.best_value
        improved = math.isfinite(value) and (best is None or (value < best if smaller_is_better else value > best))
        if improved:
            self.best_step, self.best_value, self.best_metrics = self.step, value, finite_only(metrics)
            self.since_best = 0
        else:
            self.since_best += 1
        return improved


def finite_only(values: dict[str, float]) -> dict[str, float]:
    """The entries whose numbers are finite: JSON has no others."""
    return {name: value for name, value in values.items() if math.isfinite(value)}
