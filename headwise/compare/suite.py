"""Suites: the same sides on several tasks, as a table of the form of the Long Range Arena."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from headwise.compare.experiment import Arm, Plan, Result, Say, compare
from headwise.compare.sides import ENOUGH_SEEDS, Side
from headwise.compare.verdicts import Interval
from headwise.config import value_of
from headwise.data.files import data_cache
from headwise.errors import ConfigError, DataError, unknown
from headwise.predictors.lengths import by_length
from headwise.tasks import generators
from headwise.training import recipes
from headwise.training.loading import examples, load
from headwise.training.recipe import read_recipe

PAPER = "Tay et al. 2021, Long Range Arena, arXiv:2011.04006, table 1"
# of ListOps, text, retrieval, image and Pathfinder, in percent
PUBLISHED = {
    "scored": (36.37, 64.27, 57.46, 42.44, 71.40),
    "local": (15.82, 52.98, 53.39, 41.46, 66.63),
    "linformer": (35.70, 53.94, 52.27, 38.56, 76.34),
    "reformer": (37.27, 56.10, 53.40, 38.07, 68.50),
    "bigbird": (36.05, 64.02, 59.29, 40.83, 74.87),
    "linear": (16.13, 65.90, 53.09, 42.34, 75.30),
    "performer": (18.01, 65.40, 53.82, 42.77, 77.05),
}
# sides that are softmax attention under a mask, by the names of the paper
MASKS = {"local": "window:left=8,right=8", "bigbird": "bigbird:block=8,window=3,global_blocks=1,random=1"}
_COUNT = 10_000


@dataclass(frozen=True)
class SuiteTask:
    """A column of a suite.

    Args:
        recipe: a recipe that ships.
        about: the data and its sizes, in words.
        drawn: what `headwise data make` draws for it where it is not there; None: public files.
        ranges: lengths by which test examples are scored apart, a column each, in place of one column.
        averaged: whether it counts in the average.
    """

    name: str
    recipe: str
    about: str
    drawn: str | None = None
    ranges: tuple[range, ...] = ()
    averaged: bool = True

    def columns(self) -> list[str]:
        return [f"{self.name} {span.stop - 1}" for span in self.ranges] or [self.name]


SUITES: dict[str, tuple[SuiteTask, ...]] = {
    "long-range": (
        SuiteTask("ListOps", "listops", "lists of 4 to 64 symbols, 4 deep, ten classes", "listops"),
        SuiteTask("Text", "sst2-characters", "reviews of SST-2, the first 256 characters"),
        SuiteTask("Retrieval", "retrieval", "pairs of passages of 128 characters, of one article or two", "retrieval"),
        SuiteTask("Image", "fashion-mnist-pixels", "Fashion-MNIST of 14 x 14 pixels"),
        SuiteTask("Pathfinder", "pathfinder", "drawn pictures of 16 x 16 pixels", "pathfinder"),
        SuiteTask("MQAR", "mqar", "2 to 16 pairs to recall, causal", "mqar", averaged=False),
        SuiteTask("Induction", "repeat", "4 to 48 symbols that repeat, causal", "repeat", averaged=False),
        SuiteTask(
            "Needle",
            "needle",
            "a key among 4 to 64 symbols, by the length, causal",
            "needle",
            (range(4, 17), range(17, 33), range(33, 65)),
            averaged=False,
        ),
    )
}


@dataclass(frozen=True)
class Table:
    """What a suite found.

    Args:
        scores: by column and side, seed by seed, in percent; a side that cannot do a task, or of which a run failed,
            is not there.
        averaged: the columns of the average.
        reasons: why a side is missing in a column: sentences.
        results: the comparison of each task, by its name.
        conditions: data, sizes and budget of each task, in words.
    """

    sides: Sequence[str]
    scores: Mapping[str, Mapping[str, Mapping[int, float]]]
    averaged: Sequence[str]
    reasons: Sequence[str]
    results: Mapping[str, Result]
    conditions: Sequence[str]

    def interval(self, column: str, side: str) -> Interval | None:
        """The mean over seeds and its 95 % interval, without limit for one seed; None where there is no score."""
        values = list(self.scores[column].get(side, {}).values())
        return Interval.of(values) if values else None

    def average(self, side: str) -> Interval | None:
        """The mean over the averaged columns, and its interval over seeds; None where one of them is missing."""
        columns = [self.scores[column].get(side, {}) for column in self.averaged]
        seeds = set.intersection(*(set(column) for column in columns)) if columns else set()
        means = [sum(column[seed] for column in columns) / len(columns) for seed in sorted(seeds)]
        return Interval.of(means) if means else None


def tasks_of(suite: str, names: Sequence[str] = ()) -> list[SuiteTask]:
    """The tasks of a suite, or those of these names. Raises: ConfigError for an unknown one.

    >>> [task.name for task in tasks_of("long-range", ["pathfinder", "MQAR"])]
    ['Pathfinder', 'MQAR']
    """
    if suite not in SUITES:
        raise ConfigError(unknown("suite", suite, SUITES))
    known = {task.name.lower(): task for task in SUITES[suite]}
    for name in names:
        if name.lower() not in known:
            raise ConfigError(unknown("task", name, [task.name for task in SUITES[suite]]))
    return [known[name.lower()] for name in names] or list(SUITES[suite])


def arm(recipe: str, side: str, settings: Sequence[str] = ()) -> Arm:
    """A side of a task: a mechanism, or attention under one of `MASKS`. Raises: ConfigError as a recipe's."""
    # data may be drawn later
    model = value_of(read_recipe(recipes.find(recipe), settings), "model")
    section = "model.sequence" if hasattr(model, "sequence") else "model"
    own = f"mask={MASKS[side]}" if side in MASKS else f"mechanism={side}"
    return Arm(recipe, (f"{section}.{own}",))


def run_suite(tasks: Sequence[SuiteTask], sides: Sequence[str], plan: Plan, say: Say = lambda text: None) -> Table:
    """Trains and scores every side on every task, as `compare` does: the same call again goes on where it broke off.

    Args:
        plan: what all tasks have in common: settings, seeds, budget, folder; its names and arms are not read.
    Raises: as `compare`; ConfigError for fewer than two sides.
    """
    if len(sides) < 2:
        raise ConfigError("there is one mechanism, and nothing to compare; give several: --mechanism scored,linear")
    scores: dict[str, dict[str, dict[int, float]]] = {}
    results: dict[str, Result] = {}
    reasons: list[str] = []
    for task in tasks:
        _draw(task, say)
        arms: dict[str, Arm] = {}
        for side in sides:
            try:
                arms[side] = arm(task.recipe, side, plan.settings)
                recipes.read(task.recipe, [*plan.settings, *arms[side].settings])
            except ConfigError as error:
                arms.pop(side, None)
                reasons.append(f"{task.name} has no {side}: {error}")
        if not arms:
            raise ConfigError(reasons[-1])
        say(f"{task.name}: {task.about}")
        result = compare(replace(plan, names=(task.recipe,), arms=arms, metric="accuracy", alone=True), say)
        results[task.name] = result
        for trained in result.sides:
            if trained.failures:
                seeds = ", ".join(map(str, trained.failures))
                reasons.append(f"{task.name} has no {trained.name}: it failed with seed {seeds}")
                continue
            for column, by_seed in _columns(task, trained, plan.limit).items():
                scores.setdefault(column, {})[trained.name] = by_seed
    averaged = [task.name for task in tasks if task.averaged]
    conditions = [f"{task.name}: {task.about}; {_sizes(results[task.name])}" for task in tasks]
    return Table(sides, scores, averaged, reasons, results, conditions)


def _draw(task: SuiteTask, say: Say) -> None:
    """Draws the data of a task where its recipe's own is not there; files that settings name are not its business."""
    if task.drawn is None:
        return
    with suppress(DataError):
        recipes.read(task.recipe, ())
        return
    folder = data_cache() / "synthetic" / task.drawn
    say(f"drawing {folder}")
    count = 2000 if task.drawn == "retrieval" else _COUNT
    generators.make(task.drawn, folder, 1, count)


def _columns(task: SuiteTask, side: Side, limit: int | None) -> dict[str, dict[int, float]]:
    """The scores of a side in percent, by column and seed."""
    if not task.ranges:
        return {task.name: {seed: 100 * score for seed, score in side.scores.items()}}
    table: dict[str, dict[int, float]] = {}
    for seed, run in side.runs.items():
        for bucket in by_length(load(run), examples(run, "test")[:limit], task.ranges):
            span = next(span for span in task.ranges if bucket.longest in span)
            table.setdefault(f"{task.name} {span.stop - 1}", {})[seed] = 100 * bucket.scores["accuracy"]
    return table


def _sizes(result: Result) -> str:
    parameters = [side.cost.parameters for side in result.sides]
    steps = {round(side.steps) for side in result.sides}
    few, many = min(parameters), max(parameters)
    counted = f"{few:,}" if few == many else f"{few:,} to {many:,}"
    return f"{counted} parameters, {' and '.join(f'{number:,}' for number in sorted(steps))} steps"


def rows(table: Table) -> list[dict[str, Any]]:
    """A row for each side, the best average first: each column with ± half its interval, the average, the paper's."""
    averages = {side: table.average(side) for side in table.sides}
    order = sorted(table.sides, key=lambda side: -_value(averages[side]))
    rows_of_sides = []
    for side in order:
        row: dict[str, Any] = {"mechanism": side}
        for column in table.scores:
            row |= _pair(column, table.interval(column, side))
        row |= _pair("average", averages[side])
        row["paper's average"] = round(sum(PUBLISHED[side]) / 5, 2) if side in PUBLISHED else None
        rows_of_sides.append(row)
    return rows_of_sides


def notes(table: Table) -> list[str]:
    """What a reader must know: sizes, seeds, what is missing, where the published numbers are from."""
    seeds = max((len(values) for column in table.scores.values() for values in column.values()), default=0)
    sentences = [*table.conditions, *table.reasons]
    if seeds < ENOUGH_SEEDS:
        sentences.append(f"With {seeds} seed{'s' * (seeds > 1)} only a large difference is clear; take {ENOUGH_SEEDS}.")
    averaged = ", ".join(table.averaged)
    sentences.append(f"Accuracy in percent, ± half of the 95 % interval over seeds; average of {averaged}.")
    return [*sentences, f"The paper's averages ({PAPER}) are of other data, larger models and far longer training."]


def _value(interval: Interval | None) -> float:
    return -math.inf if interval is None else interval.value


def _pair(name: str, interval: Interval | None) -> dict[str, float | None]:
    if interval is None:
        return {name: None, f"{name} ±": None}
    return {name: interval.value, f"{name} ±": interval.half}
