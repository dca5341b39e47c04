"""Rows of tables: CSV with its quoting, TSV without, JSON lines; plain or gzip, with errors by line."""

import csv
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator

from headwise.data.bad_lines import BadLine, strict
from headwise.data.files import MAX_LINE_BYTES, ending_of, first_line, scan_lines
from headwise.data.jsonl import any_field, kind_name, parse_object
from headwise.data.text import Normalize, clean
from headwise.errors import ConfigError, DataError

TableFormat = Literal["auto", "csv", "tsv", "jsonl"]
Key = str | int
Parsed = TypeVar("Parsed")

_ENDINGS = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}
# names and their characters that an error shows
_COLUMNS, _SHOWN = 10, 30
# what may stand where a comma is expected
_OTHERS = {";": "semicolons", "\t": "tabs", "|": "bars"}


@dataclass(frozen=True, slots=True)
class Table:
    """How a file is read as rows.

    Args:
        format: "csv", "tsv", "jsonl" or "auto": by the ending of the name, else by the first line.
        delimiter: one character that parts the columns of a CSV file.
        max_line_bytes: a line, or a row of CSV over several lines, that is longer is refused.
        named_by: the keys that say what columns are called, for the error where one is missing.
        numbered: whether they may be told by number too, in a file without a line of names.

    Raises: ConfigError for a delimiter that is none.
    """

    format: str = "auto"
    delimiter: str = ","
    max_line_bytes: int = MAX_LINE_BYTES
    named_by: str = "their keys"
    numbered: bool = True

    def __post_init__(self) -> None:
        if len(self.delimiter) != 1 or self.delimiter in '"\r\n':
            raise ConfigError(f'delimiter must be one character, such as ";" or "\\t", got {self.delimiter!r}')


def _delimiting(delimiter: str) -> str:
    Table(delimiter=delimiter)
    return delimiter


# the type of a key of recipes
Delimiter = Annotated[str, AfterValidator(_delimiting)]


@dataclass(frozen=True, slots=True)
class Row:
    """The cells that were asked for, by key, and the line (from 1) at which the row begins."""

    line: int
    cells: Mapping[Key, Any]


def scan_rows(
    path: str | os.PathLike[str], how: Table, required: Sequence[Key], optional: Sequence[Key] = ()
) -> Iterator[Row | BadLine]:
    """The rows of a file, one after another, with the lines that are bad; blank lines are skipped.

    A CSV or TSV file begins with the names of its columns, unless keys are numbers: columns from 0 of a file without
    such a line. Every row must have as many columns as the first line. A CSV cell in quotes may hold delimiters, line
    ends and doubled quotes; in TSV a quote is a character. Cells are text; those of JSON lines are of any kind.

    Raises: DataError: the file cannot be read any further: it lacks a required column, or a quote is never closed.
    """
    name = os.fspath(path)
    kind = format_of(name, how.max_line_bytes) if how.format == "auto" else how.format
    if kind == "jsonl":
        yield from _records(name, how, required, optional)
        return
    rows = _cells(name, how, kind)
    chosen: dict[Key, int] | None = None
    width = 0
    for row in rows:
        if isinstance(row, BadLine):
            yield row
            continue
        line, cells = row
        if chosen is None:
            width, chosen = len(cells), _chosen(f"{name}:{line}", cells, how, required, optional)
            if any(isinstance(key, str) for key in required):
                continue
        if len(cells) != width:
            advice = "; put a text with a delimiter in quotes" if kind == "csv" and len(cells) > width else ""
            yield BadLine(name, line, "columns", f"{count_columns(len(cells))}, the first line has {width}{advice}")
        else:
            yield Row(line, {key: cells[place] for key, place in chosen.items()})


def heading(path: str | os.PathLike[str], how: Table) -> list[str]:
    """The names of a table's columns: the cells of its first line, or the fields of its first object.

    Raises: DataError: the file cannot be read, or there is nothing in it.
    """
    name = os.fspath(path)
    kind = format_of(name, how.max_line_bytes) if how.format == "auto" else how.format
    if kind == "jsonl":
        first = next(strict(_lines(name, how, parse_object)), None)
        names = None if first is None else list(first[1])
    else:
        row = next(strict(_cells(name, how, kind)), None)
        names = None if row is None else [cell.strip() for cell in row[1]]
    if not names:
        raise DataError(f"{name}: there is nothing in it; restore it or name another file")
    return names


def format_of(path: str, max_line_bytes: int = MAX_LINE_BYTES) -> str:
    """csv, tsv or jsonl: by the ending of the name, else by the first line that is not blank.

    Raises: DataError: the file cannot be read.
    """
    if named := named_format(path):
        return named
    first = first_line(path, max_line_bytes)
    return "jsonl" if is_jsonl(path, first) else "tsv" if "\t" in first else "csv"


def is_jsonl(path: str, first: str) -> bool:
    """Whether a file is JSON lines, by the ending of its name, else by its first line that is not blank."""
    named = named_format(path)
    return named == "jsonl" or (named != "tsv" and first.lstrip().startswith("{") and first.rstrip().endswith("}"))


def named_format(path: str) -> str | None:
    """The format that the ending of a name tells, None if it tells none.

    >>> named_format("reviews.csv.gz"), named_format("reviews.txt")
    ('csv', None)
    """
    return _ENDINGS.get(ending_of(path))


def _records(name: str, how: Table, required: Sequence[Key], optional: Sequence[Key]) -> Iterator[Row | BadLine]:
    for entry in _lines(name, how, parse_object):
        if isinstance(entry, BadLine):
            yield entry
            continue
        number, record = entry
        try:
            cells: dict[Key, Any] = {key: any_field(record, str(key)) for key in required}
        except DataError as error:
            yield BadLine(name, number, "fields", error.message)
        else:
            yield Row(number, cells | {key: record[str(key)] for key in optional if str(key) in record})


def _cells(name: str, how: Table, kind: str) -> Iterator[tuple[int, list[str]] | BadLine]:
    return _lines(name, how, lambda text: text.split("\t")) if kind == "tsv" else _Csv(name, how).rows()


def _lines(name: str, how: Table, parse: Callable[[str], Parsed]) -> Iterator[tuple[int, Parsed] | BadLine]:
    for number, text in scan_lines(name, max_line_bytes=how.max_line_bytes):
        if isinstance(text, BadLine):
            yield text
        elif text and not text.isspace():
            try:
                yield number, parse(text)
            except DataError as error:
                yield BadLine(name, number, "fields", error.message)


class _Csv:
    """Lines for `csv.reader`, which takes as many of them as a row has; a line that is no text spoils its row."""

    def __init__(self, name: str, how: Table) -> None:
        self.name, self.how = name, how
        self.lines = scan_lines(name, max_line_bytes=how.max_line_bytes)
        self.number = self.size = 0

    def __iter__(self) -> "_Csv":
        return self

    def __next__(self) -> str:
        self.number, text = next(self.lines)
        if isinstance(text, BadLine):
            raise text
        self.size += len(text) + 1
        if self.size > self.how.max_line_bytes + 1:
            raise _Endless
        return text + "\n"

    def rows(self) -> Iterator[tuple[int, list[str]] | BadLine]:
        reader = csv.reader(self, delimiter=self.how.delimiter, skipinitialspace=True, strict=True)
        while True:
            line, self.size = self.number + 1, 0
            try:
                cells = next(reader)
            except StopIteration:
                return
            except BadLine as fault:
                yield fault
            except (csv.Error, _Endless) as error:
                yield self._fault(line, str(error))
            else:
                if any(cell and not cell.isspace() for cell in cells):
                    yield line, cells

    def _fault(self, line: int, reason: str) -> BadLine:
        if not reason or reason == "unexpected end of data":
            # what follows cannot be told from what is quoted
            limit = f" within {self.how.max_line_bytes:,} bytes" if not reason else ""
            raise DataError(f"{self.name}:{line}: a quote opens in this row and is never closed{limit}; close it")
        if "expected after" in reason:
            reason = 'a character stands behind a closing quote; double the quotes inside a cell: ""so""'
        elif "new-line" in reason:
            reason = "a carriage return stands inside a cell; put the cell in quotes, or end lines with \\n"
        else:
            reason = f"not valid CSV: {reason}"
        return BadLine(self.name, line, "quoting", reason)


class _Endless(Exception):
    """A row that does not end."""


def _chosen(
    place: str, first: list[str], how: Table, required: Sequence[Key], optional: Sequence[Key]
) -> dict[Key, int]:
    """Where the columns stand, by what the first line says. Raises: DataError at `place`."""
    names = [cell.strip() for cell in first]
    # of columns with one name the first
    where, counts = {name: place for place, name in reversed([*enumerate(names)])}, Counter(names)
    columns: dict[Key, int] = {}
    for key in [*required, *optional]:
        if isinstance(key, int):
            if key < len(names):
                columns[key] = key
            elif key in required:
                raise DataError(
                    f"{place}: {count_columns(len(names))}, but column {key} is asked for; columns are counted from 0"
                )
        elif not key:
            raise DataError(f"{place}: a column without a name is asked for; name it in the file, and here")
        elif counts[key] > 1:
            raise DataError(f"{place}: two columns are named '{key[:100]}'; give each a name of its own")
        elif key in where:
            columns[key] = where[key]
        elif key in required:
            raise _missing(place, key, names, how)
    return columns


def _missing(place: str, key: str, names: list[str], how: Table) -> DataError:
    other = next((what for mark, what in _OTHERS.items() if mark in names[0]), None)
    if len(names) == 1 and other is not None:
        return DataError(f"{place}: one column with {other} in it, no '{key}'; set data.delimiter or data.format")
    shown = ", ".join(f"'{name[:_SHOWN]}'" for name in names[:_COLUMNS]) + (", ..." if len(names) > _COLUMNS else "")
    message = f"{place}: no column is named '{key}', but {shown}; say with {how.named_by} what yours are called"
    if len(names) == 1 or not how.numbered:
        return DataError(message)
    return DataError(f"{message}, or that there is no line of names", {"columns": (0, 1)})


def count_columns(count: int) -> str:
    return f"{count} column{'s' if count != 1 else ''}"


# ASCII alone: other digits, `nan` and `1_000` are no numbers of a data file
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LONGEST_NUMBER = 100

# an error of a message, at its place in a file
Fault = Callable[[str], BadLine]


def text_cell(name: str, row: Row, key: Key, normalize: Normalize) -> str:
    """The cell of a row as cleaned text. Raises: BadLine for what is no text."""
    value = row.cells[key]
    if not isinstance(value, str):
        raise BadLine(name, row.line, "fields", f"the field '{key}' must be text, got {kind_name(value)}")
    return _cleaned(name, row.line, value, normalize)


def _cleaned(name: str, line: int, text: str, normalize: Normalize) -> str:
    if "\0" in text:
        raise BadLine(name, line, "characters", "the text contains the NUL character; remove it")
    try:
        return clean(text, normalize)
    except DataError as error:
        raise BadLine(name, line, "characters", error.message) from None


def name_of(value: Any, fault: Fault, *, normalize: Normalize = "nfc", what: str = "label") -> str:
    """The cell of a table as the name of something: text that is not empty, a whole number, true or false.

    Raises: BadLine, as `fault` makes it.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, str):
        raise fault(f"the {what} must be text or a whole number, got {_shown(value)}")
    try:
        label = clean(value, normalize)
    except DataError as error:
        raise fault(error.message) from None
    if not label:
        raise fault(f"the {what} is empty; write one or remove the row")
    return label


def number_of(value: Any, fault: Fault, *, what: str = "label") -> float:
    """The cell of a table as a finite number, written with digits and a point. Raises: BadLine, as `fault` makes it."""
    if isinstance(value, str):
        text = value.strip()
        if not text:
            raise fault("the number is empty; write one or remove the row")
        if len(text) > _LONGEST_NUMBER or not _NUMBER.fullmatch(text):
            shown = text if len(text) <= 20 else f"{text[:20]}..."
            raise fault(f"{shown!r} is no number; write it with digits and a point, such as -0.5 or 1e-3")
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise fault(f"the {what} must be a number, got {_shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise fault("the number is too large")
    return number


def moment_of(value: Any, fault: Fault, what: str) -> float:
    """A cell as a time: a number, or the seconds since 1970 of an ISO date; one without a time zone is in UTC.

    Raises: BadLine, as `fault` makes it.
    """
    if isinstance(value, str) and "-" in value.strip()[1:] and ("e" not in value.lower()):
        try:
            moment = datetime.fromisoformat(value.strip())
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            raise fault(
                f"{value.strip()[:30]!r} is no date; write a number or an ISO date such as 2026-01-31T12:00:00"
            ) from None
    return number_of(value, fault, what=what)


def _shown(value: Any) -> str:
    return f"{value}" if isinstance(value, float) else kind_name(value)
