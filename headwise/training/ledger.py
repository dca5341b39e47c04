"""Finished runs: their scores and costs, as rows for the page of results, and the file of these rows."""

import datetime
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from pydantic import Field, model_validator

from headwise.config import Config, build, file_keys, value_of
from headwise.data.files import SHIPPED
from headwise.errors import CheckpointError, ConfigError, DataError
from headwise.files import replacing
from headwise.locks import turn
from headwise.predictors.predictor import Predictor
from headwise.predictors.rows import Rows
from headwise.runs.checkpoints import Checkpoints
from headwise.training.loading import baselines_of, data_digests, examples, load, recipe_of
from headwise.training.progress import finite_only
from headwise.training.recipe import MAY_CHANGE, Recipe

# keys in which runs of one recipe may differ: the seed of model and batches, and that of the split of the data
SEEDS = ("seed", "data.split_seed")
_FORMAT, _VERSION = "headwise results", 1


def _day(facts: Mapping[str, Any]) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(facts["ended"])
    except (KeyError, TypeError, ValueError):
        return None


class Row(Config):
    """A finished run on a page of results."""

    data: str = Field(description="name of the data set")
    task: str = Field(description="what was learned")
    run: str = Field(description="name of its folder")
    recipe: dict[str, Any] = Field(description="keys that decide, where they are not the default")
    digest: str | None = Field(description="SHA-256 of the file that it was trained on")
    seeds: dict[str, int] = Field(description="what runs of one recipe may differ in")
    part: str = Field(description="part of its data that was scored")
    metric: str = Field(description="the score by which the best model is chosen")
    scores: dict[str, float] = Field(description="of the model")
    baselines: dict[str, dict[str, float]] = Field({}, description="scores of each baseline, by its name")
    examples: int = Field(ge=0, description="how many were scored")
    parameters: int | None = Field(ge=0, description="of the model; null: an older release trained it")
    steps: int = Field(ge=0, description="steps of the optimizer")
    cpu_s: float = Field(ge=0, description="CPU seconds of training, of all threads")
    ended: datetime.date | None = Field(description="day on which training ended; null: as above")
    processor: str | None = Field(description="on which it ended; null: as above")
    version: str | None = Field(description="release that trained it; null: as above")

    @model_validator(mode="after")
    def _scored(self) -> "Row":
        if self.metric not in self.scores:
            raise ValueError(f"scores have no '{self.metric}', which metric names")
        if "seed" not in self.seeds:
            raise ValueError("seeds have no 'seed'")
        return self

    @property
    def group(self) -> str:
        """The same for the runs of one recipe, data and scored part, whatever their seeds."""
        return json.dumps([self.data, self.task, self.recipe, self.digest, self.part], sort_keys=True)

    @property
    def identity(self) -> str:
        """The same for a run and its copy, or one that went on."""
        return json.dumps([self.group, self.seeds], sort_keys=True)


class NoScore(DataError):
    """The main score of a run is no finite number."""


class Account(NamedTuple):
    """A finished run that was scored.

    Args:
        rows: what was counted of each example; None for a task that gives scores alone.
    """

    row: "Row"
    rows: Rows | None
    predictor: Predictor[Any, Any, Any]
    examples: Sequence[Any]


def account(run: Path, split: str = "test", limit: int | None = None) -> Row:
    """Reads a finished run and scores it; texts such as signatures are left out of the scores.

    Args:
        split: the part of its data that is scored: train, valid or test.

    Raises:
        CheckpointError: there is no run, or it has not ended.
        DataError: its data is not there, has no such part, or the main score is no finite number.
    """
    return account_each(run, split, limit).row


def account_each(run: Path, split: str = "test", limit: int | None = None) -> Account:
    """The same with what was counted of each example; raises as `account`."""
    recipe = recipe_of(run)
    facts = Checkpoints(run).finished()
    if facts is None:
        raise CheckpointError(f"{run}: has not ended; go on with it: headwise train RECIPE --run-folder {run}")
    scored = examples(run, split)[:limit]
    predictor = load(run)
    scores, rows = _scored(predictor, scored)
    baselines = baselines_of(run, predictor, scored, scores).scores()
    numbers = {name: float(value) for name, value in scores.items() if not isinstance(value, str)}
    of_run = {name: facts.get(name) for name in ("parameters", "cpu_s", "processor", "version")}
    of_run |= {"steps": facts["step"], "ended": _day(facts), "digest": data_digests(run).get("train")}
    row = row_of(run, recipe, numbers, baselines, part=split, examples=len(scored), **of_run)
    return Account(row, rows, predictor, scored)


def _scored(
    predictor: Predictor[Any, Any, Any], examples: Sequence[Any]
) -> tuple[Mapping[str, float | str], Rows | None]:
    if type(predictor).scored is Predictor.scored:
        return predictor.evaluate(examples), None
    return predictor.evaluate_each(examples)


def row_of(
    run: Path, recipe: Recipe, scores: Mapping[str, float], baselines: Mapping[str, Mapping[str, float]], **facts: Any
) -> Row:
    """The row of a run with these scores, which may be NaN; `facts` are other fields of it.

    Raises: DataError: its main score is no finite number.
    """
    metric, finite = _metric(recipe, scores, baselines), finite_only(dict(scores))
    if metric not in finite:
        raise NoScore(f"{run}: its {metric} is no finite number; there is no result to report")
    return Row(
        data=data_name(recipe),
        task=recipe.task,
        run=run.name,
        recipe=deciding_keys(recipe),
        seeds={key: value_of(recipe, key) for key in SEEDS if _has(recipe, key)},
        metric=metric,
        scores=finite,
        baselines={name: finite_only(dict(values)) for name, values in baselines.items()},
        **facts,
    )


def distinct(rows: Iterable[tuple[Path, Row]]) -> list[Row]:
    """The rows of these run folders. Raises: DataError: two are of one recipe and seed: their spread means nothing."""
    runs: dict[str, Path] = {}
    distinct_rows = []
    for run, row in rows:
        if row.identity in runs:
            raise DataError(f"{runs[row.identity]} and {run} are one recipe with the same seed; name one of them")
        runs[row.identity] = run
        distinct_rows.append(row)
    return distinct_rows


def merge_rows(old: Iterable[Row], new: Iterable[Row]) -> list[Row]:
    """Rows by data and task; new ones replace those of the same recipe and seed, or follow the others."""
    rows = {row.identity: row for row in old} | {row.identity: row for row in new}
    return sorted(rows.values(), key=lambda row: (row.data, row.task))


def read_rows(path: Path) -> list[Row]:
    """The rows of a file of `write_rows`; none if there is no such file.

    Raises: DataError: the file has other content, or is damaged.
    """
    if path.is_dir():
        raise DataError(f"{path}: is a folder; give the name of a file in it")
    if not path.exists():
        return []
    advice = "name a file that `headwise results --records` wrote, or a new one"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: is not JSON ({error}); {advice}") from None
    if not isinstance(content, dict) or content.keys() != {_FORMAT, "rows"} or not isinstance(content["rows"], list):
        raise DataError(f"{path}: does not hold records of results; {advice}")
    if content[_FORMAT] != _VERSION:
        raise DataError(f"{path}: format {content[_FORMAT]!r} of the records is unknown; this release reads {_VERSION}")
    rows = [_read_row(values, f"{path}: row {number}") for number, values in enumerate(content["rows"], 1)]
    if len({row.identity for row in rows}) < len(rows):
        raise DataError(f"{path}: two rows are of one recipe and seed; take one of them out")
    return rows


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Replaces the file in one step; a line for each row, so that differences are easy to read.

    Raises: OSError where the folder cannot be written.
    """
    lines = [json.dumps(row.model_dump(mode="json"), ensure_ascii=False) for row in rows]
    text = f'{{"{_FORMAT}": {_VERSION}, "rows": [\n' + ",\n".join(lines) + "\n]}\n"
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def add_rows(path: Path, new: Sequence[Row]) -> list[Row]:
    """Adds rows to a file of records, and returns all of its rows; several processes take turns.

    Raises: as `read_rows`, `write_rows` and `turn`.
    """
    if not new:
        return read_rows(path)
    with turn(path):
        rows = merge_rows(read_rows(path), new)
        write_rows(path, rows)
    return rows


def data_name(recipe: Recipe) -> str:
    """The name of the data set of a recipe: the folder of its training file, or the name of a file that ships."""
    source = str(value_of(recipe, "data.train")) if hasattr(recipe, "data") else recipe.task
    if source.startswith(SHIPPED):
        return source.removeprefix(SHIPPED).partition(".")[0]
    return PurePath(source).parent.name or PurePath(source).stem


def deciding_keys(recipe: Recipe) -> dict[str, Any]:
    """The keys that decide the result, where they are not the default: without seeds and the folders of files.

    So a key that a later release adds does not change them.
    """
    files = file_keys(recipe)
    left_out = MAY_CHANGE | {"task", "show", *SEEDS}
    values = {key: value for key, value in _changed(recipe, recipe.model_dump(mode="json"), "") if key not in left_out}
    return {key: _file_name(value) if key in files else value for key, value in values.items()}


def _changed(config: Config, values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, field in type(config).model_fields.items():
        own = getattr(config, name)
        if isinstance(own, Config):
            yield from _changed(own, values[name], f"{prefix}{name}.")
        # a kind is always a key, since each kind has itself as the default
        elif name == "kind" or own != field.get_default(call_default_factory=True):
            yield f"{prefix}{name}", values[name]


def _file_name(file: str) -> str:
    return file if file.startswith(SHIPPED) else "/".join(PurePath(file).parts[-2:])


def _metric(recipe: Recipe, scores: Mapping[str, float], baselines: Mapping[str, Mapping[str, float]]) -> str:
    """The monitored metric, where `evaluate` has it; else its first score.

    Instead of a loss without a baseline: the first score that has one, or the first of all.
    """
    monitor, compared = recipe.training.monitor, {name for values in baselines.values() for name in values}
    if monitor == "loss" and "loss" not in compared:
        return next(iter([name for name in scores if name in compared] or scores))
    return monitor if monitor in scores else next(iter(scores))


def _has(recipe: Recipe, key: str) -> bool:
    section, _, name = key.rpartition(".")
    return hasattr(getattr(recipe, section, None) if section else recipe, name)


def _read_row(values: Any, place: str) -> Row:
    if not isinstance(values, dict):
        raise DataError(f"{place}: must be an object")
    try:
        return build(Row, values, place)
    except ConfigError as error:
        raise DataError(str(error)) from None
