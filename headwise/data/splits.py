"""Training, validation and test parts that share no source sentence and do not move when data is added."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from headwise.data.readers import Pair
from headwise.data.text import clean
from headwise.errors import ConfigError, DataError

T = TypeVar("T")


def split_pairs(
    pairs: Sequence[Pair], valid: float, test: float, seed: int, lowercase: bool = False
) -> tuple[list[Pair], list[Pair], list[Pair]]:
    """Training, validation and test pairs, in their order; all translations of a source sentence stay together.

    The part of a pair follows from the SHA-256 of seed and source sentence alone, so adding pairs moves no other pair,
    and changing `valid` moves no test pair. Sizes are therefore near the fractions, not exactly them.

    Args:
        valid: fraction of the source sentences for validation, 0 for none.
        test: fraction for the test.
        lowercase: sources that differ in case alone are one sentence.

    Raises:
        ConfigError: fractions that leave nothing for training.
        DataError: a part that was asked for came out empty.

    >>> pairs = [Pair(f"sentence {n}", "x", n) for n in range(1000)]
    >>> [len(part) for part in split_pairs(pairs, 0.1, 0.1, seed=1)]
    [795, 95, 110]
    """
    return split_by(pairs, lambda pair: pair.source, (valid, test), seed, "pairs", lowercase)


def split_by(
    items: Sequence[T],
    source: Callable[[T], str],
    fractions: tuple[float, float],
    seed: int,
    noun: str,
    lowercase: bool = False,
) -> tuple[list[T], list[T], list[T]]:
    """As `split_pairs`, for anything that has a source text.

    Args:
        fractions: of validation and test.
        noun: what the items are, for the error.
        lowercase: sources that differ in case alone are one.
    """
    valid, test = fractions
    if min(valid, test) < 0 or valid + test >= 1:
        raise ConfigError(
            f"valid_fraction ({valid}) and test_fraction ({test}) must be 0 or more and together less than 1"
        )
    parts: tuple[list[T], list[T], list[T]] = ([], [], [])
    for item in items:
        text = source(item)
        place = source_place(text.lower() if lowercase else text, seed)
        parts[2 if place < test else 1 if place < test + valid else 0].append(item)
    for part, fraction, name in zip(parts, (1.0, valid, test), ("training", "validation", "test"), strict=True):
        if fraction > 0 and not part:
            raise DataError(
                f"the split of {len(items)} {noun} leaves none for {name}; "
                f"change the fractions or the seed, or name a file for each part"
            )
    return parts


def source_place(source: str, seed: int) -> float:
    """Where a source sentence falls in [0, 1), the same for ever; spelling of white space and accents is irrelevant."""
    digest = hashlib.sha256(f"{seed}\n{clean(source)}".encode()).digest()
    # 53 bits, so that the result stays below 1
    return (int.from_bytes(digest[:8], "big") >> 11) / (1 << 53)


@dataclass(frozen=True, slots=True)
class Overlap:
    """Held-out pairs that training has seen: their lines, by source sentence alone and as whole pairs."""

    source_lines: tuple[int, ...]
    pair_lines: tuple[int, ...]
    held_out: int

    def __str__(self) -> str:
        if not self.source_lines:
            return f"0 of {self.held_out:,} held-out sources are in the training part"
        shown = ", ".join(map(str, self.source_lines[:5])) + (", ..." if len(self.source_lines) > 5 else "")
        return (
            f"{len(self.source_lines):,} of {self.held_out:,} held-out sources are in the training part, "
            f"{len(self.pair_lines):,} with the same translation: line {shown}"
        )


def overlap(train: Iterable[Pair], held_out: Sequence[Pair], lowercase: bool = False) -> Overlap:
    """Finds the held-out pairs whose source sentence is also trained on; for splits that come as separate files.

    Args:
        lowercase: sources that differ in case alone are one.
    """

    def key(pair: Pair) -> str:
        return pair.source.lower() if lowercase else pair.source

    translations: dict[str, set[str]] = {}
    for pair in train:
        translations.setdefault(key(pair), set()).add(pair.target)
    seen = [pair for pair in held_out if key(pair) in translations]
    same = tuple(pair.line for pair in seen if pair.target in translations[key(pair)])
    return Overlap(tuple(pair.line for pair in seen), same, len(held_out))
