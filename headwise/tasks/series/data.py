"""Series of numbers: options, reading by step, parts in time, windows, the scale of their numbers."""

import json
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from pydantic import Field
from torch import Tensor

from headwise.config import Config, DataFile
from headwise.data.bad_lines import BadLine, strict
from headwise.data.files import MAX_LINE_BYTES, digested, require_file, resolve
from headwise.data.splits import SPLITS, own_files
from headwise.data.tables import Row, Table, TableFormat, heading, moment_of, name_of, number_of, scan_rows
from headwise.errors import ConfigError, DataError, unknown

# what a cell without a number may say, in lower case
_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "-", "?"})
# rows that tell which columns hold numbers
_LOOKED_AT = 100
# squares of larger numbers would leave the range of what models compute with
_LARGEST = 1e30
_DAY, _EPOCH = 86_400, datetime(1970, 1, 1)


class SeriesConfig(Config):
    """Which series to read, and how."""

    train: DataFile = Field(description="table of the series (CSV with a heading, TSV, JSON lines), a row a time step")
    valid: DataFile | None = Field(None, description="series to validate on; without it the steps before the test's")
    test: DataFile | None = Field(None, description="series to test on; without it the last steps of each of train")
    format: TableFormat = Field("auto", description="auto (by name, else by content), csv, tsv or jsonl")
    delimiter: str = Field(",", description="what parts the columns of a CSV file: one character")
    columns: list[str] = Field(default=[], description="columns of the numbers to read; if empty, all that hold some")
    targets: list[str] = Field(default=[], description="columns to predict; if empty, all that are read")
    series: str | None = Field(None, description="column of the name of a row's series, where a file holds several")
    time: str | None = Field(None, description="column of the time, number or ISO date, which must rise; not a feature")
    missing: Literal["stop", "previous"] = Field(
        "stop", description="a cell without a number: stop, or previous, which repeats the last value"
    )
    season: int | None = Field(None, ge=1, description="steps after which a series repeats itself: one more baseline")
    valid_fraction: float = Field(0.1, ge=0, lt=1, description="part of the steps of each series, before those to test")
    test_fraction: float = Field(0.2, ge=0, lt=1, description="part of the steps of each series, its last ones")
    max_line_bytes: int = Field(MAX_LINE_BYTES, ge=1, description="longer lines are refused")

    def model_post_init(self, context: object) -> None:
        for key in ("columns", "targets"):
            again, count = next(iter(Counter(getattr(self, key)).most_common(1)), ("", 0))
            if count > 1:
                raise ConfigError(f"{key} name '{again}' twice; leave one out")
        if self.columns:
            check_targets(self.targets, self.columns)
        for key in ("series", "time"):
            if getattr(self, key) in self.columns:
                raise ConfigError(f"{key} = '{getattr(self, key)}' is among columns, the numbers read; leave one out")
        if self.valid_fraction + self.test_fraction >= 1:
            raise ConfigError(
                f"valid_fraction ({self.valid_fraction}) and test_fraction ({self.test_fraction}) must together be less"
                " than 1"
            )

    def table(self) -> Table:
        """How the files are read as rows. Raises: ConfigError for a delimiter that is none."""
        return Table(
            self.format, self.delimiter, self.max_line_bytes, "data.columns, data.series and data.time", numbered=False
        )


def check_targets(targets: Sequence[str], columns: Sequence[str]) -> None:
    """Raises: ConfigError for a target that is not read."""
    available = set(columns)
    for target in targets:
        if target not in available:
            raise ConfigError(f"data.targets: {unknown('column', target, columns)}")


class Step(NamedTuple):
    """A row: the name of its series, its numbers, its time if it has one, the numbers that were filled in, its line."""

    series: str
    numbers: tuple[float, ...]
    time: float | None
    filled: int
    line: int


@dataclass(frozen=True, eq=False)
class Series:
    """Numbers in the order of time.

    Args:
        name: empty for the only series of a file.
        columns: what the columns of `values` are called.
        times: of every step, in the unit of the file, or seconds since 1970 for dates; None: they are counted.
        dated: whether times are dates.
        filled: numbers that were missing and are those of the step before.
    """

    name: str
    columns: tuple[str, ...]
    values: Float64[np.ndarray, "steps columns"]
    times: Float64[np.ndarray, "steps"] | None = None
    dated: bool = False
    filled: int = 0

    def __len__(self) -> int:
        return len(self.values)

    @property
    def called(self) -> str:
        return f"series '{self.name[:30]}'" if self.name else "the series"

    def of(self, columns: Sequence[str]) -> Float64[np.ndarray, "steps chosen"]:
        """The numbers of these columns. Raises: DataError for one that it has not."""
        where = {column: place for place, column in enumerate(self.columns)}
        for column in columns:
            if column not in where:
                raise DataError(f"{self.called}: {unknown('column', column, self.columns)}; the model reads it")
        if tuple(columns) == self.columns:
            return self.values
        return self.values[:, [where[column] for column in columns]]

    def even(self) -> bool:
        """Whether times rise by the same everywhere, within rounding."""
        if self.times is None or len(self.times) < 2:
            return True
        gaps = np.diff(self.times)
        return bool(np.ptp(gaps) <= 1e-6 * gaps.max())

    def next_times(self, steps: int) -> list[str]:
        """The times after the last step, dates in UTC; where steps are not even or have no time, `+1`, `+2`, ...

        >>> Series("", ("a",), np.zeros((2, 1)), np.array([0.0, 3600.0]), dated=True).next_times(2)
        ['1970-01-01T02:00:00', '1970-01-01T03:00:00']
        """
        counted = [f"+{step}" for step in range(1, steps + 1)]
        if self.times is None or len(self.times) < 2 or not self.even():
            return counted
        gap = (self.times[-1] - self.times[0]) / (len(self.times) - 1)
        following = [float(self.times[-1] + step * gap) for step in range(1, steps + 1)]
        if not self.dated:
            return [f"{time:.12g}" for time in following]
        days = bool((self.times % _DAY == 0).all())
        try:
            dates = [_EPOCH + timedelta(seconds=round(time)) for time in following]
        except OverflowError:
            return counted
        return [(time.date() if days and not gap % _DAY else time).isoformat() for time in dates]


def numeric_columns(path: str | os.PathLike[str], config: SeriesConfig) -> tuple[list[str], list[str]]:
    """The columns of a file that hold numbers, and the others, by the first cell of each that is not empty.

    Columns of series and time are among neither.

    Raises: DataError: the file cannot be read, has no line of names, or no numbers.
    """
    require_file(os.fspath(path))
    names = heading(path, config.table())
    if all(_is_number(name) for name in names):
        raise DataError(f"{path}:1: numbers, where names of columns are expected; write a line of names above them")
    free = [name for name in names if name and name not in (config.series, config.time)]
    first: dict[str, Any] = {}
    # of JSON lines, an object may lack a field that is none of the numbers
    for row in islice(strict(scan_rows(path, config.table(), free[:1], free)), _LOOKED_AT):
        first = {str(key): cell for key, cell in row.cells.items() if not _is_missing(cell)} | first
    numeric = [name for name in free if name in first and _is_number(first[name])]
    if not numeric:
        raise DataError(
            f"{path}: no column of it holds numbers, with digits and a point such as -0.5; write a heading, and a row"
            " for each step"
        )
    used = {*numeric, config.series, config.time}
    return numeric, [name for name in names if name not in used]


def scan_steps(path: str | os.PathLike[str], config: SeriesConfig, columns: Sequence[str]) -> Iterator[Step | BadLine]:
    """The rows of a file, one after another, with the lines that are bad.

    Args:
        config: format and what the other columns are; its paths are not read.

    Raises: DataError: the file cannot be read any further, or lacks a column.
    """
    name = os.fspath(path)
    keys = [*columns, *(key for key in (config.series, config.time) if key is not None)]
    before: dict[str, Step] = {}
    for row in scan_rows(name, config.table(), list(dict.fromkeys(keys))):
        if isinstance(row, BadLine):
            yield row
            continue
        try:
            step = _step(name, row, config, columns, before)
        except BadLine as fault:
            yield fault
        else:
            before[step.series] = step
            yield step


def read_series(path: Path, config: SeriesConfig, columns: Sequence[str]) -> list[Series]:
    """The series of a file, in the order in which they begin.

    Raises: DataError: `file:line: ...`, the first line that cannot be read, or a file without steps.
    """
    require_file(path)
    steps_by_series: dict[str, list[Step]] = {}
    for step in strict(scan_steps(path, config, columns)):
        steps_by_series.setdefault(step.series, []).append(step)
    if not steps_by_series:
        raise DataError(f"{path}: no time steps in it; write a row of numbers for each")
    dated = False
    if config.time is not None:
        first = next(strict(scan_rows(path, config.table(), [config.time])))
        dated = not _is_number(first.cells[config.time])
    return [_joined(name, tuple(columns), steps, dated) for name, steps in steps_by_series.items()]


def read_file(path: Path, config: SeriesConfig) -> list[Series]:
    """The series of a file with the columns of a recipe, or with all that hold numbers; raises as `read_series`."""
    return read_series(path, config, config.columns or numeric_columns(path, config)[0])


def _joined(name: str, columns: tuple[str, ...], steps: list[Step], dated: bool) -> Series:
    values = np.array([step.numbers for step in steps], np.float64)
    moments = [step.time for step in steps if step.time is not None]
    times = np.array(moments, np.float64) if len(moments) == len(steps) else None
    return Series(name, columns, values, times, dated, sum(step.filled for step in steps))


def _step(name: str, row: Row, config: SeriesConfig, columns: Sequence[str], before: dict[str, Step]) -> Step:
    series, time = "", None
    if config.series is not None:
        fault = partial(_placed, name, row.line, config.series)
        series = name_of(row.cells[config.series], fault, what="name of the series")
    last = before.get(series)
    if config.time is not None:
        fault = partial(_placed, name, row.line, config.time)
        time = moment_of(row.cells[config.time], fault, "time")
        if last is not None and last.time is not None and not time > last.time:
            raise fault(f"the time is not later than that of line {last.line}; sort the rows, and leave one of a time")
    numbers, filled = [], 0
    for place, column in enumerate(columns):
        cell, fault = row.cells[column], partial(_placed, name, row.line, column)
        if _is_missing(cell) and config.missing == "previous" and last is not None:
            numbers.append(last.numbers[place])
            filled += 1
        else:
            numbers.append(_number(cell, fault))
    return Step(series, tuple(numbers), time, filled, row.line)


def _number(cell: Any, fault: Any) -> float:
    if _is_missing(cell):
        raise fault('there is no number; write one, or take that of the step before with data.missing = "previous"')
    number = number_of(cell, fault, what="cell")
    if abs(number) > _LARGEST:
        raise fault(f"the number is beyond {_LARGEST:g}; give it in a larger unit")
    return number


def _placed(name: str, line: int, column: str, message: str) -> BadLine:
    return BadLine(name, line, "cells", f"column '{column[:30]}': {message}")


def _is_missing(cell: Any) -> bool:
    if isinstance(cell, float):
        return math.isnan(cell)
    return cell is None or (isinstance(cell, str) and cell.strip().lower() in _MISSING)


def _is_number(cell: Any) -> bool:
    try:
        number_of(cell, partial(_placed, "", 0, ""))
    except BadLine:
        return False
    return True


# names that a note lists
_NAMED = 4
# a deviation below this share of the mean is what rounding leaves of equal numbers
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Span:
    """Steps of a series, from `start` to before `end`, to predict."""

    series: Series
    start: int
    end: int

    def places(self, length: int, horizon: int) -> range:
        """Where the steps to predict of a window may begin: its history may lie before the span, they may not.

        >>> Span(Series("", ("a",), np.zeros((20, 1))), 10, 20).places(8, 4)
        range(10, 17)
        """
        return range(max(self.start, length), self.end - horizon + 1)


@dataclass(frozen=True, eq=False)
class Window:
    """A place of a series, at which the steps to tell begin; the history ends right before it."""

    series: Series
    place: int


@dataclass(frozen=True)
class Scaling:
    """The columns that are read, which of them are predicted, and their means and deviations in training."""

    columns: tuple[str, ...]
    targets: tuple[str, ...]
    means: tuple[float, ...]
    deviations: tuple[float, ...]

    @property
    def target_columns(self) -> list[int]:
        """The places of the targets among the columns."""
        where = {column: place for place, column in enumerate(self.columns)}
        return [where[target] for target in self.targets]

    @property
    def units(self) -> Float64[np.ndarray, "targets"]:
        """The deviations of the targets: what a standardised number is multiplied by."""
        return np.array(self.deviations)[self.target_columns]

    def standardised(self, series: Series) -> Float64[np.ndarray, "steps columns"]:
        """(number - mean) / deviation of the columns. Raises: DataError for a column that the series has not."""
        return (series.of(self.columns) - np.array(self.means)) / np.array(self.deviations)

    def restored(self, numbers: Float64[np.ndarray, "*steps targets"]) -> Float64[np.ndarray, "*steps targets"]:
        """Standardised numbers of the targets, in the units of the file."""
        return numbers * self.units + np.array(self.means)[self.target_columns]

    def to_bytes(self) -> bytes:
        """As a file of a run: the same bytes for the same numbers."""
        fields = {name: list(getattr(self, name)) for name in ("columns", "targets", "means", "deviations")}
        return (json.dumps(fields, ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode()

    @classmethod
    def from_json(cls, fields: Any) -> "Scaling":
        """From what `to_bytes` wrote. Raises: ValueError, TypeError or KeyError for anything else."""
        columns, targets = (tuple(map(str, fields[key])) for key in ("columns", "targets"))
        means, deviations = (tuple(map(float, fields[key])) for key in ("means", "deviations"))
        if not (
            0 < len(columns) == len(means) == len(deviations) == len(set(columns))
            and targets
            and set(targets) <= set(columns)
            and all(map(math.isfinite, [*means, *deviations]))
            and min(deviations) > 0
        ):
            raise ValueError(fields)
        return cls(columns, targets, means, deviations)


@dataclass(frozen=True)
class SeriesParts:
    """The spans of each part, the columns read and predicted, digests by key, and notes."""

    spans: Mapping[str, Sequence[Span]]
    columns: tuple[str, ...]
    targets: tuple[str, ...]
    digests: Mapping[str, str]
    notes: tuple[str, ...]

    def scaling(self) -> Scaling:
        """Means and deviations of all steps of training; the deviation of equal numbers is 1."""
        rows = _rows(self.spans["train"], self.columns)
        means, deviations = rows.mean(axis=0), rows.std(axis=0)
        deviations[deviations <= _ROUNDING * np.abs(means)] = 1.0
        return Scaling(self.columns, self.targets, tuple(means.tolist()), tuple(deviations.tolist()))


class WindowTable:
    """Windows of some spans, standardised once; `rows` gives some of them side by side.

    >>> span = Span(Series("", ("a",), np.arange(6.0)[:, None]), 2, 6)
    >>> table = WindowTable([span], Scaling(("a",), ("a",), (1.0,), (2.0,)), 2, 1)
    >>> len(table), table.rows([0, 3])[..., 0].tolist()
    (4, [[-0.5, 0.0, 0.5], [1.0, 1.5, 2.0]])
    """

    def __init__(self, spans: Sequence[Span], scaling: Scaling, length: int, horizon: int):
        rows, starts, before = [], [], 0
        for span in spans:
            places = span.places(length, horizon)
            first = max(0, span.start - length)
            starts.append(np.arange(places.start, max(places.start, places.stop)) - length - first + before)
            rows.append(scaling.standardised(span.series)[first : span.end])
            before += len(rows[-1])
        empty = np.zeros((0, len(scaling.columns)))
        self.steps: Float[Tensor, "steps columns"] = torch.from_numpy(np.concatenate([empty, *rows])).float()
        self.starts: Int64[np.ndarray, "windows"] = np.concatenate([np.zeros(0, np.int64), *starts]).astype(np.int64)
        self.places = length + horizon

    def __len__(self) -> int:
        return len(self.starts)

    def rows(self, indices: Sequence[int]) -> Float[Tensor, "windows places columns"]:
        """History and steps to tell of these windows."""
        return self.steps[torch.from_numpy(self.starts[list(indices), None] + np.arange(self.places))]


def read_parts(data: SeriesConfig, length: int, horizon: int) -> SeriesParts:
    """Reads the files of a recipe and parts their series in time: each begins with training and ends with the test.

    Raises: ConfigError: targets that are not read; DataError: a file cannot be read as asked, or a part has no window.
    """
    paths = own_files(data)
    notes: list[str] = []
    with digested(paths) as digests:
        columns = _columns(data, notes)
        check_targets(data.targets, columns)
        series_of = {part: read_series(path, data, columns) for part, path in paths.items()}
    spans = parted(series_of["train"], data, {part for part in series_of if part != "train"})
    spans |= {
        part: [Span(series, 0, len(series)) for series in series_of[part]] for part in series_of if part != "train"
    }
    for part, series in series_of.items():
        notes += [f"{part}: {note}" for note in _odd(series)]
        if part != "train" and digests[part] == digests["train"]:
            notes.append(f"{part}: is the same file as train, so its scores are of what was trained on")
    for part in [split for split in SPLITS if split in spans]:
        notes.append(f"{part}: {_split_note(part, spans[part], length, horizon, paths.get(part, paths['train']))}")
    still = np.ptp(_rows(spans["train"], columns), axis=0) == 0
    for column in np.array(columns, object)[still]:
        notes.append(f"train: column '{column}' is the same number throughout, so nothing can be learned of it")
    return SeriesParts(spans, tuple(columns), tuple(data.targets or columns), digests, tuple(notes))


def parted(all_series: Sequence[Series], data: SeriesConfig, with_files: set[str]) -> dict[str, list[Span]]:
    """Spans of the first steps of each series, of those after, and of its last; parts in `with_files` get none."""
    spans: dict[str, list[Span]] = {}
    for series in all_series:
        count = len(series)
        test = 0 if "test" in with_files else round(count * data.test_fraction)
        valid = 0 if "valid" in with_files else round(count * data.valid_fraction)
        bounds = {"train": (0, count - test - valid), "valid": (count - test - valid, count - test)}
        for part, (start, end) in {**bounds, "test": (count - test, count)}.items():
            if part == "train" or (part not in with_files and getattr(data, f"{part}_fraction")):
                spans.setdefault(part, []).append(Span(series, start, end))
    return spans


def windows(spans: Sequence[Span], length: int, horizon: int) -> list[Window]:
    return [Window(span.series, place) for span in spans for place in span.places(length, horizon)]


def _rows(spans: Sequence[Span], columns: Sequence[str]) -> Float64[np.ndarray, "steps columns"]:
    return np.concatenate([span.series.of(columns)[span.start : span.end] for span in spans])


def _columns(data: SeriesConfig, notes: list[str]) -> list[str]:
    """The columns that are read; what others there are is noted."""
    if data.columns:
        return list(data.columns)
    columns, others = numeric_columns(resolve(data.train), data)
    if others:
        shown = ", ".join(f"'{name[:30]}'" for name in others[:_NAMED]) + (", ..." if len(others) > _NAMED else "")
        notes.append(f"columns without a name or without numbers, not read: {shown}")
    return columns


def _odd(all_series: Sequence[Series]) -> list[str]:
    """Notes on what is odd about series."""
    notes = []
    if filled := sum(series.filled for series in all_series):
        notes.append(f"{filled:,} missing numbers are those of the step before")
    if uneven := [series.name for series in all_series if not series.even()]:
        notes.append(f"the steps of {_named(uneven)} are not even in time, but are taken as even")
    return notes


def _split_note(part: str, spans: Sequence[Span], length: int, horizon: int, path: object) -> str:
    """How many windows a part has, and which series have none. Raises: DataError for a part without any."""
    short = [span.series.name for span in spans if not span.places(length, horizon)]
    steps, count = sum(span.end - span.start for span in spans), len(windows(spans, length, horizon))
    if not count:
        longest = max((span.end - span.start for span in spans), default=0)
        raise DataError(
            f"{path}: no window of {length} + {horizon} steps in the {part} part, whose longest series has {longest:,};"
            f" lower length or horizon, give more steps, or change data.valid_fraction and data.test_fraction"
        )
    left = f"; too short for a window, left out: {_named(short)}" if short else ""
    return f"{steps:,} steps in {len(spans):,} series, {count:,} windows{left}"


def _named(names: Sequence[str]) -> str:
    if list(names) == [""]:
        return "the series"
    shown = ", ".join(f"'{name[:30]}'" for name in names[:_NAMED])
    return f"{len(names):,} series ({shown}{', ...' if len(names) > _NAMED else ''})"
