"""The page of results: finished runs with baselines and published figures, by data set, as Markdown."""

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
    data: str
    metric: str
    system: str
    value: float
    source: str


def published(path: Path | None = None) -> list[Figure]:
    """The published figures of a CSV file; None: of the one that ships with the recipes.

    Raises: DataError: a line that is not data, metric, system, value and source.
    """
    path = recipes.folder() / PUBLISHED if path is None else path
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream))
    if not rows or rows[0] != _COLUMNS:
        raise DataError(f"{path}:1: the first line must be {','.join(_COLUMNS)}")
    figures = []
    for number, row in enumerate(rows[1:], 2):
        try:
            data, metric, system, value, source = row
            figures.append(Figure(data, metric, system, float(value), source))
        except ValueError:
            raise DataError(f"{path}:{number}: must be {', '.join(_COLUMNS)}, the value a number") from None
    return figures


def page(rows: Sequence[Row], figures: Sequence[Figure], command: str, *, from_records: bool = False) -> str:
    """The page: a section for each data set and task, a line for each recipe with mean and spread over its seeds.

    Args:
        from_records: the rows are those of a file of records.

    Raises: DataError: no runs.
    """
    if not rows:
        raise DataError("there are no results: no runs")
    sections: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        sections.setdefault((row.data, row.task), []).append(row)
    parts = ["# Results\n", _about(rows, command, from_records) + "\n"]
    for name, task in sorted(sections):
        several = len({other for data, other in sections if data == name}) > 1
        title = f"{name}: {task}" if several else name
        parts.append(_section(title, sections[name, task], [figure for figure in figures if figure.data == name]))
    return "\n".join(parts).rstrip() + "\n"


def _about(rows: Sequence[Row], command: str, from_records: bool) -> str:
    other = "" if all(row.part == "test" for row in rows) else ", or on the part that its number of examples names"
    if from_records:
        begin = (
            f"Written by `{command}`. The records are finished runs, a row each: recipe, seed, scores, time; naming run"
            f" folders adds their rows. Each run is scored on its own held-out data{other}."
        )
    else:
        begin = f"Written by `{command}` from finished runs; each is scored on its own held-out data{other}."
    text = (
        f"{begin} ± is the standard deviation over seeds. CPU seconds are those of training, of all threads together."
    )
    return textwrap.fill(text, _WIDTH, break_on_hyphens=False, break_long_words=False)


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
    others = [(f"baseline: {name}", value) for name, value in baselines]
    others += [
        (f"{figure.system}: {figure.source}", f"{figure.value:g}") for figure in figures if figure.metric == metric
    ]
    lines += [_table_row(cells) + " | | | | | |" for cells in others]
    if sentences := [sentence for group in groups.values() if (sentence := _comparison(group, metric))]:
        lines += ["", *sentences]
    return "\n".join(lines) + "\n"


def _comparison(group: list[Row], metric: str) -> str | None:
    """The mean of a recipe's runs compared with the best of the means of their baselines, in words."""
    first = group[0]
    # the code of a user's task is not loaded for a file of records
    metrics = () if ":" in first.task else registry.task_type(first.task).metrics
    values = [row.scores[metric] for row in group if metric in row.scores]
    names = [name for name, scores in first.baselines.items() if metric in scores]
    common = [name for name in names if all(metric in row.baselines.get(name, {}) for row in group)]
    means = [
        Baseline(name, {metric: statistics.fmean(row.baselines[name][metric] for row in group)}) for name in common
    ]
    if len(values) < len(group):
        return None
    comparison = compare(metrics, metric, {metric: statistics.fmean(values)}, means)
    return None if comparison is None else f"* `{visible(_label(first))}`: {visible(str(comparison))}"


def _metric(rows: list[Row], figures: list[Figure]) -> str:
    """A score with published figures; else the metric of a run, other than its loss."""
    published = [figure.metric for figure in figures if any(figure.metric in row.scores for row in rows)]
    return next(iter([*published, *(row.metric for row in rows if row.metric != "loss")]), "loss")


def _baselines(groups: list[list[Row]], metric: str) -> list[tuple[str, str]]:
    """The scores of baselines by this metric: one line for a score that all recipes have in common.

    Where it differs between recipes, each line names its recipes; where it differs between the seeds of one, it is a
    range.
    """
    labels: dict[str, dict[str, list[str]]] = {}
    for group in groups:
        values: dict[str, list[float]] = {}
        for row in group:
            for name in (name for name, scores in row.baselines.items() if metric in scores):
                values.setdefault(name, []).append(row.baselines[name][metric])
        for name, scores_of_seeds in values.items():
            labels.setdefault(name, {}).setdefault(_range(scores_of_seeds), []).append(_label(group[0]))
    return [
        (name if len(by_value) == 1 else f"{name} ({', '.join(f'`{label}`' for label in recipe_labels)})", value)
        for name, by_value in sorted(labels.items())
        for value, recipe_labels in by_value.items()
    ]


def _range(values: list[float]) -> str:
    ends = [str(Mean.of([value])) for value in (min(values), max(values))]
    return " to ".join(dict.fromkeys(ends))


def _label(row: Row) -> str:
    return ",".join(part for part in row.run.split(",") if part.partition("=")[0] not in SEEDS)


def _line(group: list[Row], metric: str) -> str:
    first = group[0]
    values = [row.scores[metric] for row in group if metric in row.scores]
    seeds = sorted(row.seeds["seed"] for row in group)
    cells = [
        f"`{_label(first)}`",
        str(Mean.of(values)) if len(values) == len(group) else "",
        ", ".join(map(str, seeds)),
        f"{first.examples:,}{'' if first.part == 'test' else f' ({first.part})'}",
        "" if first.parameters is None else f"{first.parameters:,}",
        f"{first.steps:,}",
        f"{sum(row.cpu_s for row in group) / len(group):,.0f}",
        ", ".join(str(fact) for fact in (first.ended, first.processor) if fact is not None),
    ]
    return _table_row(cells)


def _table_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(visible(cell).replace('|', chr(92) + '|') for cell in cells)} |"
