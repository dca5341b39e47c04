"""Logs of clicks from tables and JSON lines, and their parts by file, session or time."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal

from pydantic import Field, model_validator

from headwise.config import Config, DataFile
from headwise.data.bad_lines import BadLine, BadRule
from headwise.data.files import MAX_LINE_BYTES
from headwise.data.tables import Delimiter, Fault, Row, Table, TableFormat, moment_of, name_of, scan_rows
from headwise.errors import ConfigError

_LABELS = {"1": True, "0": False, "true": True, "false": False}
_UNPLACED = partial(BadLine, "", 0, "fields")


class ClicksConfig(Config):
    """Which log to read, what its columns are called, and what is held out."""

    train: DataFile = Field(description="log of clicks, one a row: CSV, TSV or JSON lines, with names of columns")
    valid: DataFile | None = Field(None, description="validation file; without it a part of train is held out")
    test: DataFile | None = Field(None, description="test file; without it a part of train is held out")
    format: TableFormat = Field("auto", description="auto (by name, else by content), csv, tsv or jsonl")
    delimiter: Delimiter = Field(",", description="what parts the columns of a CSV file: one character")
    session: str = Field("session", description="column of the session or the user whose clicks belong together")
    item: str = Field("item", description="column of what was clicked")
    order: str | None = Field(
        None, description="column that orders the clicks of a session: numbers or ISO dates; absent: as in the file"
    )
    features: tuple[str, ...] = Field((), description="columns with features of the item, each a category")
    user_features: tuple[str, ...] = Field((), description="columns with features of the user, each a category")
    label: str | None = Field(None, description="column of 1 for chosen, 0 for shown and left; absent: all are clicks")
    split: Literal["session", "time"] = Field(
        "session", description="hold out sessions, or what was chosen from a time on (valid_from, test_from)"
    )
    time: tuple[str, ...] = Field((), description="columns that tell the time, the coarsest first: numbers, ISO dates")
    valid_from: tuple[float | str, ...] = Field((), description="the time at which the validation part begins")
    test_from: tuple[float | str, ...] = Field((), description="the time at which the test part begins")
    valid_fraction: float = Field(0.1, ge=0, lt=1, description="share of the sessions held out to validate")
    test_fraction: float = Field(0.1, ge=0, lt=1, description="share of the sessions held out to test")
    split_seed: int = Field(0, description="another seed gives another split by session")
    limit: int | None = Field(None, ge=1, description="use only the first rows of train")
    bad_lines: BadRule = Field("stop", description="a line that cannot be read: stop, or skip its row")
    max_history: int = Field(50, ge=1, le=2**14, description="the latest choices that are read of a history")
    min_history: int = Field(1, ge=0, description="choices with fewer before them are not learned or scored")
    max_line_bytes: int = Field(MAX_LINE_BYTES, ge=1, description="longer lines are refused")

    @model_validator(mode="after")
    def _check_columns(self) -> "ClicksConfig":
        columns = [self.session, self.item, *self.features, *self.user_features]
        if twice := sorted(name for name, count in Counter(columns).items() if count > 1):
            raise ConfigError(f"the column '{twice[0]}' has two uses; name each column once")
        if self.split == "session":
            return self
        if not self.time:
            raise ConfigError("data.split = 'time' needs data.time, columns that tell it, such as ['year', 'month']")
        if not self.valid_from and not self.test_from:
            raise ConfigError("data.split = 'time' needs data.valid_from or data.test_from, such as [2008, 7]")
        for key in ("valid_from", "test_from"):
            if len(getattr(self, key)) > len(self.time):
                raise ConfigError(f"data.{key} names more numbers than data.time has columns ({len(self.time)})")
        valid, test = self.begin("valid"), self.begin("test")
        if valid and test and valid >= test:
            raise ConfigError("data.valid_from must come before data.test_from")
        return self

    def begin(self, part: Literal["valid", "test"]) -> tuple[float, ...]:
        """The time at which a part begins; empty where there is none. Raises: ConfigError for what is no time."""
        begin = self.valid_from if part == "valid" else self.test_from

        def fault(message: str) -> BadLine:
            raise ConfigError(f"data.{part}_from: {message}")

        return tuple(moment_of(value, fault, "time") for value in begin)

    def table(self) -> Table:
        return Table(self.format, self.delimiter, self.max_line_bytes, "data.session, data.item and the like")


@dataclass(frozen=True, slots=True)
class Click:
    """A row of a log.

    Args:
        order: what the clicks of a session are sorted by: seconds since 1970 for dates, else the number given.
        time: what a split by time looks at, column by column; empty for a split by session.
        chosen: False for what was shown and left.
        line: at which the row begins, from 1.
    """

    session: str
    item: str
    features: tuple[str, ...]
    user: tuple[str, ...]
    order: float
    time: tuple[float, ...]
    chosen: bool
    line: int


def scan_clicks(path: str | os.PathLike[str], config: ClicksConfig) -> Iterator[Click | BadLine]:
    """The rows of a log, one after another, with the lines that are bad.

    Names and categories are text, whole numbers, true or false; an empty category is one of its own.

    Args:
        config: format and columns; its paths are not read.

    Raises: DataError: the file cannot be read any further, or lacks a column.
    """
    name = os.fspath(path)
    time = config.time if config.split == "time" else ()
    columns = [config.session, config.item, *config.features, *config.user_features, *time]
    columns += [key for key in (config.order, config.label) if key is not None]
    cached_name = lru_cache(1 << 16)(partial(name_of, fault=_UNPLACED, what="name"))
    for number, row in enumerate(scan_rows(name, config.table(), list(dict.fromkeys(columns)))):
        if isinstance(row, BadLine):
            yield row
            continue
        try:
            yield _click(row, partial(BadLine, name, row.line, "fields"), config, cached_name, number)
        except BadLine as fault:
            yield fault


def _click(row: Row, place: Any, config: ClicksConfig, cached_name: Any, number: int) -> Click:
    def named(key: str, empty: bool) -> str:
        value = row.cells[key]
        if empty and (value is None or (isinstance(value, str) and not value.strip())):
            return ""
        try:
            text: str = cached_name(value) if isinstance(value, str) else name_of(value, _UNPLACED, what="name")
        except BadLine as fault:
            raise place(f"column '{key}': {fault.what}") from None
        return text

    def moment(key: str) -> float:
        return moment_of(row.cells[key], place, f"value of '{key}'")

    session, item = named(config.session, False), named(config.item, False)
    features = tuple(named(key, True) for key in config.features)
    user = tuple(named(key, True) for key in config.user_features)
    chosen = True if config.label is None else _label(row.cells[config.label], place, config.label)
    order = float(number) if config.order is None else moment(config.order)
    time = tuple(moment(key) for key in config.time) if config.split == "time" else ()
    return Click(session, item, features, user, order, time, chosen, row.line)


def _label(value: Any, fault: Fault, key: str) -> bool:
    text = str(value).strip().lower()
    if text not in _LABELS or isinstance(value, float):
        raise fault(f"column '{key}': must be 1 (chosen) or 0 (left), got {str(value)[:20]!r}")
    return _LABELS[text]
