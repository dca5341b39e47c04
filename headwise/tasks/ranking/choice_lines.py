"""Choices to rank as lines of text: JSON objects, or the names of a history between spaces."""

import os
from collections.abc import Iterator, Sequence
from typing import Any

from headwise.data.bad_lines import BadLine
from headwise.data.files import MAX_LINE_BYTES, read_lines
from headwise.data.jsonl import kind_name, parse_object, texts
from headwise.errors import DataError, listing, unknown
from headwise.tasks.ranking.choices import Choice

_FIELDS = ("history", "candidates", "times", "time", "user")


def choice_of(text: str, users: Sequence[str]) -> Choice:
    """The choice of a line.

    A line that begins with a brace is an object with `history` (names of items, the latest last) and, where they are
    wanted, `candidates` (all items without them), `times` of the history and `time` of the choice (numbers in the unit
    of `data.order`; the latest of the history without it), and `user` (a category by column). Any other line is a
    history.

    Args:
        users: the columns that the model knows of a user.

    Raises:
        DataError: what is wrong, without its place.

    >>> choice_of("A13 B4", ()).history, choice_of('{"history": [], "candidates": ["A 1"]}', ()).candidates
    (('A13', 'B4'), ('A 1',))
    """
    if not text.lstrip().startswith("{"):
        return Choice(tuple(text.split()), ())
    record = parse_object(text)
    if strange := [key for key in record if key not in _FIELDS]:
        raise DataError(unknown("field", strange[0], _FIELDS))
    if "history" not in record:
        raise DataError("missing field 'history': the items chosen before, the latest last; [] for none")
    history = tuple(texts(record, "history"))
    candidates = tuple(texts(record, "candidates")) if "candidates" in record else ()
    if "candidates" in record and not candidates:
        raise DataError("the field 'candidates' is empty; leave it out to rank all items")
    times = _times(record.get("times", []))
    if "times" in record and len(times) != len(history):
        raise DataError(f"'times' has {len(times)} numbers, 'history' {len(history)} items; give one for each")
    time = _time(record["time"], "time") if "time" in record else max(times, default=0.0)
    return Choice(history, candidates, times=times, time=time, user=_user(record.get("user", {}), users))


def read_choices(
    path: str | os.PathLike[str], users: Sequence[str], max_line_bytes: int = MAX_LINE_BYTES
) -> Iterator[Choice]:
    """The choices of a file, one a line; a blank line is an empty history.

    Raises:
        DataError: `file:line: ...`, what is wrong there.
    """
    for number, text in read_lines(path, max_line_bytes=max_line_bytes):
        try:
            yield choice_of(text, users)
        except DataError as error:
            raise BadLine(os.fspath(path), number, "fields", error.message) from None


def _times(values: Any) -> tuple[float, ...]:
    if not isinstance(values, list):
        raise DataError(f"the field 'times' must be an array of numbers, got {kind_name(values)}")
    return tuple(_time(value, "times") for value in values)


def _time(value: Any, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
        raise DataError(f"the field '{key}' must hold numbers, got {str(value)[:20] if value else kind_name(value)}")
    return float(value)


def _user(values: Any, users: Sequence[str]) -> tuple[str, ...]:
    if not isinstance(values, dict):
        raise DataError(f"the field 'user' must be an object, got {kind_name(values)}")
    for key, value in values.items():
        if key not in users:
            known = listing(users) or "nothing"
            raise DataError(f"the field 'user' has '{key[:40]}', but the model knows of a user: {known}")
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise DataError(f"'{key}' of 'user' must be text or a whole number, got {kind_name(value)}")
    return tuple(str(values.get(key, "")) for key in users)
