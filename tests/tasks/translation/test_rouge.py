"""ROUGE equals what the package rouge-score 0.1.2 says, its stemmer off."""

import itertools
import random

import pytest

from headwise.config import build
from headwise.errors import ConfigError
from headwise.tasks.translation.rouge import RougeConfig, common, rouge_counts, rouge_of

# output, reference, F-measures of rouge1, rouge2 and rougeL by rouge-score
TABLE = [
    ("the cat sat on the mat", "the cat was on a mat", [0.666667, 0.2, 0.666667]),
    ("The Dog's mat, the big-dog", "a dog 's mat . The big dog", [0.857143, 0.833333, 0.857143]),
    ("", "a cat", [0.0, 0.0, 0.0]),
    ("police killed the gunman", "the gunman police killed", [1.0, 0.666667, 0.5]),
    ("b b b a a", "a b a b a b c", [0.833333, 0.2, 0.5]),
    ("été 42", "l'ete 42 : Été", [0.666667, 0.0, 0.333333]),
]


@pytest.mark.parametrize(("output", "reference", "wanted"), TABLE)
def test_scores_are_those_of_rouge_score(output, reference, wanted):
    found = rouge_of(rouge_counts([output], [reference]))
    assert list(found.values()) == pytest.approx([100 * value for value in wanted], abs=1e-4)


def test_counts_add_up_and_the_best_reference_counts():
    one, two = rouge_counts(["a b"], ["a b"]), rouge_counts(["a"], [["b", "a c"]])
    total = {name: one[name] + two[name] for name in one}
    assert rouge_of(total) == rouge_of(rouge_counts(["a b", "a"], ["a b", ["a c", "b"]]))
    assert rouge_of(two)["rouge1"] == pytest.approx(100 * 2 / 3)
    assert all(score != score for score in rouge_of(rouge_counts([], [])).values())


def longest(one, other):
    """The longest common subsequence by its definition."""
    found = {""} | {"".join(part) for size in range(len(one)) for part in itertools.combinations(one, size + 1)}
    return max(len(part) for part in found if is_within(part, other))


def is_within(part, whole):
    rest = iter(whole)
    return all(token in rest for token in part)


def test_the_longest_common_subsequence_is_the_longest():
    draws = random.Random(3)
    for _ in range(60):
        one, other = ("".join(draws.choices("abc", k=draws.randrange(8))) for _ in range(2))
        assert common(one, other) == longest(one, other), (one, other)


@pytest.mark.parametrize(("tokenize", "score"), [("ascii", 0.0), ("words", 50.0), ("char", 40.0)])
def test_texts_of_other_scripts_have_words_or_characters(tokenize, score):
    assert rouge_of(rouge_counts(["猫 坐"], ["猫 好大"], tokenize))["rouge1"] == pytest.approx(score)


def test_an_unknown_tokenizer_is_refused():
    with pytest.raises(ConfigError, match="unknown tokenize '13a'; known: ascii, char, words"):
        build(RougeConfig, {"tokenize": "13a"}, "rouge")
