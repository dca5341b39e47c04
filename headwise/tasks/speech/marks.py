"""Labels in time: stretches of a recording that have a label each, from files and arrays, and as labels of frames."""

import io
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from headwise.data.files import decode_lines
from headwise.errors import DataError
from headwise.tasks.speech.log_mel import frame_seconds

MarksUnit = Literal["seconds", "samples", "htk"]

# HTK counts in 100 ns
_HTK = 10_000_000
# stretches may overlap, or reach beyond the end, by what rounding to frames leaves
_SLACK_S = 0.02


class Mark(NamedTuple):
    """A label from `start` to `end`, in seconds."""

    start: float
    end: float
    label: str


@dataclass(frozen=True)
class Marking:
    """How the labels of a recording in time are found.

    Args:
        key: column of label files, or array of labels; None: the label of a recording is that of all of it.
        unit: of the times in label files.
        rest: the label of what no stretch covers; None: it has none.
    """

    key: str | None = None
    unit: MarksUnit = "seconds"
    rest: str | None = None

    def per_second(self, rate: int) -> int:
        """Units of label files in a second of so many samples."""
        return {"seconds": 1, "samples": rate, "htk": _HTK}[self.unit]


def parse_marks(data: bytes, name: str, per_second: int) -> tuple[Mark, ...]:
    r"""The stretches of a label file in their order: `start end label` a line, between tabs or blanks.

    A label between tabs may hold blanks. Lines that begin with a backslash, by which Audacity adds frequencies, are
    skipped.

    Args:
        name: of the file, for errors.
        per_second: units of time in a second.

    Raises: DataError: `name:line: ...` for a line that is none, times that do not rise, stretches that overlap.

    >>> parse_marks(b"0\t0.5\tone\n0.5\t0.75\ttwo\n", "example", 1)
    (Mark(start=0.0, end=0.5, label='one'), Mark(start=0.5, end=0.75, label='two'))
    """
    entries: list[tuple[Mark, int]] = []
    for line, text in decode_lines(io.BytesIO(data), name):
        if text.strip() and not text.startswith("\\"):
            entries.append((_mark(text, f"{name}:{line}", per_second), line))
    entries.sort(key=lambda entry: entry[0].start)
    for (earlier, _), (later, line) in itertools.pairwise(entries):
        if later.start < earlier.end - _SLACK_S:
            raise DataError(
                f"{name}:{line}: begins at {later.start:g} s, within '{earlier.label[:20]}' ({earlier.start:g} to"
                f" {earlier.end:g} s); give each moment one label"
            )
    return tuple(mark for mark, _ in entries)


def _mark(text: str, place: str, per_second: int) -> Mark:
    cells = text.split("\t") if "\t" in text else text.split(None, 2)
    if len(cells) != 3 or not cells[2].strip():
        raise DataError(f"{place}: '{text[:40]}' is not start, end and label; put tabs between them")
    try:
        # `float` reads digits of other scripts, and 1_0 as 10
        if any("_" in cell or not cell.isascii() for cell in cells[:2]):
            raise ValueError
        start, end = (float(cell) / per_second for cell in cells[:2])
    except ValueError:
        raise DataError(f"{place}: '{cells[0][:20]}' and '{cells[1][:20]}' are no times; give two numbers") from None
    if not (0 <= start < end and math.isfinite(end)):
        raise DataError(f"{place}: from {cells[0][:20]} to {cells[1][:20]} is no stretch of time; give start, then end")
    return Mark(start, end, cells[2].strip())


def within(marks: Sequence[Mark], start: float, end: float) -> tuple[Mark, ...]:
    """What of these stretches lies from `start` to `end`, counted from `start`.

    >>> within([Mark(0.0, 1.0, "a"), Mark(1.0, 2.0, "b")], 0.5, 1.0)
    (Mark(start=0.0, end=0.5, label='a'),)
    """
    cut = (Mark(max(mark.start, start) - start, min(mark.end, end) - start, mark.label) for mark in marks)
    return tuple(mark for mark in cut if mark.start < mark.end)


def check_marks(marks: tuple[Mark, ...], seconds: float, name: str) -> tuple[Mark, ...]:
    """The stretches of a recording so long. Raises: DataError if one ends after it."""
    if marks and (last := max(mark.end for mark in marks)) > seconds + _SLACK_S:
        raise DataError(
            f"{name}: labels reach to {last:g} s, its recording has {seconds:g} s; mend the times, or set"
            " data.marks_unit to what they count"
        )
    return marks


def runs(labels: Sequence[str | None], seconds: float) -> tuple[Mark, ...]:
    """Equal neighbours as one stretch, each label being so many seconds long; None and empty labels are none.

    >>> runs(["a", "a", None, "b"], 0.5)
    (Mark(start=0.0, end=1.0, label='a'), Mark(start=1.5, end=2.0, label='b'))
    """
    marks, at = [], 0
    for label, group in itertools.groupby(labels):
        count = len(list(group))
        if label:
            marks.append(Mark(at * seconds, (at + count) * seconds, label))
        at += count
    return tuple(marks)


def frame_labels(marks: Sequence[Mark], count: int, rate: int, rest: str | None = None) -> list[str | None]:
    """The label at the middle of each of so many frames; `rest` where no stretch is.

    >>> frame_labels([Mark(0.0, 0.02, "a"), Mark(0.03, 0.04, "b")], 5, 8000)
    ['a', 'a', None, 'b', None]
    """
    if not marks:
        return [rest] * count
    middles = (np.arange(count) + 0.5) * frame_seconds(rate)
    at = np.searchsorted([mark.start for mark in marks], middles, side="right") - 1
    ends = np.array([mark.end for mark in marks])
    covered = (at >= 0) & (middles < ends[at])
    return [marks[place].label if inside else rest for place, inside in zip(at.tolist(), covered, strict=True)]
