"""Spans of words in tags such as B-PER: the schemes, what is a span and which tags may follow which, spans to tags."""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool

from headwise.errors import DataError

Scheme = Literal["none", "iob1", "iob2", "iobes", "bilou"]
_Prefixed = tuple[str, str]

OUTSIDE = "O"
# the letters of BILOU by those of IOBES
_SAME = {"L": "E", "U": "S"}
_LETTERS = {"iob1": "BIO", "iob2": "BIO", "iobes": "BIESO", "bilou": "BILUO"}


class Span(NamedTuple):
    """Words of one kind that belong together: from `start` to before `end`, counted from 0."""

    label: str
    start: int
    end: int


class _Rules(NamedTuple):
    """Pairs of neighbours, the letters of both and how their labels compare: = equal, ! different, * any; ? any letter.

    Args:
        start: here the second begins a span.
        inside: here the second continues the span of the first.
        end: here a span ends with the first.
    """

    start: tuple[str, ...]
    inside: tuple[str, ...]
    end: tuple[str, ...]


_IOBES = _Rules(("?B*", "?S*"), ("BI=", "BE=", "II=", "IE="), ("S?*", "E?*"))
_RULES = {
    "iob1": _Rules(("OI*", "II!", "BI*", "IB=", "BB="), ("BI=", "II="), ("II!", "IO*", "IB*", "BO*", "BI!", "BB=")),
    "iob2": _Rules(("?B*",), ("BI=", "II="), ("IO*", "II!", "IB*", "BO*", "BI!", "BB*")),
    "iobes": _IOBES,
    "bilou": _IOBES,
}


def spans(tags: Sequence[str]) -> list[Span]:
    """The spans of a sentence by the rules of the CoNLL evaluation, which make something of every sequence.

    A span ends where its label changes, before B, S and O, and after E and S; whatever else has a label begins one.
    So `I-X` after O begins a span. L is read as E and U as S. A tag without a letter of a scheme counts as O.

    These are the entities of seqeval's default mode, except that seqeval knows no L and U there.

    Source: Tjong Kim Sang and De Meulder 2003, the script conlleval; Nakayama 2018, seqeval.

    >>> spans(["I-PER", "I-PER", "O", "B-LOC", "B-LOC"])
    [Span(label='PER', start=0, end=2), Span(label='LOC', start=3, end=4), Span(label='LOC', start=4, end=5)]
    """
    entities, start, before = [], 0, (OUTSIDE, "")
    for place, here in enumerate([*map(_parted, tags), (OUTSIDE, "")]):
        changed = before[1] != here[1]
        if before[0] != OUTSIDE and (before[0] in "ES" or here[0] in "BSO" or changed):
            entities.append(Span(before[1], start, place))
        if here[0] != OUTSIDE and (here[0] in "BS" or before[0] in "ESO" or changed):
            start = place
        before = here
    return entities


def strict_spans(tags: Sequence[str], scheme: Scheme) -> list[Span]:
    """The spans that are written as the scheme demands; what is not is no span.

    These are the entities of seqeval's strict mode, with the scheme of the same name. A tag with a letter that the
    scheme lacks counts as O; seqeval refuses it.

    >>> strict_spans(["I-PER", "O", "B-LOC", "I-LOC", "I-PER"], "iob2")
    [Span(label='LOC', start=2, end=4)]
    """
    outside = (OUTSIDE, "")
    read = [tag if tag[0] in "BIESO" else outside for tag in map(_parted, tags)]
    if scheme in ("iob1", "iob2"):
        read = [tag if tag[0] in "BIO" else outside for tag in read]
    read.append(outside)
    rules, entities = _RULES[scheme], []
    before, start = outside, 0
    while start < len(read):
        end = start + 1
        if _fits(rules.start, before, read[start]):
            while end < len(read) and _fits(rules.inside, read[end - 1], read[end]):
                end += 1
            if end < len(read) and _fits(rules.end, read[end - 1], read[end]):
                entities.append(Span(read[start][1], start, end))
        before, start = read[end - 1], end
    return entities


def legal(
    tags: Sequence[str], scheme: Scheme
) -> tuple[Bool[np.ndarray, "tags"], Bool[np.ndarray, "tags tags"], Bool[np.ndarray, "tags"]]:
    """Which tags may stand first, which may follow which (rows before columns), which may stand last.

    A sequence made so has the same spans by `spans` and by `strict_spans`. Tags of no scheme are like O.

    >>> first, between, last = legal(["O", "B-X", "I-X"], "iob2")
    >>> first.tolist(), between[0].tolist(), last.tolist()
    ([True, True, False], [True, True, False], [True, True, True])
    """
    read, outside = [_parted(tag) for tag in tags], (OUTSIDE, "")
    first = np.array([_follows(scheme, outside, tag) for tag in read])
    between = np.array([[_follows(scheme, previous, other) for other in read] for previous in read])
    last = np.array([_follows(scheme, tag, outside) for tag in read])
    return first, between, last


def recognised(sentences: Iterable[Sequence[str]]) -> Scheme:
    """The scheme of tags: by their letters; of those with B, I and O the one that fewer sentences break, else IOB2.

    "none" where other tags occur than O and a letter with a label, or where O alone does.

    >>> recognised([["O", "B-X", "I-X"], ["B-X"]]), recognised([["I-X", "B-X", "O"]]), recognised([["NOUN"]])
    ('iob2', 'iob1', 'none')
    """
    counts = Counter(map(tuple, sentences))
    parsed = {tag: _parted(tag, "?") for tag in {tag for sentence in counts for tag in sentence}}
    letters = {tag[0] for tag in parsed if tag != OUTSIDE}
    if "?" in {read[0] for read in parsed.values()} or not letters & set("BISU"):
        return "none"
    if letters <= set("BI"):
        broken = {scheme: _broken(counts, scheme) for scheme in ("iob2", "iob1")}
        return "iob1" if broken["iob1"] < broken["iob2"] else "iob2"
    return "iobes" if letters <= set("BIES") else "bilou" if letters <= set("BILU") else "none"


def illegal_sentences(sentences: Iterable[Sequence[str]], scheme: Scheme) -> int:
    return 0 if scheme == "none" else _broken(Counter(map(tuple, sentences)), scheme)


def tags_of(entities: Iterable[Span], count: int) -> list[str]:
    """The tags of so many words in IOB2.

    Raises: DataError: a span that is empty, reaches beyond the words or overlaps another, without its place.

    >>> tags_of([Span("PER", 1, 3)], 4)
    ['O', 'B-PER', 'I-PER', 'O']
    """
    tags = [OUTSIDE] * count
    for label, start, end in entities:
        if not 0 <= start < end <= count:
            raise DataError(f"the span {start} to {end} is not among the {count} words; a span begins before it ends")
        if occupied := [place for place in range(start, end) if tags[place] != OUTSIDE]:
            raise DataError(f"two spans have word {occupied[0]}, counted from 0; a word can be in one span only")
        tags[start:end] = [f"B-{label}", *[f"I-{label}"] * (end - start - 1)]
    return tags


def _parted(tag: str, other: str = OUTSIDE) -> _Prefixed:
    """The letter as in IOBES, and the label; `other` for a letter where the tag is of no scheme."""
    letter, mark, label = tag.partition("-")
    if tag == OUTSIDE or letter not in tuple("BIESLU") or (mark and not label):
        return (OUTSIDE if tag == OUTSIDE else other, "")
    return _SAME.get(letter, letter), label or "_"


def _fits(rules: tuple[str, ...], before: _Prefixed, here: _Prefixed) -> bool:
    relations = {"*", "=" if before[1] == here[1] else "!"}
    return any(rule[0] in ("?", before[0]) and rule[1] in ("?", here[0]) and rule[2] in relations for rule in rules)


def _follows(scheme: Scheme, before: _Prefixed, here: _Prefixed) -> bool:
    alike = before[1] == here[1]
    if scheme == "iob1":
        return here[0] != "B" or alike
    if scheme == "iob2":
        return here[0] != "I" or alike
    # within a span a word that continues or ends it, elsewhere one that does not
    return alike and here[0] in "IE" if before[0] in "BI" else here[0] not in "IE"


def _broken(counts: Counter[tuple[str, ...]], scheme: Scheme) -> int:
    total = 0
    for sentence, times in counts.items():
        read = [(OUTSIDE, ""), *map(_parted, sentence), (OUTSIDE, "")]
        total += times * (not all(_follows(scheme, *pair) for pair in itertools.pairwise(read)))
    return total
