"""What word vectors are tested on: pairs with a score, analogies, labels by a linear probe."""

import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from torch import Tensor

from headwise.data.bad_lines import strict
from headwise.data.buckets import permutation
from headwise.data.files import ending_of, read_lines
from headwise.data.tables import named_format
from headwise.data.text import Normalize, clean
from headwise.errors import DataError
from headwise.predictors.baselines import logistic_regression, standardised
from headwise.tasks.text.tagged import TaggedConfig, scan_tagged

TestKind = Literal["text", "similarity", "analogies", "labels"]

_NUMBER = re.compile(r"[+-]?[0-9]{1,15}(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,2})?")
_COLUMNS = ("upos", "xpos")
_NOTHING = "_"


@dataclass(frozen=True, slots=True)
class WordPair:
    """Two words, how similar people find them, and the line (from 1)."""

    first: str
    second: str
    score: float
    line: int


@dataclass(frozen=True, slots=True)
class Question:
    """`a` is to `b` as `c` is to `d`, the section of the file that this belongs to, and the line (from 1)."""

    a: str
    b: str
    c: str
    d: str
    section: str
    line: int


@dataclass(frozen=True, slots=True)
class WordLabel:
    """A word, a label that it has, how often, and the line (from 1) where it first has it."""

    word: str
    label: str
    line: int
    count: int = 1


Test = WordPair | Question | WordLabel


def read_tests(
    path: str | os.PathLike[str], kind: TestKind, field: str = "upos", normalize: Normalize = "nfc"
) -> list[Test]:
    """The tests of a file, plain or gzip; words are cleaned (see `clean`).

    Args:
        kind: "similarity": two words and a number a line, between tabs, or commas in a file called .csv; a first line
            without a number names the columns; the number is that of the first column behind the words which has one
            in the first line of data. "analogies": four words a line, `: name` begins a section, as in
            questions-words.txt. "labels": a word, a tab and its label a line, or CoNLL-U.
        field: the label in CoNLL-U: upos, xpos or the name of a feature, such as Number; words may have several.

    Raises: DataError: `file:line: ...`, what is wrong there; no tests at all.
    """
    name = os.fspath(path)
    if kind == "labels" and ending_of(name) == ".conllu":
        tests: list[Test] = list(_conllu_labels(name, field, normalize))
    elif kind == "labels":
        tests = list(_labels(name, normalize))
    elif kind == "analogies":
        tests = list(_questions(name, normalize))
    else:
        tests = list(_pairs(name, normalize))
    if not tests:
        what = {"similarity": "pairs of words", "analogies": "questions"}.get(kind, f"words with a {field}")
        raise DataError(f"{name}: no {what} in it")
    return tests


def _pairs(name: str, normalize: Normalize) -> Iterator[WordPair]:
    mark, what = (",", "commas") if named_format(name) == "csv" else ("\t", "tabs")
    column = width = 0
    for number, text in _filled(name):
        cells = [cell.strip() for cell in text.split(mark)]
        place = f"{name}:{number}"
        if len(cells) < 3:
            raise DataError(f"{place}: {len(cells)} columns; a pair is two words and a number between {what}")
        column = column or next((at for at in range(2, len(cells)) if _NUMBER.fullmatch(cells[at])), 0)
        if not column and width:
            raise DataError(f"{place}: no number behind the two words; write one, such as 7.35")
        width = width or len(cells)
        if not column:
            continue
        if len(cells) != width:
            raise DataError(f"{place}: {len(cells)} columns, the first line has {width}")
        if not _NUMBER.fullmatch(cells[column]):
            raise DataError(f"{place}: {cells[column][:20]!r} is no number; write it with digits and a point, as 7.35")
        first, second = (_word(cell, place, normalize) for cell in cells[:2])
        yield WordPair(first, second, float(cells[column]), number)


def _questions(name: str, normalize: Normalize) -> Iterator[Question]:
    section = ""
    for number, text in _filled(name):
        place = f"{name}:{number}"
        if text.startswith(":"):
            section = text[1:].strip()
            continue
        words = text.split()
        if len(words) != 4:
            raise DataError(f"{place}: {len(words)} words; a question has four, such as: Athens Greece Oslo Norway")
        a, b, c, d = (_word(word, place, normalize) for word in words)
        yield Question(a, b, c, d, section, number)


def _labels(name: str, normalize: Normalize) -> Iterator[WordLabel]:
    labels: dict[str, tuple[str, int]] = {}
    for number, text in _filled(name):
        place = f"{name}:{number}"
        cells = [cell.strip() for cell in text.split("\t")]
        if len(cells) != 2:
            raise DataError(f"{place}: {len(cells)} columns; write a word, a tab and its label")
        word, label = _word(cells[0], place, normalize), cells[1]
        if not label:
            raise DataError(f"{place}: the label of '{word[:20]}' is empty; write one or remove the line")
        before = labels.setdefault(word, (label, number))
        if before[0] != label:
            what = f"'{word[:20]}' is {label[:20]} here and {before[0][:20]} in line {before[1]}"
            raise DataError(f"{place}: {what}; give each word one label")
        if before[1] == number:
            yield WordLabel(word, label, number)


def _conllu_labels(name: str, field: str, normalize: Normalize) -> Iterator[WordLabel]:
    column = field if field in _COLUMNS else "feats"
    config = TaggedConfig(train=name, format="conllu", column=column)
    counts: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], int] = {}
    for sentence in strict(scan_tagged(Path(name), config, normalize)):
        for word, tag in zip(sentence.words, sentence.tags or (), strict=True):
            label = tag if column != "feats" else _feature(tag, field)
            if label:
                counts[word, label] += 1
                first.setdefault((word, label), sentence.line)
    for (word, label), count in counts.items():
        yield WordLabel(word, label, first[word, label], count)


def _feature(feats: str, field: str) -> str:
    """The value of a feature, such as Plur of Number in `Case=Nom|Number=Plur`; empty where there is none."""
    values = dict(part.partition("=")[::2] for part in feats.split("|") if part != _NOTHING)
    return values.get(field, "")


def _word(text: str, place: str, normalize: Normalize) -> str:
    try:
        word = clean(text, normalize)
    except DataError as error:
        raise DataError(f"{place}: {error}") from None
    if not word or " " in word:
        raise DataError(f"{place}: {text[:20]!r} is not one word")
    return word


def _filled(name: str) -> Iterator[tuple[int, str]]:
    return ((number, text) for number, text in read_lines(name) if text and not text.isspace())


# share of the words that the probe is scored on, in parts
_FOLDS = 5
_FEWEST = 20
_DECAY = 1e-3
_TOP = 10
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Probed:
    """How well labels can be read off vectors; shares from 0 to 1, all of words that the probe has not seen.

    Args:
        accuracy: of the probe.
        majority: of the most frequent label.
        control: of a probe that learned labels which were handed to the words at random.
        top: of a probe that sees only the `_TOP` dimensions which tell most about the label.
        dimensions: numbers of these from the most telling one, each with the share of its variance between labels.
        labels: how many there are.
        words: how many the probe learned from, and how many it was scored on.
        right: of each word that it was scored on, whether its label was.
    """

    accuracy: float
    majority: float
    control: float
    top: float
    dimensions: tuple[tuple[int, float], ...]
    labels: int
    words: tuple[int, int]
    right: tuple[int, ...]

    def scores(self) -> dict[str, float | str]:
        """The numbers by name, and the dimensions as text."""
        named = ", ".join(f"{place} ({share:.2f})" for place, share in self.dimensions[:_NAMED])
        return {
            "probe_accuracy": self.accuracy,
            "baseline": self.majority,
            "control_accuracy": self.control,
            "selectivity": self.accuracy - self.control,
            f"top_{len(self.dimensions)}_accuracy": self.top,
            "labels": float(self.labels),
            "probe_train": float(self.words[0]),
            "probe_test": float(self.words[1]),
            "dimensions": f"{named} (share of the variance that lies between labels)",
        }


def probe(vectors: Float[Tensor, "words dim"], labels: Sequence[str], seed: int = 0) -> Probed:
    """Learns labels from four fifths of the words, chosen by the seed, and scores itself on the others.

    Logistic regression on standardised vectors, with a little weight decay. Dimensions are ranked on the words learned
    from. The axes of a vector are those that training happened to choose: what one of them carries is told as it is,
    not as the best direction.

    Source: Alain and Bengio 2016, arXiv 1610.01644; the control: Hewitt and Liang 2019, arXiv 1909.03368.

    Raises: DataError for fewer than 20 words, or where the words learned from have one label only.
    """
    if len(labels) < _FEWEST:
        raise DataError(
            f"{len(labels)} words with a vector and a label are too few for a probe; give {_FEWEST} or more"
        )
    names = np.array(labels)
    order = permutation(len(labels), seed, 0)
    held_out, train_rows = order[: len(labels) // _FOLDS], order[len(labels) // _FOLDS :]
    counts = Counter(names[train_rows].tolist())
    if len(counts) < 2:
        raise DataError("all words that the probe would learn from have one label; give words with several")
    values = vectors.detach().cpu().double().numpy()
    train, test = standardised(values[train_rows], values[held_out])

    def right(labels: np.ndarray, columns: Any = slice(None)) -> np.ndarray:
        # the penalty of a mean over the words, as the inverse of one over their sum
        strength = 1 / (2 * _DECAY * len(train_rows))
        predictions = logistic_regression(train[:, columns], labels[train_rows].tolist(), test[:, columns], strength)
        return labels[held_out] == predictions

    between = _between(train, names[train_rows])
    best = np.argsort(-between, kind="stable")[:_TOP]
    most = min(counts, key=lambda label: (-counts[label], label))
    hits = right(names)
    return Probed(
        float(np.mean(hits)),
        float(np.mean(names[held_out] == most)),
        float(np.mean(right(names[permutation(len(labels), seed, 1)]))),
        float(np.mean(right(names, best))),
        tuple((int(place), float(between[place])) for place in best),
        len(set(labels)),
        (len(train_rows), len(held_out)),
        tuple(hits.astype(int).tolist()),
    )


def _between(values: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The share of the variance of each column that lies between labels (eta squared); the mean of a column is 0."""
    groups = [values[labels == label] for label in np.unique(labels)]
    between = sum(len(group) * group.mean(0) ** 2 for group in groups)
    return np.asarray(between / np.square(values).sum(0).clip(min=math.ulp(1.0)))
