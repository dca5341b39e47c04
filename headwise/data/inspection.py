"""What is in a data file: its bad lines by kind, the odd ones, and what the good ones are like.

Each kind of data is a `DataKind` of the family that reads it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import fsum
from typing import Any

from headwise.data.bad_lines import BadLine, BadLines
from headwise.data.files import ending_of, require_file, scan_lines
from headwise.data.readers import take
from headwise.data.report import measure
from headwise.data.splits import SPLITS
from headwise.data.tables import is_jsonl
from headwise.errors import ConfigError, DataError

_SHOWN = 5
# entries of a table that people are shown
_ENTRIES = 10
_LONG = 10.0
_SURE_CHARACTERS = 200


@dataclass
class Odd:
    """Lines that can be read but look wrong: of how many kinds, how many, and where the first stand."""

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, list[int]] = field(default_factory=dict)

    def add(self, kind: str, line: int) -> None:
        self.counts[kind] += 1
        lines = self.first.setdefault(kind, [])
        if len(lines) < _SHOWN:
            lines.append(line)


@dataclass(frozen=True)
class Inspection:
    """What was found in one file: bad lines, odd lines, facts by name, and further lines of text for people.

    Without `bad` and `odd`, nothing is said of such lines.

    >>> Inspection("sums.txt", "sums", 24, facts={"largest": 9}, told=("largest 9",)).lines()
    ['sums.txt: 24 sums', '', 'largest 9']
    """

    file: str
    noun: str
    good: int
    bad: BadLines | None = None
    odd: Odd | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    told: tuple[str, ...] = ()
    # what numbers are of: media are counted as such, wherever a list has them
    counted: str = "line"

    def lines(self) -> list[str]:
        noun = self.noun.removesuffix("s") if self.good == 1 else self.noun
        blocks = [list(self._bad_and_odd()), list(self.told)]
        return [f"{self.file}: {self.good:,} {noun}", *(line for block in blocks if block for line in ("", *block))]

    def _bad_and_odd(self) -> Iterator[str]:
        for name, lines in (("bad", self.bad), ("odd", self.odd)):
            if lines is not None:
                yield f"{f'{name} {self.counted}s':<24} {lines.counts.total():,}"
                for kind, count in lines.counts.most_common():
                    yield from self._of_kind(kind, count, lines.first[kind])

    def _of_kind(self, kind: str, count: int, first: Sequence[BadLine] | Sequence[int]) -> Iterator[str]:
        """Bad lines each with what is wrong, odd ones by their numbers."""
        left = count - len(first)
        advised = [f"    {self.counted} {at.line}: {_advised(at)}" for at in first if isinstance(at, BadLine)]
        if advised:
            yield from (f"  {kind:<22} {count:,}", *advised, *([f"    and {left:,} more"] if left else []))
        else:
            yield f"  {kind:<22} {count:,}: {self.counted} {', '.join(map(str, first))}{', ...' if left else ''}"

    def values(self) -> dict[str, Any]:
        """The report as values for JSON: `bad` and `odd` by kind, each with its count and first lines."""
        kinds = {name: _by_kind(lines) for name, lines in (("bad", self.bad), ("odd", self.odd)) if lines is not None}
        return {"file": self.file, self.noun: self.good, **kinds, **self.facts}


def _by_kind(lines: BadLines | Odd) -> dict[str, Any]:
    first = {
        kind: [{"line": at} if isinstance(at, int) else {"line": at.line, "what": _advised(at)} for at in samples]
        for kind, samples in lines.first.items()
    }
    return {kind: {"count": count, "first": first[kind]} for kind, count in lines.counts.most_common()}


def _advised(line: BadLine) -> str:
    return DataError(line.what, line.settings).text("shell")


@dataclass(frozen=True)
class Opening:
    """How a file begins: what tells its kind of data."""

    path: str

    @property
    def ending(self) -> str:
        """The ending of its name in small letters, without `.gz`."""
        return ending_of(self.path)

    @cached_property
    def lines(self) -> list[str]:
        """The first lines, from the first that is not blank. Raises: DataError: the file cannot be read."""
        require_file(self.path)
        texts = (text for _, text in scan_lines(self.path) if isinstance(text, str))
        first = next((text for text in texts if text and not text.isspace()), "")
        return [first, *take(texts, 9)]

    @property
    def is_jsonl(self) -> bool:
        return is_jsonl(self.path, self.lines[0])


@dataclass(frozen=True)
class DataKind:
    """A kind of data, as `headwise data report` knows it.

    Args:
        name: what `--kind` calls it.
        section: the `[data]` of its recipes.
        look: (data, part, held-out file) to what is in the file of a part.
        likeness: how much a file looks like it: 0 is not at all; of several kinds the largest is taken.
        held_out: whether other examples can be looked up among those of train.
    """

    name: str
    section: type[Any]
    look: Callable[[Any, str, str | None], Inspection]
    likeness: Callable[[Opening], int] = lambda opening: 0
    held_out: bool = False

    def inspect(self, data: Any, held_out: str | None = None) -> list[Inspection]:
        """Reads the files that a recipe's `[data]` names to their ends, whatever is in them.

        Raises:
            ConfigError: held-out examples where they cannot be looked up.
            DataError: a file cannot be read any further.
        """
        if held_out is not None and not self.held_out:
            raise ConfigError("--held-out goes with sentence pairs only; leave it out")
        parts = [part for part in SPLITS if getattr(data, part) is not None]
        return [self.look(data, part, held_out if part == "train" else None) for part in parts]


def guess(path: str, kinds: Iterable[DataKind]) -> DataKind:
    """The kind of data in a file: the one that it looks most like. Raises: DataError: the file cannot be read."""
    opening = Opening(path)
    return max(kinds, key=lambda kind: kind.likeness(opening))


def add_long(odd: Odd, sizes: Sequence[tuple[int, int]]) -> None:
    """Counts what is ten times as long as 95 of 100 are; a little text is never long."""
    if not sizes:
        return
    usual = measure([size for size, _ in sizes]).p95
    for size, line in sizes:
        if size > max(_LONG * usual, _SURE_CHARACTERS):
            odd.add("very long", line)


def entries(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """The facts as lines for people; of long tables the first entries."""
    lines = []
    for name, value in facts.items():
        if not isinstance(value, dict):
            lines.append(f"{name:<24} {value:,}")
            continue
        lines.append(f"{name:<24} {len(value):,}" if name in ("sizes", "classes", "labels", "rates") else name)
        lines += [f"  {key[:40]:<22} {number:,}" for key, number in list(value.items())[:_ENTRIES]]
        lines += [f"  and {len(value) - _ENTRIES:,} more"] if len(value) > _ENTRIES else []
    return tuple(lines)


def spread(values: Sequence[int] | Sequence[float]) -> dict[str, int | float]:
    """The least, the mean and the greatest of some numbers."""
    summary = {"least": min(values), "mean": fsum(values) / len(values), "greatest": max(values)}
    return {name: round(value, 3) for name, value in summary.items()}
