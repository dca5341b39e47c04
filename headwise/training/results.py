"""The page of results: finished runs beside baselines and published figures, by data set, as Markdown."""

import csv
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from headwise.config import value_of
from headwise.data.corpus import SHIPPED
from headwise.errors import DataError
from headwise.explain.lines import Mean
from headwise.training import recipes
from headwise.training.accounts import Account
from headwise.training.recipe import MAY_CHANGE, flattened

PUBLISHED = "published.csv"
# what runs of one recipe may differ in: of the model and its batches, and of the parts of the data
SEEDS = {"seed", "data.split_seed"}
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


def page(accounts: Sequence[Account], figures: Sequence[Figure], command: str) -> str:
    """The page: a section for each data set and task, a row for each recipe with mean and spread over its seeds.

    Args:
        command: what wrote it, told on the page.

    Raises:
        DataError: no runs, or two of one recipe with the same seed.
    """
    if not accounts:
        raise DataError("there are no results: no runs")
    sections: dict[tuple[str, str], list[Account]] = {}
    for one in accounts:
        sections.setdefault((data_of(one), one.recipe.task), []).append(one)
    about = (
        f"Written by `{command}` from finished runs; each is scored on its own held-out data. ± is the standard"
        " deviation over seeds. CPU seconds are those of training, of all threads together."
    )
    parts = ["# Results\n", textwrap.fill(about, _WIDTH, break_on_hyphens=False, break_long_words=False) + "\n"]
    for name, task in sorted(sections):
        found = sections[name, task]
        several = len({other for data, other in sections if data == name}) > 1
        own = [figure for figure in figures if figure.data == name]
        parts.append(_section(f"{name}: {task}" if several else name, found, own))
    return "\n".join(parts).rstrip() + "\n"


def data_of(one: Account) -> str:
    """The name of the data set of a run: the folder of its training file, or the name of a file that ships."""
    given = str(value_of(one.recipe, "data.train")) if hasattr(one.recipe, "data") else one.recipe.task
    if given.startswith(SHIPPED):
        return given.removeprefix(SHIPPED).partition(".")[0]
    return PurePath(given).parent.name or PurePath(given).stem


def _section(name: str, accounts: list[Account], figures: list[Figure]) -> str:
    metric = next((figure.metric for figure in figures if figure.metric in accounts[0].scores), accounts[0].monitor)
    lines = [
        f"## {name}\n",
        f"| {accounts[0].recipe.task} | {metric} | seeds | examples | parameters | steps | CPU s | ended, on |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for group in _groups(accounts):
        lines.append(_row(group, metric))
    lines += [f"| baseline: {what} | {value:.4f} | | | | | | |" for what, value in _baselines(accounts, metric)]
    counted = {value for one in accounts if (value := one.scores.get(f"ngram_{metric}")) is not None}
    lines += [f"| n-gram model of the training tokens | {Mean.of([value])} | | | | | | |" for value in sorted(counted)]
    lines += [
        f"| {figure.system}: {figure.source} | {figure.value:g} | | | | | | |"
        for figure in figures
        if figure.metric == metric
    ]
    return "\n".join(lines) + "\n"


def _baselines(accounts: list[Account], metric: str) -> list[tuple[str, float]]:
    """What answers without a model reach by this metric, and what they are: `baseline`, or `baseline_WHAT_METRIC`."""
    found: set[tuple[str, float]] = set()
    for one in accounts:
        own = [name for name in one.scores if name.startswith("baseline_") and name.endswith(f"_{metric}")]
        for name in own or ["baseline"] * ("baseline" in one.scores):
            what = name.removeprefix("baseline").removesuffix(metric).strip("_").replace("_", " ")
            found.add((what or "knowing nothing of the input", float(one.scores[name])))
    return sorted(found)


def _groups(accounts: list[Account]) -> list[list[Account]]:
    """Runs of one recipe and different seeds together, in the order of the first of each."""
    groups: dict[str, list[Account]] = {}
    for one in accounts:
        deciding = {key: value for key, value in flattened(one.recipe).items() if key not in MAY_CHANGE | SEEDS}
        groups.setdefault(repr(sorted(deciding.items(), key=lambda item: item[0])), []).append(one)
    for group in groups.values():
        _refuse_twins(group)
    return list(groups.values())


def _refuse_twins(group: list[Account]) -> None:
    """A run and its copy are no two seeds: their spread would be zero. Raises: DataError naming both."""
    seen: dict[str, Path] = {}
    for one in group:
        values = flattened(one.recipe)
        seeds = repr([values.get(key) for key in sorted(SEEDS)])
        if seeds in seen:
            raise DataError(f"{seen[seeds]} and {one.folder} are one recipe with the same seed; name one of them")
        seen[seeds] = one.folder


def _row(group: list[Account], metric: str) -> str:
    first = group[0]
    name = ",".join(part for part in first.folder.name.split(",") if part.partition("=")[0] not in SEEDS)
    score = str(Mean.of([one.scores[metric] for one in group])) if all(metric in one.scores for one in group) else ""
    seeds = ", ".join(str(one.recipe.seed) for one in sorted(group, key=lambda one: one.recipe.seed))
    cells = [
        f"`{name}`",
        score,
        seeds,
        f"{first.examples:,}",
        "" if first.parameters is None else f"{first.parameters:,}",
        f"{first.steps:,}",
        f"{sum(one.cpu_s for one in group) / len(group):,.0f}",
        ", ".join(str(known) for known in (first.ended, first.processor) if known is not None),
    ]
    return f"| {' | '.join(cells)} |"
