"""Long drawn problems against answers that are found in another way: a stack, a dictionary, a search."""

import itertools
from statistics import multimode

import numpy as np
import pytest

from headwise.data.long_range import LISTOPS, MQAR, NEEDLE, REPEAT
from headwise.data.synthetic import Drawing, Sizes, make, stream
from headwise.errors import ConfigError

TAGGED = {"mqar": MQAR, "repeat": REPEAT, "needle": NEEDLE}


def rows(name, problem, sizes, part="train", count=200):
    return list(itertools.islice(stream(name, 3, part, sizes, problem), count))


def read(path):
    """Rows of a file with a symbol and its tag a line."""
    blocks = path.read_text().strip("\n").split("\n\n")
    return [tuple(zip(*(line.split("\t") for line in block.split("\n")), strict=True)) for block in blocks]


def evaluate(text):
    """The value of a nested list and its depth, with a stack; every list must have two or more arguments."""
    stack, depth, deepest = [[]], 0, 0
    for token in text.split(" "):
        if token.startswith("["):
            stack.append([token])
            depth += 1
            deepest = max(deepest, depth)
        elif token == "]":
            operator, *values = stack.pop()
            depth -= 1
            assert len(values) > 1
            ordered = sorted(values)
            middle = (ordered[(len(values) - 1) // 2] + ordered[len(values) // 2]) // 2
            result = {"[MIN": ordered[0], "[MAX": ordered[-1], "[MED": middle, "[SM": sum(values) % 10}[operator]
            stack[-1].append(result)
        else:
            stack[-1].append(int(token))
    ((value,),) = stack
    return value, deepest


@pytest.mark.parametrize(("depth", "shortest", "longest"), [(1, 4, 4), (1, 20, 30), (3, 5, 40), (4, 100, 130)])
def test_lists_come_to_their_labels(depth, shortest, longest):
    drawn = rows("listops", LISTOPS, Sizes(shortest=shortest, longest=longest, amount=depth))
    deepest = 0
    for text, label in drawn:
        value, deep = evaluate(text)
        assert str(value) == label
        deepest = max(deepest, deep)
        assert shortest <= len(text.split()) <= longest
    assert deepest == depth
    assert {len(text.split()) for text, _ in drawn} >= {shortest, longest} or longest - shortest > 25
    assert len({label for _, label in drawn}) > (3 if longest == 4 else 7)


def test_keys_have_the_letters_that_stood_after_them():
    for text, tags in rows("mqar", MQAR, Sizes(shortest=2, longest=9, symbols=5)):
        words, answers = text.split(), tags.split()
        pairs = answers.count("-") // 2
        table = dict(zip(words[: 2 * pairs : 2], words[1 : 2 * pairs : 2], strict=True))
        assert len(table) == pairs
        assert sorted(words[2 * pairs :]) == sorted(table)
        assert answers[2 * pairs :] == [table[key] for key in words[2 * pairs :]]


@pytest.mark.parametrize(("shortest", "longest", "symbols"), [(4, 4, 2), (10, 60, 12), (30, 48, 26)])
def test_what_is_repeated_is_what_came_after_it_before(shortest, longest, symbols):
    periods = set()
    for text, tags in rows("repeat", REPEAT, Sizes(shortest=shortest, longest=longest, symbols=symbols)):
        words, answers = text.split(), tags.split()
        assert len(words) == len(answers)
        period = answers.count("-")
        periods.add(period)
        for place, answer in enumerate(answers):
            before = [at for at in range(place) if words[at] == words[place]]
            # the first time nothing is known
            assert (answer == "-") == (not before)
            if before:
                assert answer == words[before[-1] + 1]
    assert len(periods) > 1 or longest == 4


def test_a_needle_is_the_digit_after_the_key_at_the_end():
    several = 0
    for text, tags in rows("needle", NEEDLE, Sizes(shortest=4, longest=50)):
        words, answers = text.split(), tags.split()
        (place,) = (at for at, word in enumerate(words[:-1]) if word == words[-1])
        assert answers == ["-"] * (len(words) - 1) + [words[place + 1]]
        assert words[place + 1].isdigit()
        several += sum(word.startswith("k") and len(word) > 1 for word in words) > 2
    assert several > 20


def test_golden_examples():
    """They may not change: records of claims rest on them."""
    problems = {"listops": LISTOPS, **TAGGED}
    drawn = [next(stream(name, 1, "test", Sizes(symbols=5, longest=9), problem)) for name, problem in problems.items()]
    assert drawn == GOLDEN


GOLDEN = [
    ("[MIN [SM 0 8 ] 2 8 9 ]", "2"),
    (
        "k65 b k60 c k120 a k126 c k18 b k103 c k58 d k13 e k67 c k58 k65 k67 k126 k103 k120 k13 k18 k60",
        "- - - - - - - - - - - - - - - - - - d b c c c a e b c",
    ),
    ("c e c e c e", "- - e c e c"),
    ("e 4 k21 8 a k21", "- - - - - 8"),
]


@pytest.mark.parametrize("name", TAGGED)
def test_files_of_tagged_problems(tmp_path, name):
    sizes = Sizes(count=40, longest=8, times=(1, 3))
    files = make(name, tmp_path, 1, sizes, TAGGED[name])
    assert [path.stem for path in files] == ["train", "valid", "test", "longer", "times-1", "times-3"]
    texts = {}
    for path, count in files.items():
        examples = read(path)
        assert len(examples) == count
        texts[path.stem] = {" ".join(words) for words, _ in examples}
    assert not texts["train"] & texts["times-1"]


def test_lengths_are_times_the_longest(tmp_path):
    make("copy", tmp_path, 1, Sizes(count=30, longest=5, times=(1, 2, 8)))
    for times in (1, 2, 8):
        lines = (tmp_path / f"times-{times}.tsv").read_text().splitlines()
        assert {len(line.split("\t")[0].split()) for line in lines} == {5 * times}


def test_an_answer_in_one_sequence_is_what_follows(tmp_path):
    Drawing("reverse")(tmp_path, 1, 30, longest=6, tagged=True)
    for words, tags in read(tmp_path / "train.tsv"):
        middle = words.index("=")
        assert words[middle + 1 :] == words[:middle][::-1]
        assert set(tags[:middle]) == {"-"}
        assert tags[middle:] == (*words[middle + 1 :], ".")


def test_no_place_of_a_needle_is_the_usual_one():
    places = []
    for text, _ in rows("needle", NEEDLE, Sizes(shortest=40, longest=40), count=500):
        words = text.split()
        places.append(words.index(words[-1]))
    assert len(multimode(places)) < 5
    assert np.ptp(places) > 30


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("listops", {"amount": 0}, r"amount \(0\) must be 1 or more for 'listops'"),
        ("listops", {"shortest": 3}, r"shortest \(3\) must be 4 or more for 'listops'"),
        ("listops", {"tagged": True}, "has one label"),
        ("copy", {"amount": 2}, "'copy' has no amount"),
        ("copy", {"lengths": (0, 1)}, r"lengths \(0,1\) must be different numbers, 1 or more"),
        ("copy", {"lengths": (2, 2)}, r"lengths \(2,2\) must be different"),
    ],
)
def test_sizes_that_cannot_be(tmp_path, name, options, message):
    with pytest.raises(ConfigError, match=message):
        Drawing(name, LISTOPS if name == "listops" else None)(tmp_path / "made", 1, 10, **options)
    assert not (tmp_path / "made").exists()
