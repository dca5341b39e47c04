"""The parts of a data set of single texts: files of their own or fractions of train, digests, overlaps, what is odd."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar, runtime_checkable

from headwise.data.bad_lines import BadLine, BadLines, BadRule
from headwise.data.corpus import resolve
from headwise.data.files import digested, require_file
from headwise.data.readers import Pair
from headwise.data.splits import overlap, split_by
from headwise.errors import DataError

T = TypeVar("T")

PARTS = ("train", "valid", "test")

Scan = Callable[[Path], Iterable[T | BadLine]]


@runtime_checkable
class Parted(Protocol):
    """The keys of `[data]` that say what the parts are."""

    @property
    def train(self) -> str: ...
    @property
    def valid(self) -> str | None: ...
    @property
    def test(self) -> str | None: ...
    @property
    def limit(self) -> int | None: ...
    @property
    def valid_fraction(self) -> float: ...
    @property
    def test_fraction(self) -> float: ...
    @property
    def split_seed(self) -> int: ...
    @property
    def bad_lines(self) -> BadRule: ...


@dataclass(frozen=True)
class Parts(Generic[T]):
    """The examples of each part; of each file by its part the SHA-256 and the lines skipped; what is odd."""

    examples: dict[str, list[T]]
    digests: Mapping[str, str]
    skipped: Mapping[str, str]
    odd: list[str]

    @property
    def notes(self) -> list[str]:
        """What to tell of the data."""
        return [f"{part}: {note}" for part, note in self.skipped.items()] + self.odd

    def __iter__(self) -> Iterator[tuple[str, list[T]]]:
        return iter(self.examples.items())


def read_parts(
    data: Parted,
    scan: Scan[T],
    pair: Callable[[T], Pair],
    nouns: tuple[str, str],
    lowercase: bool,
    report: str | None = "",
) -> Parts[T]:
    """Reads the files of a recipe; parts without a file come from train, equal texts into the same part.

    Args:
        scan: reads a file.
        pair: the text of an example as source, its answer as target.
        nouns: what examples and answers are called, such as "sentences" and "tags".
        lowercase: texts that differ in case alone are equal.
        report: see `BadLines.settle`.

    Raises:
        DataError: a file cannot be read as asked, or a part comes out empty.
    """
    paths = {part: resolve(path) for part in PARTS if (path := getattr(data, part)) is not None}
    given: dict[str, list[T]] = {}
    skipped: dict[str, str] = {}
    odd = []
    for path in paths.values():
        require_file(path)
    with digested(paths) as digests:
        for part, path in paths.items():
            given[part], bad = read_part(path, scan, data.bad_lines, nouns[0], report)
            skipped |= {part: bad.note()} if bad.total else {}
    fractions = (
        0.0 if "valid" in given else data.valid_fraction,
        0.0 if "test" in given else data.test_fraction,
    )
    train = given.pop("train")[: data.limit]
    taken = split_by(train, lambda one: pair(one).source, fractions, data.split_seed, nouns[0], lowercase)
    examples = dict(zip(PARTS, taken, strict=True)) | given
    trained = [pair(one) for one in examples["train"]]
    for part in given:
        if (seen := overlap(trained, [pair(one) for one in given[part]], lowercase)).source_lines:
            odd.append(
                f"{part}: {len(seen.source_lines):,} of {seen.held_out:,} held-out {nouns[0]} are in the training part,"
                f" {len(seen.pair_lines):,} with the same {nouns[1]}"
            )
    return Parts(examples, digests, skipped, odd)


def read_part(path: Path, scan: Scan[T], rule: BadRule, noun: str, report: str | None = "") -> tuple[list[T], BadLines]:
    """The examples of one file, and its bad lines, which are skipped if the rule says so; arguments as in `read_parts`.

    Raises:
        DataError: bad lines that are not to be skipped, or no examples at all.
    """
    require_file(path)
    bad = BadLines()
    found = list(bad.good(scan(path)))
    bad.settle(rule, report)
    if not found:
        raise DataError(f"{path}: no {noun} in it")
    return found, bad
