"""The parts of series in time, the windows in them, and the scale of their numbers; what is left out, to be told."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from headwise.data.corpus import resolve
from headwise.data.files import digested
from headwise.data.series import Series, SeriesConfig, check_targets, numeric_columns, read_series
from headwise.errors import DataError

PARTS = ("train", "valid", "test")
# names that a note lists
_NAMED = 4
# a deviation below this share of the mean is what rounding leaves of equal numbers
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Span:
    """Steps of a series, from `start` to before `end`, that are to be told."""

    series: Series
    start: int
    end: int

    def places(self, length: int, horizon: int) -> range:
        """Where the steps to tell of a window may begin: its history may lie before the span, what is told may not.

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
    """The columns that are read, which of them are told, and their means and deviations in training."""

    columns: tuple[str, ...]
    targets: tuple[str, ...]
    means: tuple[float, ...]
    deviations: tuple[float, ...]

    @property
    def told(self) -> list[int]:
        """The places of the targets among the columns."""
        where = {column: place for place, column in enumerate(self.columns)}
        return [where[target] for target in self.targets]

    @property
    def units(self) -> Float64[np.ndarray, "targets"]:
        """The deviations of the targets: what a standardised number is multiplied by."""
        return np.array(self.deviations)[self.told]

    def standardised(self, series: Series) -> Float64[np.ndarray, "steps columns"]:
        """(number - mean) / deviation of the columns. Raises: DataError for a column that the series has not."""
        return (series.of(self.columns) - np.array(self.means)) / np.array(self.deviations)

    def restored(self, told: Float64[np.ndarray, "*steps targets"]) -> Float64[np.ndarray, "*steps targets"]:
        """Standardised numbers of the targets, in the units of the file."""
        return told * self.units + np.array(self.means)[self.told]

    def to_bytes(self) -> bytes:
        """As a file of a run: the same bytes for the same numbers."""
        fields = {name: list(getattr(self, name)) for name in ("columns", "targets", "means", "deviations")}
        return (json.dumps(fields, ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode()

    @classmethod
    def of(cls, content: bytes) -> "Scaling":
        """What `to_bytes` wrote. Raises: DataError for anything else."""
        try:
            found = json.loads(content)
            columns, targets = (tuple(map(str, found[key])) for key in ("columns", "targets"))
            means, deviations = (tuple(map(float, found[key])) for key in ("means", "deviations"))
        except (ValueError, TypeError, KeyError):
            raise DataError("not the columns of a run") from None
        numbers = [*means, *deviations]
        if not (
            0 < len(columns) == len(means) == len(deviations) == len(set(columns))
            and targets
            and set(targets) <= set(columns)
            and all(map(math.isfinite, numbers))
            and min(deviations) > 0
        ):
            raise DataError("not the columns of a run")
        return cls(columns, targets, means, deviations)


@dataclass(frozen=True)
class SeriesParts:
    """The spans of each part, the columns that are read and told, digests by key, and what is to be told."""

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

    Args:
        length: steps of a history.
        horizon: steps to tell after it.

    Raises:
        ConfigError: targets that are not read.
        DataError: a file cannot be read as asked, or a part has no window.
    """
    paths = {part: resolve(path) for part in PARTS if (path := getattr(data, part)) is not None}
    notes: list[str] = []
    with digested(paths) as digests:
        columns = _columns(data, notes)
        check_targets(data.targets, columns)
        given = {part: read_series(path, data, columns) for part, path in paths.items()}
    spans = parted(given["train"], data, {part for part in given if part != "train"})
    spans |= {part: [Span(one, 0, len(one)) for one in given[part]] for part in given if part != "train"}
    for part, found in given.items():
        notes += [f"{part}: {note}" for note in _odd(found)]
        if part != "train" and digests[part] == digests["train"]:
            notes.append(f"{part}: is the same file as train, so its scores are of what was trained on")
    for part in [part for part in PARTS if part in spans]:
        notes.append(f"{part}: {_told(part, spans[part], length, horizon, paths.get(part, paths['train']))}")
    still = np.ptp(_rows(spans["train"], columns), axis=0) == 0
    for column in np.array(columns, object)[still]:
        notes.append(f"train: column '{column}' is the same number throughout, so nothing can be learned of it")
    return SeriesParts(spans, tuple(columns), tuple(data.targets or columns), digests, tuple(notes))


def parted(series: Sequence[Series], data: SeriesConfig, given: set[str]) -> dict[str, list[Span]]:
    """Spans of the first steps of each series, of those after, and of its last; parts that are `given` get none."""
    spans: dict[str, list[Span]] = {}
    for one in series:
        count = len(one)
        test = 0 if "test" in given else round(count * data.test_fraction)
        valid = 0 if "valid" in given else round(count * data.valid_fraction)
        bounds = {"train": (0, count - test - valid), "valid": (count - test - valid, count - test)}
        for part, (start, end) in {**bounds, "test": (count - test, count)}.items():
            if part == "train" or (part not in given and getattr(data, f"{part}_fraction")):
                spans.setdefault(part, []).append(Span(one, start, end))
    return spans


def windows(spans: Sequence[Span], length: int, horizon: int) -> list[Window]:
    """The windows of spans, one after another."""
    return [Window(span.series, place) for span in spans for place in span.places(length, horizon)]


def _rows(spans: Sequence[Span], columns: Sequence[str]) -> Float64[np.ndarray, "steps columns"]:
    """The steps of spans, one after another."""
    return np.concatenate([span.series.of(columns)[span.start : span.end] for span in spans])


def _columns(data: SeriesConfig, notes: list[str]) -> list[str]:
    """The columns that are read; what others there are is noted."""
    if data.columns:
        return list(data.columns)
    found, others = numeric_columns(resolve(data.train), data)
    if others:
        shown = ", ".join(f"'{name[:30]}'" for name in others[:_NAMED]) + (", ..." if len(others) > _NAMED else "")
        notes.append(f"columns without a name or without numbers, not read: {shown}")
    return found


def _odd(series: Sequence[Series]) -> list[str]:
    """What is odd about series, to be told."""
    notes = []
    if filled := sum(one.filled for one in series):
        notes.append(f"{filled:,} missing numbers are those of the step before")
    if uneven := [one.name for one in series if not one.even()]:
        notes.append(f"the steps of {_named(uneven)} are not even in time, but are taken as even")
    return notes


def _told(part: str, spans: Sequence[Span], length: int, horizon: int, path: object) -> str:
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
