"""Sentence pairs from tab-separated files, two parallel files or JSON lines, plain or gzip, with errors by line."""

import collections
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

from headwise.data.bad_lines import BadLine, strict
from headwise.data.files import MAX_LINE_BYTES, scan_lines
from headwise.data.jsonl import pair_fields
from headwise.data.tables import count_columns, is_jsonl
from headwise.data.text import Normalize, clean
from headwise.errors import ConfigError, DataError, unknown

PairFormat = Literal["auto", "tsv", "jsonl"]
EmptyRule = Literal["error", "skip", "keep"]

_LAST_COLUMN = 1 << 20

T = TypeVar("T")
Row = Callable[[str], tuple[str, str]]

# the line, then the two sides as they stand there
_Raw = tuple[int, str, str]


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence, its translation, and the line (from 1) of the file they came from."""

    source: str
    target: str
    line: int


@dataclass(frozen=True, slots=True)
class Reading:
    """How the lines of files become sentence pairs.

    Args:
        format: "tsv", "jsonl" or "auto": by the name's ending, else by the first line.
        source_key: the field, or the language under "translation", of JSON lines; "source" if None.
        target_key: the same for the target; "target" if None.
        columns: which columns (from 0) are source and target; None: the file must have exactly two.
        empty: a pair with an empty side is an error, skipped, or kept.
        normalize: the Unicode form, see `clean`.
        max_line_bytes: longer lines are refused, before they fill the memory.

    Raises: ConfigError for wrong values.

    >>> Reading(columns=(1, 0)).row("pairs.tsv", "home\\tmaison")[0]("home\\tmaison")
    ('maison', 'home')
    """

    format: str = "auto"
    source_key: str | None = None
    target_key: str | None = None
    columns: tuple[int, int] | None = None
    empty: str = "error"
    normalize: Normalize = "nfc"
    max_line_bytes: int = MAX_LINE_BYTES

    def __post_init__(self) -> None:
        if self.format not in get_args(PairFormat):
            raise ConfigError(unknown("format", self.format, get_args(PairFormat)))
        if self.empty not in get_args(EmptyRule):
            raise ConfigError(unknown("rule for empty sides", self.empty, get_args(EmptyRule)))
        columns = self.columns
        if columns is not None and (len(columns) != 2 or min(columns) < 0 or columns[0] == columns[1]):
            raise ConfigError(f"columns must be two different column numbers counted from 0, got {tuple(columns)}")
        if columns is not None and max(columns) > _LAST_COLUMN:
            raise ConfigError(f"columns must be at most {_LAST_COLUMN:,}, got {tuple(columns)}")

    def row(self, name: str, first: str) -> tuple[Row, str]:
        """What takes the two sides out of the lines of a file whose first line is this, and the kind of its faults."""
        if self.format == "jsonl" or (self.format == "auto" and is_jsonl(name, first)):
            return lambda text: pair_fields(text, self.source_key, self.target_key), "fields"
        return _tsv_row(self.columns), "columns"


def read_pairs(
    path: str | os.PathLike[str],
    how: Reading | None = None,
    *,
    target_path: str | os.PathLike[str] | None = None,
    limit: int | None = None,
) -> list[Pair]:
    """Reads sentence pairs; both sides come out cleaned (see `clean`).

    Tab-separated files have no quoting; blank lines are skipped there and in JSON lines. Parallel files are aligned by
    line, so a blank line there is an empty side.

    Args:
        how: format, columns or keys, what becomes of empty sides; None: a `Reading` as it is by itself.
        target_path: the second of two parallel files; `path` is then the first.
        limit: stop after this many pairs; two parallel files are still compared to their ends.

    Raises:
        ConfigError: options that do not fit together.
        DataError: `file:line: ...`, what is wrong there; two parallel files of different length; no pairs at all.
    """
    if limit is not None and limit < 1:
        raise ConfigError(f"limit must be at least 1, got {limit}")
    pairs = take(strict(scan_pairs(path, target_path, how or Reading())), limit, to_end=target_path is not None)
    if not pairs:
        raise DataError(f"{os.fspath(path)}: no sentence pairs in it")
    return pairs


def take(items: Iterable[T], limit: int | None, *, to_end: bool = False) -> list[T]:
    """The first `limit` items, all if None; `to_end` reads on all the same, since the rest has to be in order too."""
    walked = iter(items)
    selected = list(itertools.islice(walked, limit))
    if to_end:
        collections.deque(walked, maxlen=0)
    return selected


def scan_pairs(
    path: str | os.PathLike[str], target_path: str | os.PathLike[str] | None, how: Reading
) -> Iterator[Pair | BadLine]:
    """The pairs of a file, or of two parallel ones, each as soon as it is read, and the lines that are none.

    Raises:
        ConfigError: options that do not fit two parallel files.
        DataError: a file cannot be read any further; two parallel files of different length.
    """
    if target_path is not None and how.format != "auto":
        raise ConfigError(f"format={how.format!r} does not go with target_path: two parallel files are plain text")
    if target_path is not None and how.columns is not None:
        raise ConfigError("columns does not go with target_path: two parallel files have no columns")
    name = os.fspath(path)
    raw = _single(name, how) if target_path is None else _parallel(name, os.fspath(target_path), how.max_line_bytes)
    for item in raw:
        pair = item if isinstance(item, BadLine) else _cleaned(name, *item, how.normalize)
        if isinstance(pair, BadLine) or (pair.source and pair.target) or how.empty == "keep":
            yield pair
        elif how.empty == "error":
            yield _empty(name, pair)


def _single(name: str, how: Reading) -> Iterator[_Raw | BadLine]:
    row: Row | None = None
    fault = ""
    for number, text in scan_lines(name, max_line_bytes=how.max_line_bytes):
        if isinstance(text, BadLine):
            yield text
            continue
        if not text or text.isspace():
            continue
        if row is None:
            row, fault = how.row(name, text)
        try:
            source, target = row(text)
        except DataError as error:
            yield BadLine(name, number, fault, error.message, error.settings)
        else:
            yield number, source, target


def _tsv_row(columns: tuple[int, int] | None) -> Row:
    def row(text: str) -> tuple[str, str]:
        # no more cells than are needed are made of a line with a million tabs
        cells = text.split("\t", (max(columns) if columns else 1) + 1)
        if columns is None and len(cells) != 2:
            raise _wrong_count(text)
        first, second = columns or (0, 1)
        if max(first, second) >= len(cells):
            raise DataError(
                f"{count_columns(len(cells))}, but column {max(first, second)} is asked for; columns are counted from 0"
            )
        return cells[first], cells[second]

    return row


def _wrong_count(text: str) -> DataError:
    count = text.count("\t") + 1
    if count == 1:
        hint = "; only \\n ends a line here, this one has \\r inside" if "\r" in text else ""
        return DataError(f"1 column, expected source TAB target{hint}")
    return DataError(f"{count_columns(count)}, expected 2; say which two hold source and target", {"columns": (0, 1)})


def _parallel(name: str, target_name: str, max_line_bytes: int) -> Iterator[_Raw | BadLine]:
    sources = scan_lines(name, max_line_bytes=max_line_bytes)
    targets = scan_lines(target_name, max_line_bytes=max_line_bytes)
    for line, (source, target) in enumerate(itertools.zip_longest(sources, targets), start=1):
        if source is None or target is None:
            longer = line + sum(1 for _ in (targets if source is None else sources))
            counts = (line - 1, longer) if source is None else (longer, line - 1)
            raise DataError(
                f"{name}:{counts[0]} and {target_name}:{counts[1]}: the files are not aligned: "
                f"{counts[0]} lines against {counts[1]}; each line of one must translate the same line of the other"
            )
        if isinstance(source[1], BadLine) or isinstance(target[1], BadLine):
            # of a pair one fault is enough
            yield source[1] if isinstance(source[1], BadLine) else target[1]  # type: ignore[misc]
        else:
            yield line, source[1], target[1]


def _cleaned(name: str, line: int, source: str, target: str, normalize: Normalize) -> Pair | BadLine:
    try:
        return Pair(clean(source, normalize), clean(target, normalize), line)
    except DataError as error:
        return BadLine(name, line, "characters", error.message)


def _empty(name: str, pair: Pair) -> BadLine:
    side = "target" if pair.source else "source" if pair.target else "source and the target"
    verb = "are" if " and " in side else "is"
    return BadLine(name, pair.line, "empty side", f"the {side} {verb} empty; fill it or remove the line")
