"""Length extrapolation: models trained on inputs of one length, scored on inputs that are several times as long."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from headwise.compare.experiment import direction
from headwise.compare.sides import Side
from headwise.compare.verdicts import Interval
from headwise.config import value_of
from headwise.data.files import resolve
from headwise.data.synthetic import TIMES
from headwise.errors import ConfigError, DataError, ShapeError
from headwise.explain.curves import Mean, lines
from headwise.predictors.intervals import Resampled
from headwise.predictors.lengths import metric_of
from headwise.training.loading import examples, load, recipe_of


@dataclass(frozen=True)
class Lengths:
    """Scores of sides by how many times as long as in training the inputs are.

    Args:
        scores: by side and times, seed by seed; empty where a side cannot read inputs of that length: absent.
        reasons: why a side is absent, by its name.
    """

    metric: str
    better: Literal["low", "high"]
    times: Sequence[int]
    scores: Mapping[str, Mapping[int, Mapping[int, float]]]
    reasons: Mapping[str, str]

    def interval(self, side: str, times: int) -> Interval | None:
        """The mean over seeds and its 95 % interval, without limit for one seed; None where the side is absent."""
        values = list(self.scores[side][times].values())
        return Interval.of(values) if values else None

    def order(self, times: int) -> list[str]:
        """Sides from the best to the worst at a length; those that are absent come last."""
        sign = 1.0 if self.better == "high" else -1.0

        def goodness(side: str) -> float:
            interval = self.interval(side, times)
            return -math.inf if interval is None else sign * interval.value

        return sorted(self.scores, key=goodness, reverse=True)


def scores_at(
    run: Path, times: Sequence[int], limit: int | None = None
) -> tuple[dict[int, dict[str, float]], str | None]:
    """The scores of a run on inputs of so many times the length of training, and why some are absent.

    A language model reads the same last places of its test text with longer contexts. The examples of other tasks have
    a file `times-N` for each length beside that of the test part, as `headwise data make --lengths` writes them.

    Args:
        limit: only the first examples.
    Raises: CheckpointError: no finished run; DataError: a file is not there, or a text is too short.
    """
    predictor, recipe = load(run), recipe_of(run)
    scores: dict[int, dict[str, float]] = {}
    reason = None
    test = examples(run, "test")[:limit]
    for number in times:
        try:
            of_context = predictor.at_length(test, number, max(times))
            if of_context is not None:
                scores[number] = dict(of_context)
                continue
            whole = predictor.evaluate(examples(run, "test", {"test": str(_file(recipe, number))})[:limit])
            scores[number] = {name: float(score) for name, score in whole.items() if not isinstance(score, str)}
        except ShapeError as error:
            reason = str(error)
    return scores, reason


def resampled_at(run: Path, times: int, metric: str) -> Resampled:
    """A score of `scores_at` at one length as a function of the examples, of a task that has a file for each length.

    Raises: as `scores_at`; ShapeError: inputs that the model cannot read; ConfigError: no such score.
    """
    cases = examples(run, "test", {"test": str(_file(recipe_of(run), times))})
    return load(run).evaluate_each(cases).rows.resampled(metric)


def extrapolate(sides: Sequence[Side], metric: str | None, times: Sequence[int], limit: int | None = None) -> Lengths:
    """The scores of trained sides by length.

    Args:
        metric: a score of `scores_at`; where there is no such one, the first.
    Raises: as `scores_at`; ConfigError for lengths that are none, or a metric that there is not.
    """
    if not times or min(times) < 1 or len(set(times)) < len(times):
        raise ConfigError(f"lengths ({','.join(map(str, times))}) must be different numbers, 1 or more")
    table: dict[str, dict[int, dict[int, float]]] = {}
    reasons: dict[str, str] = {}
    task = ""
    for side in sides:
        table[side.name] = {number: {} for number in times}
        for seed, run in side.runs.items():
            scores, reason = scores_at(Path(run), times, limit)
            task = recipe_of(Path(run)).task
            for number, found in scores.items():
                metric = metric_of(found, metric if metric in found else None)
                table[side.name][number][seed] = found[metric]
            reasons |= {side.name: reason} if reason else {}
    if metric is None:
        raise ConfigError("no side can read inputs of these lengths; leave --lengths out")
    return Lengths(metric, direction(task, metric), sorted(times), table, reasons)


def rows(lengths: Lengths) -> list[dict[str, Any]]:
    """A row for each side, the best at the longest inputs first: the score at each length; None where it is absent."""
    table = []
    for side in lengths.order(lengths.times[-1]):
        row: dict[str, Any] = {"side": side}
        for number in lengths.times:
            interval = lengths.interval(side, number)
            row[f"x{number}"] = interval.value if interval else None
            row[f"x{number} ±"] = interval.half if interval else None
        table.append(row)
    return table


def notes(lengths: Lengths) -> list[str]:
    """What a reader must know: which way is better, and what is absent."""
    words = "smaller is better" if lengths.better == "low" else "larger is better"
    sentences = [f"{lengths.metric} ({words}) on inputs of x1, x2, ... the length of training; ± is 95 % over seeds."]
    absent = [f"{side} is absent and ranked last: {reason}" for side, reason in lengths.reasons.items()]
    return sentences + absent


def picture(lengths: Lengths) -> Any:
    """The score by length, a line for each side, with intervals over seeds; a side ends where it is absent."""
    series = {}
    for side in lengths.order(lengths.times[-1]):
        points: list[tuple[float | int | str, Mean]] = [
            (number, Mean.of(list(values.values()))) for number, values in lengths.scores[side].items() if values
        ]
        if points:
            series[side] = points
    return lines(series, across="length of the input, times that of training", down=lengths.metric)


def _file(recipe: Any, times: int) -> Path:
    """The file of test inputs of so many times the length."""
    test = value_of(recipe, "data.test")
    if test is None:
        raise DataError("the recipe names no data.test, beside which a file of each length would be")
    path = resolve(str(test))
    file = path.with_name(f"{TIMES}{times}{path.suffix}")
    if not file.exists():
        drawn = f"headwise data make {path.parent.name} --lengths 1,2,4,8"
        raise DataError(f"{file}: no such file; write test inputs of each length: {drawn}, into a new folder")
    return file
