"""Lines that cannot be read: each with its place and kind, counted and the first of each kind kept; stop, or skip."""

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeVar

from headwise.errors import DataError

T = TypeVar("T")

BadRule = Literal["stop", "skip"]

_KEPT = 5
_TOLD = 3


class BadLine(DataError):
    """A line that cannot be read as asked; the message is `name:line: what`.

    Args:
        name: the file.
        line: its number, from 1.
        kind: a word or two for faults of this kind, such as "columns".
        what: what is wrong and what to do.
        settings: options that may help, see `DataError`.
    """

    def __init__(
        self, name: str, line: int, kind: str, what: str, settings: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(f"{name}:{line}: {what}", settings)
        self.name, self.line, self.kind, self.what = name, line, kind, what


class Fault(Exception):
    """What makes a line bad, where the file is not known: the number of the line, the kind of fault, what it is."""


def strict(found: Iterable[T | DataError]) -> Iterator[T]:
    """What was read, as long as it is good. Raises: DataError, such as a BadLine, the first one."""
    for item in found:
        if isinstance(item, DataError):
            raise item
        yield item


class Unreadable:
    """Counts what cannot be read, such as pictures or recordings, and keeps why the first cannot.

    Args:
        noun: what they are, such as "image".
        key: of a recipe, which says whether to stop or to skip.

    >>> bad = Unreadable("skip", "image", "data.bad_images")
    >>> list(bad.good([1, DataError("a.png: is empty"), 2]))
    [1, 2]
    >>> bad.note()
    '1 bad image skipped; the first: a.png: is empty'
    """

    def __init__(self, rule: BadRule, noun: str, key: str) -> None:
        self._rule, self._noun, self._key = rule, noun, key
        self._count, self._first = 0, ""

    def good(self, found: Iterable[T | DataError]) -> Iterator[T]:
        """What could be read. Raises: DataError, the first fault, unless the rule is skip."""
        for item in found:
            if isinstance(item, DataError):
                self.add(item)
            else:
                yield item

    def add(self, error: DataError) -> None:
        """Counts a fault. Raises: DataError, the same with advice, unless the rule is skip."""
        if self._rule == "stop":
            raise DataError(f'{error.message}; or skip what cannot be read with {self._key} = "skip"')
        self._count, self._first = self._count + 1, self._first or error.message

    def note(self) -> str:
        """How many were skipped, and why the first was; empty if none were."""
        plural = "s" if self._count > 1 else ""
        return f"{self._count:,} bad {self._noun}{plural} skipped; the first: {self._first}" if self._count else ""


class BadLines:
    """Collects the bad lines of a file while the good ones pass.

    >>> bad = BadLines()
    >>> list(bad.good(["a", BadLine("x.tsv", 2, "columns", "1 column"), "b"]))
    ['a', 'b']
    >>> bad.note()
    '1 bad line skipped: columns 1 (line 2)'
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.first: dict[str, list[BadLine]] = {}

    @property
    def total(self) -> int:
        """How many lines are bad."""
        return self.counts.total()

    def good(self, found: Iterable[T | BadLine]) -> Iterator[T]:
        """What was read without the bad lines, which are collected."""
        for item in found:
            if isinstance(item, BadLine):
                self.add(item)
            else:
                yield item

    def add(self, line: BadLine) -> None:
        """Counts a line, and keeps it if it is among the first five of its kind."""
        self.counts[line.kind] += 1
        kept = self.first.setdefault(line.kind, [])
        if len(kept) < _KEPT:
            kept.append(line)

    def settle(self, rule: BadRule, report: str | None = "") -> None:
        """Ends the reading of a recipe's file.

        Args:
            report: options with which `headwise data report` reads the file in the same way; None: there are none.

        Raises: DataError with the first bad lines, unless the rule is skip.
        """
        if rule == "skip" or not self.total:
            return
        shown = sorted((line for kept in self.first.values() for line in kept), key=lambda line: line.line)[:_TOLD]
        rest = self.total - len(shown)
        told = "; ".join(line.text("recipe") for line in shown) + (f"; and {rest:,} more" if rest else "")
        command = " ".join(filter(None, ["headwise data report", shown[0].name, report]))
        lists = "" if report is None else f"; `{command}` lists it all"
        raise DataError(f'{told}; correct these lines, or skip them with data.bad_lines = "skip"{lists}')

    def note(self) -> str:
        """How many lines were skipped, by kind, with the numbers of the first; empty if none were."""
        if not self.total:
            return ""
        kinds = ", ".join(f"{kind} {count:,} ({self.places(kind)})" for kind, count in self.counts.most_common())
        return f"{self.total:,} bad line{'s' if self.total > 1 else ''} skipped: {kinds}"

    def places(self, kind: str) -> str:
        """The numbers of the first lines of a kind."""
        numbers = ", ".join(str(line.line) for line in self.first[kind])
        more = ", ..." if self.counts[kind] > len(self.first[kind]) else ""
        return f"line{'s' if self.counts[kind] > 1 else ''} {numbers}{more}"


def warn_skipped(name: str, note: str) -> None:
    """Warns of the bad lines of a file that were skipped, if the note of `BadLines` tells of any.

    For those who read examples and keep no notes.
    """
    if note:
        warnings.warn(f"{name}: {note}", stacklevel=2)
