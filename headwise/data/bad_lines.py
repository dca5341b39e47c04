"""What cannot be read, lines or whole files: each with its place and kind, counted, the first of each kind kept."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, TypeVar

from headwise.errors import DataError

T = TypeVar("T")

BadRule = Literal["stop", "skip"]

_KEPT = 5
_SHOWN = 3


class BadLine(DataError):
    """A line that cannot be read as asked; the message is `name:line: what`.

    Args:
        name: the file; empty: `what` names the place itself.
        line: its number, from 1.
        kind: a word or two for faults of this kind, such as "columns".
        what: what is wrong and what to do.
        settings: options that may help, see `DataError`.
    """

    def __init__(
        self, name: str, line: int, kind: str, what: str, settings: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(f"{name}:{line}: {what}" if name else what, settings)
        self.name, self.line, self.kind, self.what = name, line, kind, what

    def of(self, name: str) -> "BadLine":
        """The same in this file, where it was not known before."""
        return BadLine(name, self.line, self.kind, self.what, self.settings)


def strict(items: Iterable[T | DataError]) -> Iterator[T]:
    """The items, as long as they can be read. Raises: DataError: the first that cannot."""
    for item in items:
        if isinstance(item, DataError):
            raise item
        yield item


def caught(make: Callable[..., T], *arguments: Any) -> T | DataError:
    """What a function makes of these arguments, or the error that says why there is nothing."""
    try:
        return make(*arguments)
    except DataError as error:
        return error


class BadLines:
    """Collects what cannot be read while the rest passes.

    Args:
        unit: what is bad: lines of a file, or what a list or folder holds, such as "image".

    >>> bad = BadLines()
    >>> list(bad.good(["a", BadLine("x.tsv", 2, "columns", "1 column"), "b"]))
    ['a', 'b']
    >>> bad.note()
    '1 bad line skipped: columns 1 (line 2)'
    >>> bad = BadLines("image")
    >>> list(bad.good([1, DataError("a.png: is empty"), 2]))
    [1, 2]
    >>> bad.note()
    '1 bad image skipped; the first: a.png: is empty'
    """

    def __init__(self, unit: str = "line") -> None:
        self.unit = unit
        self.counts: Counter[str] = Counter()
        self.first: dict[str, list[BadLine]] = {}

    @property
    def total(self) -> int:
        return self.counts.total()

    def good(self, items: Iterable[T | DataError]) -> Iterator[T]:
        """The items that can be read; the others are collected."""
        return (item for _, item in self.numbered(items))

    def numbered(self, items: Iterable[T | DataError]) -> Iterator[tuple[int, T]]:
        """As `good`, each with its number among all items, from 1."""
        for number, item in enumerate(items, 1):
            if not isinstance(item, DataError):
                yield number, item
            elif isinstance(item, BadLine) and self.unit == "line":
                self.add(item)
            else:
                self.add(BadLine("", number, f"{self.unit}s", item.message, item.settings))

    def add(self, line: BadLine) -> None:
        """Counts a line, and keeps it if it is among the first five of its kind."""
        self.counts[line.kind] += 1
        samples = self.first.setdefault(line.kind, [])
        if len(samples) < _KEPT:
            samples.append(line)

    def settle(self, rule: BadRule, report: str | None = "", key: str = "bad_lines") -> None:
        """Ends the reading of a recipe's file.

        Args:
            report: options with which `headwise data report` reads the file in the same way; None: there are none.
            key: of `[data]`, which says whether to stop or to skip.

        Raises: DataError: the first bad lines, unless the rule is skip.
        """
        if rule == "skip" or not self.total:
            return
        shown = sorted((line for lines in self.first.values() for line in lines), key=lambda line: line.line)[:_SHOWN]
        rest = self.total - len(shown)
        listed = "; ".join(line.text("recipe") for line in shown) + (f"; and {rest:,} more" if rest else "")
        command = " ".join(filter(None, ["headwise data report", shown[0].name, report]))
        lists = "" if report is None else f"; `{command}` lists it all"
        raise DataError(f'{listed}; correct these {self.unit}s, or skip them with data.{key} = "skip"{lists}')

    def note(self) -> str:
        """How many were skipped; of lines by kind, with the numbers of the first; empty if none were."""
        if not self.total:
            return ""
        head = f"{self.total:,} bad {self.unit}{'s' if self.total > 1 else ''} skipped"
        if self.unit != "line":
            return f"{head}; the first: {self.first[f'{self.unit}s'][0].message}"
        kinds = (f"{kind} {count:,} ({self._lines(kind)})" for kind, count in self.counts.most_common())
        return f"{head}: {', '.join(kinds)}"

    def _lines(self, kind: str) -> str:
        numbers = ", ".join(str(line.line) for line in self.first[kind])
        more = ", ..." if self.counts[kind] > len(self.first[kind]) else ""
        return f"line{'s' if self.counts[kind] > 1 else ''} {numbers}{more}"


def warn_skipped(name: str, note: str) -> None:
    """Warns of the bad lines of a file that were skipped, by the note of its `BadLines`, where notes are not kept."""
    if note:
        warnings.warn(f"{name}: {note}", stacklevel=2)
