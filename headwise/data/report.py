"""What a set of sentence pairs is like: lengths, vocabulary, scripts, duplicates, faults, waste in batches."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from headwise.data.buckets import padding_waste, token_batches
from headwise.data.readers import Pair
from headwise.data.splits import Overlap, overlap, source_place
from headwise.data.text import hidden, script_counts
from headwise.errors import DataError

T = TypeVar("T")

_HELD_OUT = 0.1
_BINS = 8
_OUTLIER = 3.0
_SURE_CHARACTERS = 20
_SHOWN = 10
_BATCH_TOKENS = 4096
_CUTOFFS = (1, 2, 3, 5)


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long texts are, and how many have up to each of the bounds."""

    minimum: int
    median: int
    p95: int
    maximum: int
    mean: float
    histogram: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Cutoff:
    """The vocabulary of the words that occur `frequency` times or more, and the share of running words it covers."""

    frequency: int
    vocabulary: int
    coverage: float
    unknown: float | None


@dataclass(frozen=True, slots=True)
class Side:
    """Texts of one kind, such as one language of sentence pairs. Words are what stands between white space."""

    characters: Lengths
    words: Lengths
    running_words: int
    cutoffs: tuple[Cutoff, ...]
    embedding_hint: float
    empty_lines: tuple[int, ...]
    scripts: Mapping[str, float]
    hidden: Mapping[str, int]

    def lines(self) -> list[str]:
        lines = [
            f"  characters   {_length_line(self.characters)}",
            f"  words        {_length_line(self.words)}",
            *_bars(self.words),
            f"  vocabulary   {self.cutoffs[0].vocabulary:,} words, {self.running_words:,} running words",
        ]
        for cutoff in self.cutoffs:
            unknown = "" if cutoff.unknown is None else f"; {100 * cutoff.unknown:.1f} % of held-out words are unknown"
            lines.append(
                f"    seen {cutoff.frequency}+ times: {cutoff.vocabulary:,} words, "
                f"{100 * cutoff.coverage:.1f} % of running words{unknown}"
            )
        lines.append(f"  embedding    at least {self.embedding_hint:.0f} wide by the rule 8.33 ln V")
        scripts = ", ".join(f"{name} {100 * share:.3g} %" for name, share in list(self.scripts.items())[:5])
        lines.append(f"  scripts      {scripts or 'no letters'}")
        if self.empty_lines:
            lines.append(f"  empty        {len(self.empty_lines):,}{_shown(self.empty_lines, len(self.empty_lines))}")
        for name, count in list(self.hidden.items())[:_SHOWN]:
            lines.append(f"  hidden       {name}: {count:,}")
        return lines


@dataclass(frozen=True, slots=True)
class Report:
    """What `report` found; `lines()` is the text of it."""

    pairs: int
    source: Side
    target: Side
    duplicates: int
    ambiguous: int
    most_translations: int
    outlier_lines: tuple[int, ...]
    outliers: int
    waste_bucketed: float
    waste_unbucketed: float
    overlap: Overlap | None

    def lines(self) -> list[str]:
        lines = [
            f"pairs                    {self.pairs:,}",
            f"repeated pairs           {self.duplicates:,}",
            f"sources, several targets {self.ambiguous:,} (up to {self.most_translations})",
            f"odd length ratio         {self.outliers:,}{_shown(self.outlier_lines, self.outliers)}",
            f"padding in batches       {100 * self.waste_bucketed:.1f} % by length buckets, "
            f"{100 * self.waste_unbucketed:.1f} % in random batches of {_BATCH_TOKENS} tokens",
        ]
        if self.overlap is not None:
            lines.append(f"held-out pairs           {self.overlap}")
        for name, side in (("source", self.source), ("target", self.target)):
            lines += ["", name, *side.lines()]
        return lines

    def __str__(self) -> str:
        return "\n".join(self.lines())


def report(pairs: Sequence[Pair], *, held_out: Sequence[Pair] | None = None) -> Report:
    """Measures a data set; linear in its size but for one sort.

    Args:
        held_out: pairs whose words and sources are looked up among `pairs`; without them a tenth of the sources plays
            that part for the rate of unknown words.

    Raises: DataError: there are no pairs.

    >>> found = report([Pair("go .", "va !", 1), Pair("i'm home .", "je suis chez moi .", 2)])
    >>> found.pairs, found.target.words.maximum, found.source.scripts
    (2, 5, {'Latin': 1.0})
    """
    if not pairs:
        raise DataError("no sentence pairs to report on")
    reference, probe = split_off(pairs, lambda pair: pair.source) if held_out is None else (pairs, held_out)
    translations: dict[str, set[str]] = {}
    for pair in pairs:
        translations.setdefault(pair.source, set()).add(pair.target)
    several = [len(targets) for targets in translations.values()]
    outliers = _outliers(pairs)
    bucketed, unbucketed = _waste(pairs)
    lines = [pair.line for pair in pairs]
    return Report(
        pairs=len(pairs),
        source=measure_texts(
            [p.source for p in pairs], lines, [p.source for p in reference], [p.source for p in probe]
        ),
        target=measure_texts(
            [p.target for p in pairs], lines, [p.target for p in reference], [p.target for p in probe]
        ),
        duplicates=len(pairs) - sum(several),
        ambiguous=sum(count > 1 for count in several),
        most_translations=max(several),
        outlier_lines=tuple(outliers[:_SHOWN]),
        outliers=len(outliers),
        waste_bucketed=bucketed,
        waste_unbucketed=unbucketed,
        overlap=None if held_out is None else overlap(pairs, held_out),
    )


def embedding_size(vocabulary: int) -> float:
    """The width below which embeddings of so many words may lose information: 8.33 ln V, a rule of thumb.

    >>> [round(embedding_size(size), 1) for size in (10_000, 100_000, 5_000_000)]
    [76.7, 95.9, 128.5]
    """
    return 8.33 * math.log(max(vocabulary, 1))


def measure(sizes: Sequence[int]) -> Lengths:
    """Minimum, median, 95th percentile, maximum, mean and histogram of at least one length.

    >>> measure([1, 2, 3, 4, 100]).median
    3
    """
    values = np.sort(np.asarray(sizes, dtype=np.int64))
    width = max(1, math.ceil((int(_rank(values, 0.99)) + 1) / (_BINS - 1)))
    bounds = [width * (place + 1) for place in range(_BINS - 1)]
    bounds = [bound for bound in bounds if bound < values[-1]] + [int(values[-1])]
    upto = np.searchsorted(values, bounds, side="right")
    counts = np.diff(upto, prepend=0)
    return Lengths(
        minimum=int(values[0]),
        median=_rank(values, 0.5),
        p95=_rank(values, 0.95),
        maximum=int(values[-1]),
        mean=float(values.mean()),
        histogram=tuple(zip(bounds, counts.tolist(), strict=True)),
    )


def measure_texts(texts: Sequence[str], lines: Sequence[int], reference: Sequence[str], probe: Sequence[str]) -> Side:
    """Lengths, vocabulary and scripts of texts, at least one.

    Args:
        lines: where each text stands.
        reference, probe: the words of `probe` are looked up among those of `reference`.

    >>> side = measure_texts(["a b", "a c c"], [1, 2], ["a b"], ["a c c"])
    >>> side.words.maximum, side.cutoffs[0].vocabulary, round(side.cutoffs[0].unknown, 2)
    (3, 3, 0.67)
    """
    counts = Counter(word for text in texts for word in text.split())
    letters = Counter("".join(texts))
    scripts = script_counts(letters)
    total = sum(scripts.values())
    unseen = {name: count for letter, count in letters.items() if (name := hidden(letter)) is not None}
    return Side(
        characters=measure([len(text) for text in texts]),
        words=measure([_words(text) for text in texts]),
        running_words=sum(counts.values()),
        cutoffs=_cutoffs(counts, reference, probe),
        embedding_hint=embedding_size(len(counts)),
        empty_lines=tuple(line for text, line in zip(texts, lines, strict=True) if not text),
        scripts={name: count / total for name, count in scripts.items()},
        hidden=dict(sorted(unseen.items(), key=lambda item: (-item[1], item[0]))),
    )


def split_off(texts: Sequence[T], source: Callable[[T], str]) -> tuple[list[T], list[T]]:
    """The texts, and a tenth of them to see which of its words the others lack; equal sources go together.

    >>> [len(part) for part in split_off([f"text {number}" for number in range(1000)], str)]
    [906, 94]
    """
    parts: tuple[list[T], list[T]] = [], []
    for text in texts:
        parts[source_place(source(text), 0) < _HELD_OUT].append(text)
    return parts


def _rank(values: np.ndarray, share: float) -> int:
    """The smallest value that at least this share of the sorted values does not exceed."""
    return int(values[max(math.ceil(share * len(values)) - 1, 0)])


def _words(text: str) -> int:
    # cleaned texts have single spaces, and none at their ends
    return text.count(" ") + 1 if text else 0


def _cutoffs(counts: Counter[str], reference: Sequence[str], probe: Sequence[str]) -> tuple[Cutoff, ...]:
    reference_counts = Counter(word for text in reference for word in text.split())
    probe_counts = Counter(word for text in probe for word in text.split())
    running, probe_words = sum(counts.values()), sum(probe_counts.values())
    cutoffs = []
    for frequency in _CUTOFFS:
        frequent = [count for count in counts.values() if count >= frequency]
        missing = sum(count for word, count in probe_counts.items() if reference_counts[word] < frequency)
        unknown = missing / probe_words if probe_words else None
        cutoffs.append(Cutoff(frequency, len(frequent), sum(frequent) / running if running else 0.0, unknown))
    return tuple(cutoffs)


def _outliers(pairs: Sequence[Pair]) -> list[int]:
    """Lines of pairs whose length ratio, in characters, is far from the usual one; the worst first."""
    source = np.array([len(pair.source) for pair in pairs]) + 1.0
    target = np.array([len(pair.target) for pair in pairs]) + 1.0
    ratio = np.log(target / source)
    distance = np.abs(ratio - np.median(ratio))
    # one short word against three is no fault
    distance[np.maximum(source, target) < _SURE_CHARACTERS] = 0
    order = np.argsort(-distance, kind="stable")
    return [pairs[place].line for place in order[: int((distance > math.log(_OUTLIER)).sum())].tolist()]


def _waste(pairs: Sequence[Pair]) -> tuple[float, float]:
    """Padding with and without length buckets, a word being a token, batches of the same number of sentences."""
    lengths = np.array([(_words(pair.source) + 1, _words(pair.target) + 1) for pair in pairs])
    batches = token_batches(lengths, max_tokens=max(_BATCH_TOKENS, int(lengths.max())))
    size = max(1, round(len(pairs) / len(batches)))
    # batches of single sentences, already in random order
    order = [batch[0] for batch in token_batches(np.ones_like(lengths), max_tokens=1)]
    rows = [order[start : start + size] for start in range(0, len(order), size)]
    return padding_waste(lengths, batches), padding_waste(lengths, rows)


def _length_line(lengths: Lengths) -> str:
    return (
        f"min {lengths.minimum}, median {lengths.median}, mean {lengths.mean:.1f}, "
        f"95 % up to {lengths.p95}, max {lengths.maximum}"
    )


def _bars(lengths: Lengths) -> list[str]:
    most = max(count for _, count in lengths.histogram)
    return [f"    up to {bound:4} {'#' * round(40 * count / most):40} {count:,}" for bound, count in lengths.histogram]


def _shown(lines: Sequence[int], count: int) -> str:
    if not count:
        return ""
    shown = ", ".join(map(str, lines[:_SHOWN]))
    return f": line{'s' if count > 1 else ''} {shown}{', ...' if count > _SHOWN else ''}"
