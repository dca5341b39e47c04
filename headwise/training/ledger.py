"""Rows of finished runs that outlast their folders: what a page of results is made of, and the file that keeps them."""

import datetime
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from pydantic import Field, model_validator

from headwise.config import Config, build, file_keys, value_of
from headwise.data.files import SHIPPED
from headwise.errors import ConfigError, DataError
from headwise.files import replacing
from headwise.locks import turn
from headwise.training.accounts import Account
from headwise.training.progress import finite_only
from headwise.training.recipe import MAY_CHANGE, Recipe

# what runs of one recipe may differ in: of the model and its batches, and of the parts of the data
SEEDS = ("seed", "data.split_seed")
_FORMAT, _VERSION = "headwise results", 1


class Row(Config):
    """A finished run as a page of results tells it."""

    data: str = Field(description="name of the data set")
    task: str = Field(description="what was learned")
    run: str = Field(description="name of its folder")
    recipe: dict[str, Any] = Field(description="keys that decide, where they are not the default")
    digest: str | None = Field(description="SHA-256 of the file that it was trained on")
    seeds: dict[str, int] = Field(description="what runs of one recipe may differ in")
    part: str = Field(description="part of its data that was scored")
    metric: str = Field(description="the score that says which model is best")
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


def rows_of(accounts: Sequence[Account]) -> list[Row]:
    """A row for each run.

    Raises:
        DataError: two runs of one recipe with the same seed, which are no two seeds: their spread would be zero; a
            score that is no finite number.
    """
    found: dict[str, Account] = {}
    rows = []
    for one in accounts:
        row = _row(one)
        other = found.setdefault(row.identity, one)
        if other is not one:
            raise DataError(f"{other.folder} and {one.folder} are one recipe with the same seed; name one of them")
        rows.append(row)
    return rows


def added(kept: Iterable[Row], new: Iterable[Row]) -> list[Row]:
    """Rows by data and task, the new ones in place of those of the same recipe and seed, or behind the others."""
    rows = {row.identity: row for row in kept} | {row.identity: row for row in new}
    return sorted(rows.values(), key=lambda row: (row.data, row.task))


def read_rows(path: Path) -> list[Row]:
    """The rows of a file of `write_rows`; none where there is no such file yet.

    Raises:
        DataError: the file holds something else, or is damaged.
    """
    if path.is_dir():
        raise DataError(f"{path}: is a folder; give the name of a file in it")
    if not path.exists():
        return []
    advice = "name a file that `headwise results --records` wrote, or a new one"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: is not JSON ({error}); {advice}") from None
    if not isinstance(found, dict) or found.keys() != {_FORMAT, "rows"} or not isinstance(found["rows"], list):
        raise DataError(f"{path}: does not hold records of results; {advice}")
    if found[_FORMAT] != _VERSION:
        raise DataError(f"{path}: format {found[_FORMAT]!r} of the records is unknown; this release reads {_VERSION}")
    rows = [_checked(values, f"{path}: row {number}") for number, values in enumerate(found["rows"], 1)]
    if len({row.identity for row in rows}) < len(rows):
        raise DataError(f"{path}: two rows are of one recipe and seed; take one of them out")
    return rows


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Writes the file whole or not at all; a line for each row, so that what changed is seen.

    Raises: OSError where the folder cannot be written.
    """
    lines = [json.dumps(row.model_dump(mode="json"), ensure_ascii=False) for row in rows]
    text = f'{{"{_FORMAT}": {_VERSION}, "rows": [\n' + ",\n".join(lines) + "\n]}\n"
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def put(path: Path, new: Sequence[Row]) -> list[Row]:
    """Puts rows into a file of records, and returns all that it has then; several processes take turns.

    Raises: as `read_rows`, `write_rows` and `turn`.
    """
    if not new:
        return read_rows(path)
    with turn(path):
        rows = added(read_rows(path), new)
        write_rows(path, rows)
    return rows


def data_of(recipe: Recipe) -> str:
    """The name of the data set of a recipe: the folder of its training file, or the name of a file that ships."""
    given = str(value_of(recipe, "data.train")) if hasattr(recipe, "data") else recipe.task
    if given.startswith(SHIPPED):
        return given.removeprefix(SHIPPED).partition(".")[0]
    return PurePath(given).parent.name or PurePath(given).stem


def deciding(recipe: Recipe) -> dict[str, Any]:
    """What decides the result of a recipe, by key, where it is not the default: not seeds, and not where files lie.

    A key that a later release adds leaves it as it is.
    """
    files = file_keys(recipe)
    left_out = MAY_CHANGE | {"task", "show", *SEEDS}
    said = {key: value for key, value in _said(recipe, recipe.model_dump(mode="json"), "") if key not in left_out}
    return {key: _name(value) if key in files else value for key, value in said.items()}


def _said(config: Config, values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, field in type(config).model_fields.items():
        own = getattr(config, name)
        if isinstance(own, Config):
            yield from _said(own, values[name], f"{prefix}{name}.")
        # a kind says which keys there are: each has its own as the default
        elif name == "kind" or own != field.get_default(call_default_factory=True):
            yield f"{prefix}{name}", values[name]


def _name(file: str) -> str:
    return file if file.startswith(SHIPPED) else "/".join(PurePath(file).parts[-2:])


def _row(one: Account) -> Row:
    scores = finite_only(dict(one.scores))
    if one.monitor not in scores:
        raise DataError(f"{one.folder}: its {one.monitor} is no finite number; there is no result to tell")
    return Row(
        data=data_of(one.recipe),
        task=one.recipe.task,
        run=one.folder.name,
        recipe=deciding(one.recipe),
        digest=one.digest,
        seeds={key: value_of(one.recipe, key) for key in SEEDS if _has(one.recipe, key)},
        part=one.part,
        metric=one.monitor,
        scores=scores,
        baselines={name: finite_only(dict(found)) for name, found in one.baselines.items()},
        examples=one.examples,
        parameters=one.parameters,
        steps=one.steps,
        cpu_s=one.cpu_s,
        ended=one.ended,
        processor=one.processor,
        version=one.version,
    )


def _has(recipe: Recipe, key: str) -> bool:
    section, _, name = key.rpartition(".")
    return hasattr(getattr(recipe, section, None) if section else recipe, name)


def _checked(values: Any, place: str) -> Row:
    if not isinstance(values, dict):
        raise DataError(f"{place}: must be an object")
    try:
        return build(Row, values, place)
    except ConfigError as error:
        raise DataError(str(error)) from None
