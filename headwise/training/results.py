"""The page of results: finished runs beside baselines and published figures, by data set, as Markdown."""

import csv
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headwise.errors import DataError
from headwise.explain.lines import Mean
from headwise.labels import visible
from headwise.training import recipes
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
    beside = _beside(list(groups.values()), metric)
    beside += [(f"{one.system}: {one.source}", f"{one.value:g}") for one in figures if one.metric == metric]
    lines += [_told(found) + " | | | | | |" for found in beside]
    return "\n".join(lines) + "\n"


def _metric(rows: list[Row], figures: list[Figure]) -> str:
    """The score that others published too; else what a run was judged by, other than its loss."""
    compared = [figure.metric for figure in figures if any(figure.metric in row.scores for row in rows)]
    return next(iter([*compared, *(row.metric for row in rows if row.metric != "loss")]), "loss")


def _beside(groups: list[list[Row]], metric: str) -> list[tuple[str, str]]:
    """What simpler ways to answer reach by this metric: one line for what all recipes have in common.

    Where it differs between recipes, each line names those that it is of; where it differs between the seeds of one, it
    is a range.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for group in groups:
        values: dict[str, list[float]] = {}
        for row in group:
            for what, value in _simpler(row, metric).items():
                values.setdefault(what, []).append(value)
        for what, reached in values.items():
            found.setdefault(what, {}).setdefault(_range(reached), []).append(_label(group[0]))
    return [
        (what if len(told) == 1 else f"{what} ({', '.join(f'`{name}`' for name in names)})", value)
        for what, told in sorted(found.items())
        for value, names in told.items()
    ]


def _simpler(row: Row, metric: str) -> dict[str, float]:
    """`baseline` or `baseline_WHAT_METRIC`, and `ngram_METRIC`, of a run's scores, by what they are."""
    own = [name for name in row.scores if name.startswith("baseline_") and name.endswith(f"_{metric}")]
    found = {}
    for name in own or ["baseline"] * ("baseline" in row.scores):
        what = name.removeprefix("baseline").removesuffix(metric).strip("_").replace("_", " ")
        found[f"baseline: {what or 'knowing nothing of the input'}"] = row.scores[name]
    counted = row.scores.get(f"ngram_{metric}")
    return found if counted is None else found | {"n-gram model of the training tokens": counted}


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
