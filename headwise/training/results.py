"""The page of results: finished runs beside baselines and published figures, by data set, as Markdown."""

import csv
import statistics
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headwise.errors import DataError
from headwise.explain.curves import Mean
from headwise.labels import visible
from headwise.predictors.baselines import Baseline
from headwise.tasks import registry
from headwise.training import recipes
from headwise.training.comparison import compare
from headwise.training.ledger import SEEDS, Row

PUBLISHED = "published.csv"
_WIDTH = 120
_COLUMNS = ["data", "metric", "system", "value", "source"]


@dataclass(frozen=True)
class Figure:
    """A figure that somebody published, with its source."""

    data: str
    metric: str
    system: str
    value: float
    source: str


def published(path: Path | None = None) -> list[Figure]:
    """The published figures of a CSV file; None: of the one that ships beside the recipes.

    Raises:
        DataError: a line that is not one of data, metric, system, value and source.
    """
    path = recipes.folder() / PUBLISHED if path is None else path
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream))
    if not rows or rows[0] != _COLUMNS:
        raise DataError(f"{path}:1: the first line must be {','.join(_COLUMNS)}")
    found = []
    for number, row in enumerate(rows[1:], 2):
        try:
            data, metric, system, value, source = row
            found.append(Figure(data, metric, system, float(value), source))
        except ValueError:
            raise DataError(f"{path}:{number}: must be {', '.join(_COLUMNS)}, the value a number") from None
    return found


def page(rows: Sequence[Row], figures: Sequence[Figure], command: str, *, kept: bool = False) -> str:
    """The page: a section for each data set and task, a line for each recipe with mean and spread over its seeds.

    Args:
        command: what wrote it, told on the page.
        kept: the rows are those of a file of records.

    Raises:
        DataError: no runs.
    """
    if not rows:
        raise DataError("there are no results: no runs")
    sections: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        sections.setdefault((row.data, row.task), []).append(row)
    parts = ["# Results\n", _wrapped(_about(rows, command, kept)) + "\n"]
    for name, task in sorted(sections):
        found = sections[name, task]
        several = len({other for data, other in sections if data == name}) > 1
        own = [figure for figure in figures if figure.data == name]
        parts.append(_section(f"{name}: {task}" if several else name, found, own))
    return "\n".join(parts).rstrip() + "\n"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_on_hyphens=False, break_long_words=False)


def _about(rows: Sequence[Row], command: str, kept: bool) -> str:
    other = "" if all(row.part == "test" for row in rows) else ", or on the part that its number of examples names"
    if kept:
        begin = (
            f"Written by `{command}`. The records are finished runs, a row each: recipe, seed, scores, time; naming run"
            f" folders adds theirs. Each run is scored on its own held-out data{other}."
        )
    else:
        begin = f"Written by `{command}` from finished runs; each is scored on its own held-out data{other}."
    return (
        f"{begin} ± is the standard deviation over seeds. CPU seconds are those of training, of all threads together."
    )


def _section(name: str, rows: list[Row], figures: list[Figure]) -> str:
    metric = _metric(rows, figures)
    lines = [
        f"## {name}\n",
        f"| {rows[0].task} | {metric} | seeds | examples | parameters | steps | CPU s | ended, on |",
        "|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    lines += [_line(group, metric) for group in groups.values()]
    baselines = _baselines(list(groups.values()), metric)
    beside = [(f"baseline: {what}", value) for what, value in baselines]
    beside += [(f"{one.system}: {one.source}", f"{one.value:g}") for one in figures if one.metric == metric]
    lines += [_told(found) + " | | | | | |" for found in beside]
    if sentences := [sentence for group in groups.values() if (sentence := _compared(group, metric))]:
        lines += ["", *sentences]
    return "\n".join(lines) + "\n"


def _compared(group: list[Row], metric: str) -> str | None:
    """The mean of a recipe's runs beside the best of the means of their baselines, in words."""
    first = group[0]
    # a file of records does not say which code is run
    metrics = () if ":" in first.task else registry.task_type(first.task).metrics
    reached = [row.scores[metric] for row in group if metric in row.scores]
    names = [name for name, scores in first.baselines.items() if metric in scores]
    common = [name for name in names if all(metric in row.baselines.get(name, {}) for row in group)]
    means = [
        Baseline(name, {metric: statistics.fmean(row.baselines[name][metric] for row in group)}) for name in common
    ]
    if len(reached) < len(group):
        return None
    found = compare(metrics, metric, {metric: statistics.fmean(reached)}, means)
    return None if found is None else f"* `{visible(_label(first))}`: {visible(str(found))}"


def _metric(rows: list[Row], figures: list[Figure]) -> str:
    """The score that others published too; else what a run was judged by, other than its loss."""
    compared = [figure.metric for figure in figures if any(figure.metric in row.scores for row in rows)]
    return next(iter([*compared, *(row.metric for row in rows if row.metric != "loss")]), "loss")


def _baselines(groups: list[list[Row]], metric: str) -> list[tuple[str, str]]:
    """What baselines reach by this metric: one line for what all recipes have in common.

    Where it differs between recipes, each line names those that it is of; where it differs between the seeds of one, it
    is a range.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for group in groups:
        values: dict[str, list[float]] = {}
        for row in group:
            for what in (name for name, scores in row.baselines.items() if metric in scores):
                values.setdefault(what, []).append(row.baselines[what][metric])
        for what, reached in values.items():
            found.setdefault(what, {}).setdefault(_range(reached), []).append(_label(group[0]))
    return [
        (what if len(told) == 1 else f"{what} ({', '.join(f'`{name}`' for name in names)})", value)
        for what, told in sorted(found.items())
        for value, names in told.items()
    ]


def _range(values: list[float]) -> str:
    ends = [str(Mean.of([value])) for value in (min(values), max(values))]
    return " to ".join(dict.fromkeys(ends))


def _label(row: Row) -> str:
    return ",".join(part for part in row.run.split(",") if part.partition("=")[0] not in SEEDS)


def _line(group: list[Row], metric: str) -> str:
    first = group[0]
    reached = [row.scores[metric] for row in group if metric in row.scores]
    seeds = sorted(row.seeds["seed"] for row in group)
    cells = [
        f"`{_label(first)}`",
        str(Mean.of(reached)) if len(reached) == len(group) else "",
        ", ".join(map(str, seeds)),
        f"{first.examples:,}{'' if first.part == 'test' else f' ({first.part})'}",
        "" if first.parameters is None else f"{first.parameters:,}",
        f"{first.steps:,}",
        f"{sum(row.cpu_s for row in group) / len(group):,.0f}",
        ", ".join(str(known) for known in (first.ended, first.processor) if known is not None),
    ]
    return _told(cells)


def _told(cells: Sequence[str]) -> str:
    """A line of a table: names and sources are what people gave, and end no cell."""
    return f"| {' | '.join(visible(cell).replace('|', chr(92) + '|') for cell in cells)} |"
