"""Scores of rankings against sums over pairs and against scikit-learn's numbers; intervals of differences."""

import numpy as np
import pytest

from headwise.errors import ConfigError
from headwise.metrics import auc, weighted_auc
from headwise.predictors.intervals import Resampled, compare_scores, interval
from headwise.tasks.ranking.ranker import grouped_auc, hit_rate, log_loss

DRAWS = np.random.default_rng(3)
SCORES = DRAWS.integers(0, 7, 40) / 2 - 1.5
LABELS = DRAWS.random(40) < 0.35
WEIGHTS = DRAWS.integers(0, 4, 40).astype(float)
GROUPS = DRAWS.integers(0, 6, 40)


def test_numbers_of_scikit_learn():
    # roc_auc_score, with sample_weight too, and log_loss of scikit-learn on the same draws, half of which are ties
    assert auc(SCORES, LABELS) == pytest.approx(0.39173789173789175, abs=1e-15)
    assert weighted_auc(SCORES, LABELS)(WEIGHTS) == pytest.approx(0.4105731225296443, abs=1e-15)
    assert log_loss(SCORES, LABELS) == pytest.approx(0.8753464534180695, abs=1e-14)
    assert grouped_auc(SCORES, LABELS, GROUPS) == pytest.approx(0.4375, abs=1e-15)


def test_the_area_is_the_share_of_pairs_in_order():
    pairs = [(weight * other, (high > low) + (high == low) / 2)
             for high, yes, weight in zip(SCORES, LABELS, WEIGHTS, strict=True) if yes
             for low, no, other in zip(SCORES, LABELS, WEIGHTS, strict=True) if not no]  # fmt: skip
    expected = sum(weight * order for weight, order in pairs) / sum(weight for weight, _ in pairs)
    assert weighted_auc(SCORES, LABELS)(WEIGHTS) == pytest.approx(expected, abs=1e-15)


def test_one_kind_of_label_has_no_area():
    assert np.isnan(auc(SCORES, LABELS | True))
    assert np.isnan(auc(np.zeros(0), np.zeros(0, bool)))
    assert np.isnan(grouped_auc(np.zeros(2), np.array([True, False]), np.array([0, 1])))
    assert np.isnan(hit_rate(np.zeros((0, 3)), 1))


def test_hits_among_equal_scores_are_by_chance():
    scores = np.array([[1.0, 0.0, 2.0, 3.0], [1.0, 1.0, 1.0, 1.0], [5.0, 0.0, 0.0, 0.0]])
    assert hit_rate(scores, 1) == pytest.approx((0 + 1 / 4 + 1) / 3)
    assert hit_rate(scores, 2) == pytest.approx((0 + 2 / 4 + 1) / 3)
    assert hit_rate(scores, 3) == pytest.approx((1 + 3 / 4 + 1) / 3)


def mean_of(values, asked="same"):
    return Resampled("mean", "numbers", len(values), lambda weights: float(np.average(values, weights=weights)), asked)


def test_an_interval_is_that_of_the_normal_approximation():
    values = np.random.default_rng(0).normal(2.0, 1.0, 400)
    low, high = interval(mean_of(values), rounds=2000)
    assert (low, high) == pytest.approx((values.mean() - 1.96 * 0.05, values.mean() + 1.96 * 0.05), abs=0.02)


def test_a_difference_is_drawn_in_pairs():
    values = np.random.default_rng(0).normal(0.0, 5.0, 50)
    found = compare_scores(mean_of(values + 1), mean_of(values))
    assert found["difference"] == pytest.approx(1.0)
    # whatever is drawn, the difference is 1, though each mean alone is far from sure
    assert found["interval"] == "1.0000 to 1.0000 (95 %, bootstrap over 50 numbers, seed 0)"
    low, high = interval(mean_of(values))
    assert high - low > 1.0
    with pytest.raises(ConfigError, match=r"asked different things.* train both on the same data"):
        compare_scores(mean_of(values), mean_of(values, "another"))
