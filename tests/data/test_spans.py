"""Spans in tags: seqeval's answers for fixed sequences, schemes told apart, and what may follow what."""

import itertools
import random

import pytest

from headwise.data.spans import illegal_sentences, legal, recognised, spans, strict_spans, tags_of

# what seqeval 1.2.2 finds: get_entities, then Tokens of the scheme; ends left out
SEQEVAL = [
    ("iob1", "B-X I-X", "X:0-2", "X:1-2"),
    ("iob1", "I-X B-X B-Y I-Y", "X:0-1 X:1-2 Y:2-4", "X:0-1 Y:3-4"),
    ("iob1", "I-X I-Y B-Y O", "X:0-1 Y:1-2 Y:2-3", "X:0-1 Y:1-2 Y:2-3"),
    ("iob1", "O B-X", "X:1-2", ""),
    ("iob1", "O I-X I-X O B-X B-Y", "X:1-3 X:4-5 Y:5-6", "X:1-3"),
    ("iob1", "B-Y O B-X B-X I-Y B-Y B-X", "Y:0-1 X:2-3 X:3-4 Y:4-5 Y:5-6 X:6-7", "X:3-4 Y:4-5"),
    ("iob1", "O O I-X B-X B-X", "X:2-3 X:3-4 X:4-5", "X:2-3 X:3-4 X:4-5"),
    ("iob1", "B-X I-Y B-X B-X I-Y", "X:0-1 Y:1-2 X:2-3 X:3-4 Y:4-5", "Y:1-2 X:3-4 Y:4-5"),
    ("iob2", "I-X I-X O B-X I-Y", "X:0-2 X:3-4 Y:4-5", "X:3-4"),
    ("iob2", "B-X B-X I-X", "X:0-1 X:1-3", "X:0-1 X:1-3"),
    ("iob2", "I-Y B-X I-X I-Y", "Y:0-1 X:1-3 Y:3-4", "X:1-3"),
    ("iob2", "O O O I-X", "X:3-4", ""),
    ("iob2", "I-Y I-Y B-Y I-X B-Y B-Y", "Y:0-2 Y:2-3 X:3-4 Y:4-5 Y:5-6", "Y:2-3 Y:4-5 Y:5-6"),
    ("iob2", "B-Y I-Y O B-Y B-X O B-X", "Y:0-2 Y:3-4 X:4-5 X:6-7", "Y:0-2 Y:3-4 X:4-5 X:6-7"),
    ("iobes", "B-X O E-X", "X:0-1 X:2-3", ""),
    ("iobes", "S-X I-X E-X", "X:0-1 X:1-3", "X:0-1"),
    ("iobes", "B-X E-X E-X", "X:0-2 X:2-3", "X:0-2"),
    ("iobes", "E-Y I-Y", "Y:0-1 Y:1-2", ""),
    ("iobes", "S-Y O E-Y S-X O", "Y:0-1 Y:2-3 X:3-4", "Y:0-1 X:3-4"),
    ("iobes", "E-X S-X I-Y O O E-X", "X:0-1 X:1-2 Y:2-3 X:5-6", "X:1-2"),
    ("iobes", "E-X E-Y E-X B-X E-Y I-X", "X:0-1 Y:1-2 X:2-3 X:3-4 Y:4-5 X:5-6", ""),
    ("iobes", "O O S-X I-Y", "X:2-3 Y:3-4", "X:2-3"),
    ("bilou", "B-X L-X U-X", "", "X:0-2 X:2-3"),
    ("bilou", "B-X I-X", "", ""),
    ("bilou", "L-X B-Y L-Y", "", "Y:1-3"),
    ("bilou", "U-Y I-X B-Y L-X I-X U-X", "", "Y:0-1 X:5-6"),
    ("bilou", "U-Y I-X U-Y I-Y O", "", "Y:0-1 Y:2-3"),
    ("bilou", "O U-Y L-Y L-Y U-Y", "", "Y:1-2 Y:4-5"),
    ("bilou", "B-Y O I-Y L-X B-Y", "", ""),
]  # fmt: skip

LETTERS = {"iob1": "BIO", "iob2": "BIO", "iobes": "BIESO", "bilou": "BILUO"}


@pytest.mark.parametrize(("scheme", "tags", "lenient", "strict"), SEQEVAL)
def test_spans_are_those_of_seqeval(scheme, tags, lenient, strict):
    if scheme != "bilou":
        assert " ".join(f"{label}:{start}-{end}" for label, start, end in spans(tags.split())) == lenient
    assert " ".join(f"{label}:{start}-{end}" for label, start, end in strict_spans(tags.split(), scheme)) == strict


def test_the_letters_of_bilou_are_read():
    assert spans(["B-X", "L-X", "U-X", "U-Y", "B-Y", "I-Y", "L-Y"]) == spans(
        ["B-X", "E-X", "S-X", "S-Y", "B-Y", "I-Y", "E-Y"]
    )


@pytest.mark.parametrize("scheme", LETTERS)
def test_legal_sequences_have_the_same_spans_by_both_rules(scheme):
    names = ["O", *(f"{letter}-{label}" for letter in LETTERS[scheme].replace("O", "") for label in "XY")]
    first, between, last = legal(names, scheme)
    rng, good = random.Random(3), 0
    for _ in range(600):
        places = rng.choices(range(len(names)), k=rng.randint(1, 4))
        tags = [names[place] for place in places]
        allowed = bool(first[places[0]] and last[places[-1]])
        allowed = allowed and all(between[one, other] for one, other in itertools.pairwise(places))
        assert illegal_sentences([tags, tags], scheme) == (0 if allowed else 2)
        if allowed:
            good += 1
            assert spans(tags) == strict_spans(tags, scheme)
    assert 10 < good < 550


@pytest.mark.parametrize(
    ("sentences", "scheme"),
    [
        (["O B-X I-X", "B-Y"], "iob2"),
        (["I-X I-X O", "I-X B-X"], "iob1"),
        (["O B-X", "B-X O"], "iob2"),
        (["B-X E-X O"], "iobes"),
        (["S-X"], "iobes"),
        (["O U-X B-Y L-Y"], "bilou"),
        (["B I O O"], "iob2"),
        (["O O"], "none"),
        (["DET NOUN"], "none"),
        (["I-X PRON"], "none"),
        (["E-X I-X"], "iobes"),
        (["L-X E-X B-X"], "none"),
        (["B- O"], "none"),
        ([""], "none"),
        ([], "none"),
    ],
)
def test_the_scheme_is_recognised(sentences, scheme):
    assert recognised([sentence.split() for sentence in sentences]) == scheme


def test_spans_as_tags_are_the_same_spans():
    found = spans(["B-X", "I-X", "O", "B-Y", "B-Y"])
    assert tags_of(found, 5) == ["B-X", "I-X", "O", "B-Y", "B-Y"]
    assert tags_of([], 0) == []
