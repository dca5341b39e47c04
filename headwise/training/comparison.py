"""A model compared with its baselines: which are fitted, within a limit of time, and how the best one compares."""

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from headwise.data.files import digest
from headwise.errors import DataError
from headwise.predictors.baselines import Baseline
from headwise.predictors.predictor import Predictor
from headwise.tasks import registry
from headwise.tasks.task import Metric
from headwise.training.recipe import Recipe
from headwise.training.recipes import named_files
from headwise.training.signals import Stopped

Verdict = Literal["better", "equal", "worse"]
Clock = Callable[[], float]

# deviations of a normal distribution within which 95 % lie
_DEVIATIONS = 1.96


@dataclass(frozen=True)
class Comparison:
    """A model's score and that of its best baseline.

    Args:
        interval: half the width of the 95 % interval of the difference; None: unknown.
    """

    metric: str
    value: float
    baseline: str
    baseline_value: float
    verdict: Verdict
    interval: float | None

    def __str__(self) -> str:
        """The comparison in words.

        >>> print(Comparison("accuracy", 0.788, "TF-IDF and logistic regression", 0.82, "worse", 0.02))
        accuracy 78.8 %: worse than TF-IDF and logistic regression (82.0 %)
        """
        own, other = (score_text(self.metric, value) for value in (self.value, self.baseline_value))
        if self.verdict == "worse":
            relation = f"worse than {self.baseline} ({other})"
        elif self.verdict == "better":
            relation = f"better than the best baseline, {self.baseline} ({other})"
        elif own == other or self.interval is None:
            relation = f"equal to {self.baseline} ({other})"
        else:
            within = f"95 % interval of the difference ± {100 * self.interval:.1f} %"
            relation = f"no clear difference from {self.baseline} ({other}; {within})"
        return f"{self.metric} {own}: {relation}"

    @property
    def warning(self) -> str:
        """The same with "warning" before it where the model is worse."""
        return f"warning: {self}" if self.verdict == "worse" else str(self)


@dataclass(frozen=True)
class Baselines:
    """Baselines scored on the examples of a model, notes on others, and the comparison with the best, if any."""

    baselines: Sequence[Baseline] = ()
    notes: Sequence[str] = ()
    comparison: Comparison | None = None

    def scores(self) -> dict[str, dict[str, float]]:
        return {baseline.name: dict(baseline.scores) for baseline in self.baselines}


def compare_with_baselines(
    recipe: Recipe,
    predictor: Predictor[Any, Any, Any],
    examples: Sequence[Any],
    scores: Mapping[str, float | str],
    trained: Mapping[str, str],
    clock: Clock = time.process_time,
) -> Baselines:
    """Fits the baselines of a recipe, scores them on these examples, and compares.

    Only a signal ends it; a baseline that fails is a note. Those fitted to the training data are left out if it has
    changed since the model was trained.

    Args:
        scores: of the model on the same examples.
        trained: SHA-256 of the files that the model was trained on, by key.
        clock: CPU seconds of this process.
    """
    kind, notes = registry.task_type(recipe.task), list[str]()

    def candidates() -> Iterator[Baseline]:
        yield from predictor.baselines(examples)
        if _unchanged(recipe, trained):
            yield from kind.baselines(recipe, predictor, examples)
        else:
            notes.append("baselines: those fitted to the training data are left out: it has changed or is not there")

    if not recipe.training.baseline_cpu_s:
        return Baselines()
    with warnings.catch_warnings():
        # such as those of an estimator that stops before it has converged
        warnings.simplefilter("ignore")
        fitted = list(_within(candidates(), recipe.training.baseline_cpu_s, clock, notes.append))
    return Baselines(fitted, notes, compare(kind.metrics, recipe.training.monitor, scores, fitted))


def compare(
    metrics: Sequence[Metric], monitor: str, scores: Mapping[str, float | str], baselines: Sequence[Baseline]
) -> Comparison | None:
    """The comparison by the task's main metric; None where no baseline has a score of the model's.

    The main metric is the one that is monitored, unless that is the loss, which says little to people and comes last.
    """
    better = {metric.name: metric.better for metric in metrics}
    order = sorted(better, key=lambda name: (name == "loss", name != monitor))
    for name in order:
        value = scores.get(name)
        rivals = [baseline for baseline in baselines if math.isfinite(baseline.scores.get(name, math.nan))]
        if isinstance(value, int | float) and math.isfinite(value) and rivals:
            sign = 1.0 if better[name] == "high" else -1.0
            best = max(rivals, key=lambda baseline: sign * baseline.scores[name])
            return _against(name, float(value), best, sign)
    return None


def score_text(metric: str, value: float) -> str:
    """A score as text: accuracies in percent."""
    return f"{100 * value:.1f} %" if metric.endswith("accuracy") else f"{value:.4g}"


def _against(metric: str, value: float, best: Baseline, sign: float) -> Comparison:
    other = best.scores[metric]
    interval = None
    if metric == "accuracy" and best.count:
        # as if the errors of the two were independent, which makes it wider than it is
        interval = _DEVIATIONS * math.sqrt((value * (1 - value) + other * (1 - other)) / best.count)
    equal = score_text(metric, value) == score_text(metric, other) or abs(value - other) <= (interval or 0.0)
    verdict: Verdict = "equal" if equal else "better" if sign * (value - other) > 0 else "worse"
    return Comparison(metric, value, best.name, other, verdict, interval)


def _within(
    candidates: Iterator[Baseline], most_s: float, clock: Clock, note: Callable[[str], None]
) -> Iterator[Baseline]:
    """Each baseline in turn, until the time is spent or one fails."""
    start = clock()
    while True:
        if (spent := clock() - start) > most_s:
            note(f"baselines: after {spent:.0f} CPU s no other is fitted (training.baseline_cpu_s = {most_s:g})")
            return
        try:
            baseline = next(candidates, None)
        except Stopped:
            raise
        except Exception as error:
            # a user's task may fail in any way, and a baseline is no reason to lose scores or a run
            note(f"baselines: left out from here: {type(error).__name__}: {str(error)[:200]}")
            return
        if baseline is None:
            return
        yield baseline


def _unchanged(recipe: Recipe, trained: Mapping[str, str]) -> bool:
    """Whether the training data is what the model was trained on."""
    try:
        path = named_files(recipe).get("train")
        return path is not None and digest(path) == trained.get("train")
    except DataError:
        return False
