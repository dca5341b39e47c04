"""Scores by length of the input: every example in one range, equal lengths together."""

import pytest

from headwise.errors import ConfigError, DataError, Unsupported
from headwise.predictors.lengths import SIZES, buckets, by_length, by_place, metric_of, nesting
from headwise.predictors.predictor import Predictor


class Counting(Predictor):
    """Scores texts by their share of words that are "a"."""

    def parse(self, text):
        return text

    def read(self, path):
        return iter(())

    def predict(self, items, options=None):
        return list(items)

    def write(self, item, output, form, options=None):
        return [output]

    def text_of(self, example):
        return example

    def evaluate(self, examples, *, options=None):
        words = " ".join(examples).split()
        return {"share": words.count("a") / len(words), "signature": "of words"}


@pytest.mark.parametrize("number", [1, 2, 3, 7, 50])
@pytest.mark.parametrize("lengths", [[5], [1, 1, 1], [9, 1, 4, 4, 4, 2, 7, 30], list(range(23))])
def test_ranges_hold_every_length_once(lengths, number):
    found = buckets(lengths, number)
    assert 1 <= len(found) <= number
    assert all(sum(length in one for one in found) == 1 for length in lengths)
    assert all(any(length in one for length in lengths) for one in found)
    assert [one.start for one in found[1:]] == [one.stop for one in found[:-1]]
    if len(set(lengths)) == len(lengths) and len(lengths) % number == 0:
        assert {sum(length in one for length in lengths) for one in found} == {len(lengths) // number}


def test_scores_of_each_range():
    texts = ["a", "b", "a a b", "b b b"]
    found = by_length(Counting(), texts, [range(1, 3), range(3, 4), range(4, 9)])
    assert [(one.shortest, one.longest, one.count, one.mean) for one in found] == [(1, 2, 2, 1.0), (3, 3, 2, 3.0)]
    assert [one.scores for one in found] == [{"share": 0.5}, {"share": pytest.approx(1 / 3)}]
    assert (metric_of(found[0].scores, None), metric_of(found[0].scores, "share")) == ("share", "share")


def test_what_cannot_be_ranged():
    with pytest.raises(DataError, match="nothing to score: no examples"):
        buckets([], 3)
    with pytest.raises(ConfigError, match="unknown metric 'shore'; did you mean 'share'"):
        metric_of({"share": 1.0}, "shore")
    with pytest.raises(Unsupported, match="no text, so it has no length in words"):
        Predictor.text_of(Counting(), "a")


def test_scores_by_nesting_are_those_of_the_texts_of_that_depth():
    texts = ["a ( a )", "b ( ( a ) )", "a", "b [ ( b ) ]"]
    found = by_length(Counting(), texts, [range(2), range(2, 3)], SIZES["nesting"][0])
    assert [(bucket.shortest, bucket.longest, bucket.count, bucket.mean) for bucket in found] == [
        (0, 1, 2, 0.5),
        (2, 2, 2, 2.0),
    ]
    assert [bucket.scores["share"] for bucket in found] == [pytest.approx(3 / 5), pytest.approx(1 / 12)]
    assert [nesting(text) for text in ("", "()", ")((", "{[(", "([)]")] == [0, 1, 2, 3, 2]


class Marking(Counting):
    """Right about the words that are "a"."""

    def right(self, examples):
        return [[word == "a" for word in text.split()] for text in examples]


def test_scores_by_place_count_words():
    found = by_place(Marking(), ["a b a", "a a", "b", ""], [range(1, 2), range(2, 4), range(4, 9)])
    assert [(bucket.shortest, bucket.longest, bucket.count) for bucket in found] == [(1, 1, 3), (2, 3, 3)]
    assert [bucket.scores["accuracy"] for bucket in found] == [pytest.approx(2 / 3), pytest.approx(2 / 3)]
    assert found[1].mean == pytest.approx(7 / 3)
    with pytest.raises(Unsupported, match="no answer for each word, so there is no score by place; a tagger does"):
        by_place(Counting(), ["a"], [range(1, 2)])
