"""Measures of claims that look into models, on models whose answer is known."""

import numpy as np
import pytest

from headwise.compare.bench import by_group
from headwise.compare.claims.sharpness import first_weight, weight_of_largest
from headwise.compare.verdicts import Interval, below, beyond
from headwise.errors import ConfigError
from headwise.explain.explanation import Explanation, Layer
from headwise.predictors.predictor import Predictor


class Looking(Predictor):
    """Looks as it is told: a function from words to weights (1, queries, keys)."""

    def __init__(self, weights, kind):
        self.weights, self.kind = weights, kind

    def predict(self, items, options=None):
        return []

    def explain(self, text, target=None):
        words = text.split()
        weights = np.asarray(self.weights(words), dtype=float)
        queries = ["answer"] if self.kind == "pooled" else words
        return Explanation(text, "", {"layer": Layer(weights, queries, words, self.kind)})

    def scores_of(self, examples, options=None):
        return {"accuracy": float(np.mean(examples))}


def test_the_weight_of_the_largest_is_that_of_its_place():
    sharp = Looking(lambda words: [[[float(word == max(words)) for word in words]]], "pooled")
    uniform = Looking(lambda words: np.full((1, 1, len(words)), 1 / len(words)), "pooled")
    texts = ["02a 31b 12a", "40c 41d 07a 39b"]
    assert weight_of_largest(sharp, texts) == 1.0
    assert weight_of_largest(uniform, texts) == pytest.approx((1 / 3 + 1 / 4) / 2)


def test_a_fair_share_of_the_first_place_is_1_and_a_sink_is_as_large_as_the_place():
    text = " ".join(["^", *"abcdefghi"])
    uniform = Looking(lambda words: np.tril(np.ones((len(words),) * 2))[None] / np.arange(1, 11)[None, :, None], "self")
    sink = Looking(lambda words: np.eye(1, len(words))[None].repeat(len(words), 1), "self")
    assert first_weight(uniform, [text], "") == pytest.approx(1.0)
    # places 8 and 9, of which the last is left out as one that copies
    assert first_weight(sink, [text], "") == pytest.approx((9 + 10) / 2)
    assert first_weight(sink, [text], "i") == pytest.approx(9)


@pytest.mark.parametrize("count", [10, 37])
def test_groups_are_a_tenth_each_and_all_together(count):
    groups = by_group(Looking(None, "self"), list(range(count)), "accuracy")
    assert len(groups) == 10
    assert groups == sorted(groups)
    assert groups[0] < count / 10


def test_an_interval_over_seeds_and_examples_is_wider_than_either():
    random = np.random.default_rng(0)
    table = random.normal(size=(6, 1)) + random.normal(size=(1, 50)) + random.normal(size=(6, 50))
    both, seeds = Interval.across(table.tolist()), Interval.of(table.mean(1).tolist())
    assert both.value == pytest.approx(seeds.value)
    assert both.high - both.low > seeds.high - seeds.low
    for small in (table[:1], table[:, :1]):
        with pytest.raises(ConfigError, match="two or more"):
            Interval.across(small.tolist())


@pytest.mark.parametrize(
    ("low", "high", "holds", "refuted", "outcome"),
    [
        (0.1, 0.4, 0.5, 0.7, "holds"),
        (0.4, 0.6, 0.5, 0.7, "undecided"),
        (0.75, 0.8, 0.5, 0.7, "refuted"),
        (0.6, 0.9, 0.5, 0.2, "holds"),
        (0.3, 0.6, 0.5, 0.2, "undecided"),
        (0.0, 0.1, 0.5, 0.2, "refuted"),
    ],
)
def test_a_value_that_passes_one_bound_or_falls_short_of_another(low, high, holds, refuted, outcome):
    assert beyond("here", Interval((low + high) / 2, low, high), holds, refuted).outcome == outcome


@pytest.mark.parametrize(("low", "high", "outcome"), [(0, 0.5, "holds"), (0.5, 2, "undecided"), (2, 3, "refuted")])
def test_a_value_below_a_bound(low, high, outcome):
    assert below("here", Interval(1.0, float(low), float(high)), 1.0).outcome == outcome
