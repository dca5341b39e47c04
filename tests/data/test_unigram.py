"""The Unigram trainer: sizes, likelihood, and independence of any order."""

import math
import random

import pytest

from headwise.data.unigram import train_unigram

WORDS = {"▁low": 7, "▁lower": 5, "▁lowest": 3, "▁new": 11, "▁newer": 5, "▁newest": 2, "▁wide": 3, "▁wider": 3}


def likelihood(pieces, words):
    """The log probability of the words' best segmentations, by trying every one."""
    scores = dict(pieces)

    def best(word):
        if not word:
            return 0.0
        ways = [scores[word[:k]] + best(word[k:]) for k in range(1, len(word) + 1) if word[:k] in scores]
        return max(ways, default=-math.inf)

    return sum(count * best(word) for word, count in words.items())


@pytest.mark.parametrize("size", [12, 13, 17, 23])
def test_size_and_probabilities(size):
    pieces = train_unigram(WORDS, size)
    assert len(pieces) <= size
    assert len({piece for piece, _ in pieces}) == len(pieces)
    assert sum(math.exp(score) for _, score in pieces) == pytest.approx(1.0)
    assert {letter for word in WORDS for letter in word} <= {piece for piece, _ in pieces}


def test_more_pieces_are_more_likely():
    values = [likelihood(train_unigram(WORDS, size), WORDS) for size in (12, 15, 19)]
    assert values == sorted(values)


def test_frequent_words_become_pieces():
    pieces = [piece for piece, _ in train_unigram(WORDS, 19)]
    assert "▁low" in pieces
    assert "▁new" in pieces


def test_order_of_the_words_does_not_matter():
    items = list(WORDS.items())
    expected = train_unigram(WORDS, 17)
    for seed in range(5):
        random.Random(seed).shuffle(items)
        assert train_unigram(dict(items), 17) == expected


def test_too_many_characters_keep_the_frequent_ones():
    assert [piece for piece, _ in train_unigram({"aaa": 5, "bb": 3, "c": 1}, 2)] == ["a", "b"]


def test_words_of_one_character():
    assert train_unigram({"a": 1}, 5) == [("a", 0.0)]
