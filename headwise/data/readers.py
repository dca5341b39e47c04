"""Sentence pairs from tab-separated files, two parallel files or JSON lines, plain or gzip, with errors by line."""

import collections
import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal, get_args

from headwise.data.files import MAX_LINE_BYTES, read_lines
from headwise.data.jsonl import pair_fields
from headwise.data.text import Normalize, clean
from headwise.errors import ConfigError, DataError, unknown

PairFormat = Literal["auto", "tsv", "jsonl"]
EmptyRule = Literal["error", "skip", "keep"]

# file and line, then the two sides as they stand there
_Raw = tuple[str, int, str, str]


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence, its translation, and the line (from 1) of the file they came from."""

    source: str
    target: str
    line: int


def read_pairs(
    path: str | os.PathLike[str],
    *,
    format: str = "auto",
    target_path: str | os.PathLike[str] | None = None,
    source_key: str | None = None,
    target_key: str | None = None,
    columns: tuple[int, int] | None = None,
    empty: str = "error",
    normalize: Normalize = "nfc",
    max_line_bytes: int = MAX_LINE_BYTES,
    limit: int | None = None,
) -> list[Pair]:
    """Reads sentence pairs; both sides come out cleaned (see `clean`).

    Tab-separated files have no quoting; blank lines are skipped there and in JSON lines. Parallel files are aligned by
    line, so a blank line there is an empty side.

    Args:
        format: "tsv", "jsonl" or "auto": by the name's ending, else by the first line.
        target_path: the second of two parallel files; `path` is then the first.
        source_key: the field, or the language under "translation", of JSON lines; "source" if None.
        target_key: the same for the target; "target" if None.
        columns: which columns (from 0) are source and target; None: the file must have exactly two.
        empty: a pair with an empty side is an error, skipped, or kept.
        normalize: the Unicode form, see `clean`.
        max_line_bytes: longer lines are refused, before they fill the memory.
        limit: stop after this many pairs; two parallel files are still compared to their ends.

    Raises:
        ConfigError: options that do not fit together.
        DataError: `file:line: ...`, what is wrong there; two parallel files of different length; no pairs at all.
    """
    _check(format, target_path, columns, empty, limit)
    name = os.fspath(path)
    if target_path is not None:
        raw = _parallel(name, os.fspath(target_path), max_line_bytes)
    else:
        raw = _single(name, format, _tsv_row(columns), _json_row(source_key, target_key), max_line_bytes)
    pairs: list[Pair] = []
    for place, line, source, target in raw:
        pair = _cleaned(place, line, source, target, normalize)
        if (pair.source and pair.target) or _admits_empty(pair, place, empty):
            pairs.append(pair)
        if len(pairs) == limit:
            break
    if target_path is not None:
        # the rest still has to be aligned
        collections.deque(raw, maxlen=0)
    if not pairs:
        raise DataError(f"{name}: no sentence pairs in it")
    return pairs


def _check(
    format: str,
    target_path: str | os.PathLike[str] | None,
    columns: tuple[int, int] | None,
    empty: str,
    limit: int | None,
) -> None:
    if format not in get_args(PairFormat):
        raise ConfigError(unknown("format", format, get_args(PairFormat)))
    if empty not in get_args(EmptyRule):
        raise ConfigError(unknown("rule for empty sides", empty, get_args(EmptyRule)))
    if target_path is not None and format != "auto":
        raise ConfigError(f"format={format!r} does not go with target_path: two parallel files are plain text")
    if target_path is not None and columns is not None:
        raise ConfigError("columns does not go with target_path: two parallel files have no columns")
    if columns is not None and (len(columns) != 2 or min(columns) < 0 or columns[0] == columns[1]):
        raise ConfigError(f"columns must be two different column numbers counted from 0, got {tuple(columns)}")
    if limit is not None and limit < 1:
        raise ConfigError(f"limit must be at least 1, got {limit}")


def _single(
    name: str,
    format: str,
    tsv_row: Callable[[str], tuple[str, str]],
    json_row: Callable[[str], tuple[str, str]],
    max_line_bytes: int,
) -> Iterator[_Raw]:
    row = {"tsv": tsv_row, "jsonl": json_row}.get(format)
    for number, text in read_lines(name, max_line_bytes=max_line_bytes):
        if not text or text.isspace():
            continue
        row = row or (json_row if is_jsonl(name, text) else tsv_row)
        place = f"{name}:{number}"
        try:
            source, target = row(text)
        except DataError as error:
            raise DataError(f"{place}: {error}") from None
        yield place, number, source, target


def is_jsonl(name: str, first: str) -> bool:
    """Whether a file is JSON lines, by the ending of its name, else by its first line that is not blank."""
    suffixes = [suffix.lower() for suffix in PurePath(name).suffixes if suffix.lower() != ".gz"]
    if suffixes and suffixes[-1] in (".jsonl", ".ndjson", ".json"):
        return True
    if suffixes and suffixes[-1] in (".tsv", ".tab"):
        return False
    return first.lstrip().startswith("{") and first.rstrip().endswith("}")


def _json_row(source_key: str | None, target_key: str | None) -> Callable[[str], tuple[str, str]]:
    return lambda text: pair_fields(text, source_key, target_key)


def _tsv_row(columns: tuple[int, int] | None) -> Callable[[str], tuple[str, str]]:
    def row(text: str) -> tuple[str, str]:
        # no more cells than are needed are made of a line with a million tabs
        cells = text.split("\t", (max(columns) if columns else 1) + 1)
        if columns is None and len(cells) != 2:
            raise DataError(_wrong_count(text))
        first, second = columns or (0, 1)
        if max(first, second) >= len(cells):
            raise DataError(f"{_counted(len(cells))}, but columns=({first}, {second}) needs {max(first, second) + 1}")
        return cells[first], cells[second]

    return row


def _wrong_count(text: str) -> str:
    count = text.count("\t") + 1
    if count == 1:
        hint = "; only \\n ends a line here, this one has \\r inside" if "\r" in text else ""
        return f"1 column, expected source TAB target{hint}"
    return f"{_counted(count)}, expected 2; choose two with columns=(0, 1)"


def _counted(count: int) -> str:
    return f"{count} column{'s' if count > 1 else ''}"


def _parallel(source_name: str, target_name: str, max_line_bytes: int) -> Iterator[_Raw]:
    sources = read_lines(source_name, max_line_bytes=max_line_bytes)
    targets = read_lines(target_name, max_line_bytes=max_line_bytes)
    for line, (source, target) in enumerate(itertools.zip_longest(sources, targets), start=1):
        if source is None or target is None:
            longer = line + sum(1 for _ in (targets if source is None else sources))
            counts = (line - 1, longer) if source is None else (longer, line - 1)
            raise DataError(
                f"{source_name}:{counts[0]} and {target_name}:{counts[1]}: the files are not aligned: "
                f"{counts[0]} lines against {counts[1]}; each line of one must translate the same line of the other"
            )
        yield f"{source_name}:{line}", line, source[1], target[1]


def _cleaned(place: str, line: int, source: str, target: str, normalize: Normalize) -> Pair:
    try:
        return Pair(clean(source, normalize), clean(target, normalize), line)
    except DataError as error:
        raise DataError(f"{place}: {error}") from None


def _admits_empty(pair: Pair, place: str, rule: str) -> bool:
    if rule == "error":
        side = "target" if pair.source else "source" if pair.target else "source and the target"
        verb = "are" if " and " in side else "is"
        raise DataError(f"{place}: the {side} {verb} empty; fill it, or set empty='skip' to leave such pairs out")
    return rule == "keep"
