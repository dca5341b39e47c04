"""Verdicts: which numbers give which, and how often the rule errs on drawn ones."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
from scipy import stats

from headwise.compare.verdicts import (
    Cell,
    Control,
    Interval,
    above,
    crosses,
    equal,
    larger,
    near,
    trend,
    verdict,
    why,
)
from headwise.errors import ConfigError


@pytest.mark.parametrize(
    ("value", "low", "high", "outcome"),
    [
        (2, 1, 3, "holds"),
        (2, -1, 5, "undecided"),
        # there, but smaller than matters
        (0.5, 0.4, 0.6, "refuted"),
        (0.8, 0.1, 1.5, "undecided"),
        (-2, -3, -1, "refuted"),
        (1, 1, 1, "holds"),
        (1, 0, 2, "undecided"),
    ],
)
def test_a_difference_that_matters(value, low, high, outcome):
    assert larger("here", Interval(float(value), float(low), float(high)), 1.0).outcome == outcome


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [(1.9, 2.1, "holds"), (1.85, 2.15, "holds"), (1.8, 2.1, "undecided"), (2.2, 2.4, "refuted"), (1.0, 1.8, "refuted")],
)
def test_a_value_of_a_theory(low, high, outcome):
    assert near("here", Interval((low + high) / 2, low, high), 2.0, 0.15).outcome == outcome


@pytest.mark.parametrize(("low", "high", "outcome"), [(2, 3, "holds"), (0.5, 2, "undecided"), (0, 0.5, "refuted")])
def test_a_value_above_a_bound(low, high, outcome):
    assert above("here", Interval(1.0, float(low), float(high)), 1.0).outcome == outcome


def test_an_effect_that_matters_is_above_0():
    with pytest.raises(ConfigError):
        larger("here", Interval.exact(1.0), 0.0)


def test_one_draw_has_an_interval_without_limit_and_none_has_none():
    assert Interval.of([1.0]) == Interval(1.0, -math.inf, math.inf)
    with pytest.raises(ConfigError):
        Interval.of([])


def test_every_set_of_outcomes_has_one_verdict():
    def cells(outcomes):
        return [Cell(outcome, 0.0, 0.0, 0.0, outcome) for outcome in outcomes]

    found = {}
    for count in range(4):
        for outcomes in itertools.combinations(("holds", "refuted", "undecided"), count):
            found[outcomes] = verdict(cells(outcomes))
    assert found == {
        (): "invalid",
        ("holds",): "holds",
        ("refuted",): "does not hold",
        ("undecided",): "undecided",
        ("holds", "refuted"): "holds only where",
        ("holds", "undecided"): "undecided",
        ("refuted", "undecided"): "undecided",
        ("holds", "refuted", "undecided"): "holds only where",
    }


def test_a_failed_control_makes_all_invalid_and_is_named():
    cells, controls = [Cell("a", 1.0, 1.0, 1.0, "holds")], [Control("the floor is a floor", False, 1.0)]
    assert verdict(cells, controls) == "invalid"
    assert "the floor is a floor" in why(cells, controls)


def test_nothing_left_to_judge_is_invalid_and_said():
    assert verdict([]) == "invalid"
    assert why([]) == "the experiment is not valid: no condition was left to judge"


def test_all_conditions_are_named_where_they_differ():
    text = why(
        [Cell("a", 1.0, 1.0, 1.0, "holds"), Cell("b", 1.0, 1.0, 1.0, "refuted"), Cell("c", 1.0, 1.0, 1.0, "undecided")]
    )
    assert text == "Holds for a. Does not hold for b. Undecided for c."


@pytest.mark.slow
@pytest.mark.parametrize(("truth", "least", "most"), [(2.0, 0.9, 1.0), (0.0, 0.0, 0.025)])
def test_how_often_six_draws_say_that_it_holds(truth, least, most):
    # the spread over seeds is as large as the effect that matters
    draws = np.random.default_rng(0).normal(truth, 1.0, (500, 6))
    held = [larger("", Interval.of(row.tolist()), 1.0).outcome == "holds" for row in draws]
    assert least <= sum(held) / len(held) <= most


def test_an_interval_holds_the_truth_as_often_as_it_says():
    draws = np.random.default_rng(1).normal(0.0, 1.0, (4000, 5))
    intervals = [Interval.of(row.tolist()) for row in draws]
    share = sum(one.low <= 0 <= one.high for one in intervals) / len(intervals)
    assert math.isclose(share, 0.95, abs_tol=0.015)


def test_a_variance_besides_makes_an_interval_wider():
    draws = [0.1, 0.3, 0.2]
    error = math.sqrt(np.var(draws, ddof=1) / 3 + 0.01)
    wider = Interval.of(draws, variance=0.01)
    assert wider.half == pytest.approx(stats.t.ppf(0.975, 2) * error)
    assert Interval.of([0.1, 0.1], variance=0.01).half > 0 == Interval.of([0.1, 0.1]).half
    assert trend("", [[0.0, 0.5, 1.0], [0.0, 0.6, 1.0]], 0.5, 0.01).low < trend("", [[0.0, 0.5, 1.0]] * 2, 0.5).low


@pytest.mark.parametrize(
    ("differences", "outcome"),
    [
        ([0.1, -0.1, 0.0], "holds"),
        ([2.0, 2.1, 1.9], "refuted"),
        ([-2.0, -2.1, -1.9], "refuted"),
        ([0.9, 1.2, 0.6], "undecided"),
        ([0.0, 0.0, 0.0], "holds"),
        ([1.0, 1.0], "refuted"),
    ],
)
def test_two_sides_that_are_level(differences, outcome):
    assert equal("here", partial(Interval.of, differences), 1.0).outcome == outcome


@pytest.mark.slow
@pytest.mark.parametrize(("truth", "least", "most"), [(0.0, 0.7, 1.0), (1.0, 0.0, 0.075)])
def test_how_often_six_draws_say_that_sides_are_level(truth, least, most):
    """At the bound itself it errs in 5 % at most, the level of each of the two tests; of 500 up to 7.5 % by chance."""
    draws = np.random.default_rng(2).normal(truth, 0.6, (500, 6))
    held = [equal("", partial(Interval.of, row.tolist()), 1.0).outcome == "holds" for row in draws]
    assert least <= sum(held) / len(held) <= most


@pytest.mark.parametrize(
    ("rows", "outcome"),
    [
        ([[1.0, 2.0, 3.0], [1.1, 2.0, 3.0], [1.0, 2.1, 3.1]], "holds"),
        # there, but smaller than matters
        ([[1.0, 1.1, 1.2], [1.0, 1.1, 1.21], [1.0, 1.1, 1.2]], "refuted"),
        ([[3.0, 2.0, 1.0], [3.1, 2.0, 1.0], [3.0, 2.0, 1.1]], "refuted"),
        # the ends are far apart, what lies between has no order
        ([[1.0, 4.0, 0.0, 3.0], [1.0, 0.0, 4.0, 3.1]], "undecided"),
    ],
)
def test_a_trend(rows, outcome):
    cell = trend("here", rows, 1.0)
    assert cell.outcome == outcome
    assert cell.where.startswith("here (Page's test: p = ")
    assert cell.value == pytest.approx(sum(row[-1] - row[0] for row in rows) / len(rows))


# the exact distribution of Page's test takes 30 ms a call
@pytest.mark.slow
@pytest.mark.parametrize(("slope", "least", "most"), [(1.0, 0.9, 1.0), (0.0, 0.0, 0.05)])
def test_how_often_six_draws_have_a_trend(slope, least, most):
    draws = np.random.default_rng(3).normal(0.0, 0.7, (200, 6, 4)) + slope * np.arange(4)
    held = [trend("", rows.tolist(), 1.0).outcome == "holds" for rows in draws]
    assert least <= sum(held) / len(held) <= most


@pytest.mark.parametrize(
    ("first", "last", "outcome"),
    [
        ((1, 2), (-2, -1), "holds"),
        ((1, 2), (0.5, 1), "refuted"),
        ((-2, -1), (-2, -1), "refuted"),
        ((1, 2), (-1, 1), "undecided"),
        ((-1, 1), (-2, -1), "undecided"),
    ],
)
def test_a_difference_that_changes_its_sign(first, last, outcome):
    def interval(ends):
        return Interval(sum(ends) / 2, float(ends[0]), float(ends[1]))

    assert crosses("here", interval(first), interval(last)).outcome == outcome


def test_what_each_seed_left_out_makes_of_an_outcome():
    draws = [0.5, 0.6, 0.4, 0.55, -0.6, 0.5]
    cell = larger("", Interval.of(draws), 0.1)
    assert cell.outcome == "undecided"
    by_hand = [larger("", Interval.of(draws[:at] + draws[at + 1 :]), 0.1).outcome for at in range(6)]
    assert cell.left_out == by_hand
    # the one that is the other way round decides alone
    assert by_hand == ["undecided"] * 4 + ["holds", "undecided"]
    # what examples add stays, whoever is left out
    assert larger("", Interval.of(draws, variance=1.0), 0.1).left_out == ["undecided"] * 6


@pytest.mark.parametrize("draws", [[0.5], [0.5, 0.6]])
def test_of_fewer_than_three_seeds_none_is_left_out(draws):
    assert larger("", Interval.of(draws), 0.1).left_out == []
    assert Cell.of("", Interval.exact(1.0), lambda interval: "holds").turned is None


def test_leaving_out_goes_through_every_rule():
    level, rise = [0.001, -0.002, 0.0, 0.001], [[0.1, 0.5, 0.9], [0.2, 0.4, 0.9], [0.1, 0.6, 0.8], [0.1, 0.5, 0.8]]
    assert equal("", partial(Interval.of, level), 0.1).left_out == ["holds"] * 4
    assert trend("", rise, 0.1).left_out == ["holds"] * 4
    first, last = Interval.of([1.0, 1.1, 0.9, 1.0]), Interval.of([-1.0, -1.1, -0.9, -1.0])
    assert crosses("", first, last).left_out == ["holds"] * 4
    assert above("", first, 0.5).left_out == near("", first, 1.0, 0.9).left_out == ["holds"] * 4
    table = [[1.0, 3.0], [1.2, 2.9], [0.9, 3.2]]
    assert len(above("", Interval.across(table), 0.5).left_out) == 3
    assert Interval.across(table).left_out[0] != Interval.across(table[1:])


def test_a_trend_whose_interval_holds_0_does_not_hold():
    """Page's test may see an order in a rise that is anything from seed to seed."""
    cell = trend("", [[0.0, 0.1, 0.2], [0.0, 0.1, 0.9], [0.0, 0.1, 0.12]], 0.05)
    assert "p = 0.0046" in cell.where
    assert (cell.low < 0, cell.outcome) == (True, "undecided")


@pytest.mark.parametrize(("spread", "least", "most"), [(0.01, 0.0, 0.0), (4.0, 0.03, 0.08), (5.0, 0.12, 0.18)])
def test_how_often_another_seed_would_turn_it(spread, least, most):
    """40,000 draws of the prediction turn it in 5.6 and 15.4 % of the last two."""
    draws = [1.0, 1.0 - spread / 4, 1.0 + spread / 4, 1.0 + spread / 8, 1.0 - spread / 8, 1.0]
    assert least <= larger("", Interval.of(draws), 0.5).turned <= most


def test_predictions_of_one_more_seed_are_as_wide_as_they_say():
    """By drawing: of n + 1 numbers of one distribution the last is below the places of the first n as often as said."""
    random, below = np.random.default_rng(5), []
    for _ in range(400):
        *known, last = random.normal(0.0, 1.0, 5).tolist()
        more = [interval.draws[-1] for interval in Interval.of(known).one_more]
        below.append(np.searchsorted(more, last) / 99)
    assert abs(np.mean(below) - 0.5) < 0.05
    assert stats.kstest(below, "uniform").pvalue > 0.001
