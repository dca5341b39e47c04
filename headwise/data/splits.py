"""The splits of a data set: files of their own or fractions of train, their digests, overlaps and bad lines."""

import hashlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from headwise.data.bad_lines import BadLines, warn_skipped
from headwise.data.buckets import permutation
from headwise.data.files import Bytes, digested, require_file, resolve
from headwise.data.readers import Pair
from headwise.data.suggestions import held_out
from headwise.data.text import clean
from headwise.errors import ConfigError, DataError

T = TypeVar("T")

SPLITS = ("train", "valid", "test")

# the examples of a split that has a file of its own, and what in it cannot be read; files are read whole by `Bytes`
Scan = Callable[[str, Bytes], Iterable[T | DataError]]


class Nouns(NamedTuple):
    """What messages call examples, what comes with each, and what makes two of them the same if not the whole."""

    examples: str
    answer: str | None = None
    sources: str | None = None


@dataclass(frozen=True)
class Splits(Generic[T]):
    """The examples of each split, the SHA-256 of each file by its key in the recipe, and notes on the data.

    Args:
        skipped: by split, what of its file could not be read.
        overlaps: of splits with a file of their own with train.
    """

    examples: dict[str, list[T]]
    digests: Mapping[str, str]
    skipped: Mapping[str, str]
    overlaps: Mapping[str, "Overlap"]
    nouns: Nouns

    @property
    def notes(self) -> list[str]:
        overlaps = {split: overlap.describe(self.nouns) for split, overlap in self.overlaps.items()}
        return [f"{split}: {note}" for notes in (self.skipped, overlaps) for split, note in notes.items()]

    def __iter__(self) -> Iterator[tuple[str, list[T]]]:
        return iter(self.examples.items())


@dataclass(frozen=True)
class DataSet(Generic[T]):
    """The examples that the `[data]` of a recipe names; splits without a file of their own are held out from train.

    Args:
        config: `[data]`, with a file or nothing for each split, the fractions to hold out and `split_seed`.
        pair: an example as a source, by which two are the same, and an answer. Equal sources come into the same split.
        lowercase: sources that differ in case alone are the same.
        files: keys of the files that are not read by `Bytes`.
        limit: only so many examples of train are read, from its beginning.
        to_end: files are read to their ends all the same.
        unit: what is bad where it cannot be read, see `BadLines`.
        bad_key: of `config`, which says whether bad lines stop.
        report: see `BadLines.settle`.
    """

    config: Any
    scan: Scan[T]
    pair: Callable[[T], Pair]
    nouns: Nouns
    lowercase: bool = False
    files: Sequence[str] = SPLITS
    limit: int | None = None
    to_end: bool = False
    unit: str = "line"
    bad_key: str = "bad_lines"
    report: str | None = ""

    def read(self) -> Splits[T]:
        """All splits. Raises: DataError: a file cannot be read as asked, or a split comes out empty."""
        own = self.read_own()
        examples = hold_out(own.examples, self.config, self._source, self.nouns.examples, self.lowercase)
        overlaps = overlaps_of(examples, own.examples.keys(), self.pair, self.lowercase)
        return replace(own, examples=examples, overlaps=overlaps)

    def read_own(self) -> Splits[T]:
        """The splits that have a file of their own, each with all of it. Raises: DataError, as `read`."""
        read: dict[str, list[T]] = {}
        skipped: dict[str, str] = {}
        with digested(own_files(self.config, self.files)) as digests:
            for split in own_files(self.config):
                reader = self._bytes()
                read[split], bad = self.read_file(split, reader)
                skipped |= {split: bad.note()} if bad.total else {}
                digests |= reader.digests(split)
        return Splits(read, digests, skipped, {}, self.nouns)

    def read_file(self, split: str, reader: Bytes | None = None) -> tuple[list[T], BadLines]:
        """The examples of a split's own file, and its bad lines; as `stream`."""
        bad = BadLines(self.unit)
        return list(self.stream(split, bad, reader)), bad

    def stream(self, split: str, bad: BadLines | None = None, reader: Bytes | None = None) -> Iterator[T]:
        """The examples of a split's own file, one after another.

        Raises: DataError: there is nothing in the file, or, at its end, bad lines that are not to be skipped.
        """
        bad = BadLines(self.unit) if bad is None else bad
        good, count = bad.good(self.scan(split, reader or self._bytes())), 0
        for example in islice(good, self.limit if split == "train" else None):
            count += 1
            yield example
        if self.to_end:
            deque(good, maxlen=0)
        bad.settle(getattr(self.config, self.bad_key), self.report, self.bad_key)
        if not count:
            path = resolve(getattr(self.config, split))
            raise DataError(f"{path}: no {self.nouns.examples} in it" + (f"; {bad.note()}" if bad.total else ""))

    def examples(self, split: str) -> list[T]:
        """The examples of one split; if it has a file of its own, no other file is read.

        Raises: DataError, as `read`.
        """
        if split == "train" or getattr(self.config, split) is None:
            splits = self.read()
            warn_skipped(self.config.train, splits.skipped.get("train", ""))
            return splits.examples[split]
        examples, bad = self.read_file(split)
        warn_skipped(getattr(self.config, split), bad.note())
        return examples

    def shares(self, given: Mapping[str, Any], train: Sequence[T]) -> dict[str, float]:
        """Fractions that hold out something of train for each split without a file, for a first recipe."""
        seed, noun = self.config.split_seed, self.nouns.examples
        return held_out(
            given, lambda valid, test: split_by(train, self._source, (valid, test), seed, noun, self.lowercase)
        )

    def _bytes(self) -> Bytes:
        # data that is not read whole has no such limit
        return Bytes(getattr(self.config, "max_bytes", 0))

    def _source(self, example: T) -> str:
        return self.pair(example).source


def files_of(config: Any, split: str) -> tuple[Path, Path | None]:
    """The file of a split, and the second one, such as of labels, that `[data]` may name for it by `SPLIT_target`."""
    target = getattr(config, f"{split}_target")
    return resolve(getattr(config, split)), None if target is None else resolve(target)


def own_files(config: Any, keys: Iterable[str] = SPLITS) -> dict[str, Path]:
    """The files that `[data]` names, by their keys. Raises: DataError for a pipe, which cannot be read twice."""
    files = {key: resolve(path) for key in keys if (path := getattr(config, key)) is not None}
    for path in files.values():
        require_file(path)
    return files


def hold_out(
    own: Mapping[str, Sequence[T]], config: Any, source: Callable[[T], str], noun: str, lowercase: bool = False
) -> dict[str, list[T]]:
    """The examples of all splits: those of their own files, and what is held out from train for the others.

    Args:
        own: of each split with a file of its own; "train" among them.

    Raises: as `split_by`.
    """
    valid, test = (0.0 if split in own else getattr(config, f"{split}_fraction") for split in SPLITS[1:])
    drawn = split_by(own["train"], source, (valid, test), config.split_seed, noun, lowercase)
    return dict(zip(SPLITS, drawn, strict=True)) | {split: list(own[split]) for split in SPLITS[1:] if split in own}


def split_by(
    items: Sequence[T],
    source: Callable[[T], str],
    fractions: tuple[float, float],
    seed: int,
    noun: str,
    lowercase: bool = False,
) -> tuple[list[T], list[T], list[T]]:
    """Training, validation and test examples, in their order; those with one source stay together.

    The split of an example follows from the SHA-256 of seed and source alone, so adding examples moves no other, and
    changing the fraction to validate moves no test example. Sizes are therefore near the fractions, not exactly them.

    Args:
        fractions: of the sources to validate and to test, 0 for none.
        lowercase: sources that differ in case alone are one.

    Raises:
        ConfigError: fractions that leave nothing for training.
        DataError: a split that was asked for comes out empty.

    >>> texts = [f"sentence {n}" for n in range(1000)]
    >>> [len(split) for split in split_by(texts, str, (0.1, 0.1), 1, "texts")]
    [795, 95, 110]
    """
    valid, test = fractions
    if min(valid, test) < 0 or valid + test >= 1:
        raise ConfigError(f"valid_fraction ({valid}) and test_fraction ({test}) must be 0 or more, together below 1")
    splits: tuple[list[T], list[T], list[T]] = ([], [], [])
    for item in items:
        text = source(item)
        place = source_place(text.lower() if lowercase else text, seed)
        splits[2 if place < test else 1 if place < test + valid else 0].append(item)
    for split, fraction, name in zip(splits, (1.0, valid, test), ("training", "validation", "test"), strict=True):
        if fraction > 0 and not split:
            raise DataError(
                f"the split of {len(items)} {noun} leaves none for {name}; "
                f"change the fractions or the seed, or name a file for each part"
            )
    return splits


def source_place(source: str, seed: int) -> float:
    """Where a source falls in [0, 1), the same for ever; spelling of white space and accents is irrelevant."""
    digest = hashlib.sha256(f"{seed}\n{clean(source)}".encode()).digest()
    # 53 bits, so that the result stays below 1
    return (int.from_bytes(digest[:8], "big") >> 11) / (1 << 53)


def draw_limit(items: list[T], limit: int | None, seed: int) -> list[T]:
    """At most so many of the items, drawn at random, in their order."""
    if limit is None:
        return items
    return [items[place] for place in sorted(permutation(len(items), seed, 0)[:limit].tolist())]


@dataclass(frozen=True, slots=True)
class Overlap:
    """Held-out examples that training has seen: their lines, by source alone and with the same answer."""

    source_lines: tuple[int, ...]
    pair_lines: tuple[int, ...]
    held_out: int

    def __str__(self) -> str:
        return self.describe(Nouns("sentence pairs", "translation", "sources"))

    def describe(self, nouns: Nouns) -> str:
        """How many there are, and the first lines of those that have one."""
        text = f"{len(self.source_lines):,} of {self.held_out:,} held-out {nouns.sources or nouns.examples}"
        text += " are in the training part"
        if self.source_lines and nouns.answer:
            text += f", {len(self.pair_lines):,} with the same {nouns.answer}"
        if not any(self.source_lines):
            return text
        more = ", ..." if len(self.source_lines) > 5 else ""
        return f"{text}: line {', '.join(map(str, self.source_lines[:5]))}{more}"


def overlap(train: Iterable[Pair], held_out: Sequence[Pair], lowercase: bool = False) -> Overlap:
    """The held-out pairs whose source is also trained on; for splits that come as separate files.

    Args:
        lowercase: sources that differ in case alone are one.
    """

    def key(pair: Pair) -> str:
        return pair.source.lower() if lowercase else pair.source

    answers: dict[str, set[str]] = {}
    for pair in train:
        answers.setdefault(key(pair), set()).add(pair.target)
    overlapping = [pair for pair in held_out if key(pair) in answers]
    same = tuple(pair.line for pair in overlapping if pair.target in answers[key(pair)])
    return Overlap(tuple(pair.line for pair in overlapping), same, len(held_out))


def overlaps_of(
    examples: Mapping[str, Sequence[T]], own: Collection[str], pair: Callable[[T], Pair], lowercase: bool = False
) -> dict[str, Overlap]:
    """The overlaps with train, where there are any, of the splits that have a file of their own."""
    splits = [split for split in SPLITS[1:] if split in own]
    if not splits:
        return {}
    trained = [pair(example) for example in examples["train"]]
    overlaps = {split: overlap(trained, [pair(example) for example in examples[split]], lowercase) for split in splits}
    return {split: overlap for split, overlap in overlaps.items() if overlap.source_lines}
