"""Sides: which is best, how sure a difference is, and which no other beats at less cost."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from headwise.compare.experiment import Result
from headwise.compare.page import as_html, as_json_text, notes, pictures, rows
from headwise.compare.sides import Cost, Side, front, holm, rank
from headwise.errors import ConfigError
from headwise.predictors.intervals import interval
from headwise.predictors.rows import Formula, Rows


def side(name, scores, cost=1.0, **facts):
    cost = Cost(facts.pop("parameters", 100), cost, 1.0, 1 << 20)
    return Side(name, {}, dict(enumerate(map(float, scores))), cost, 1.0, 10.0, **facts)


A, B, C = side("a", [1, 2, 3]), side("b", [1.5, 2.5, 3.25], cost=2.0), side("c", [0, 5, 2], cost=0.5)


def test_the_best_is_first_and_others_are_behind_it_by_seed():
    order, differences = rank([A, B, C], "high")
    assert [one.name for one in order] == ["b", "c", "a"]
    ahead = [0.5, 0.5, 0.25]
    assert differences["a"].ahead.value == pytest.approx(np.mean(ahead))
    paired = stats.ttest_rel([1.5, 2.5, 3.25], [1, 2, 3])
    assert differences["a"].p == pytest.approx(2 * paired.pvalue)
    interval = paired.confidence_interval(0.95)
    assert (differences["a"].ahead.low, differences["a"].ahead.high) == pytest.approx((interval.low, interval.high))
    assert not differences["c"].clear


def test_low_scores_may_be_the_better_ones():
    order, differences = rank([A, B, C], "low")
    assert [one.name for one in order] == ["a", "c", "b"]
    assert all(difference.ahead.value >= 0 for difference in differences.values())


def test_only_seeds_in_common_are_compared():
    alone = Side("x", {}, {7: 1.0}, A.cost, 1.0, 1.0)
    with pytest.raises(ConfigError, match="no seed in common"):
        rank([A, alone], "high")
    both = Side("y", {}, {0: 0.0, 7: 1.0}, A.cost, 1.0, 1.0)
    assert rank([A, both], "high")[1] == {}


def test_equal_differences_count_by_their_signs_and_none_is_no_difference():
    order, differences = rank([A, side("d", [0, 1, 2]), side("e", [1, 2, 3])], "high")
    # 2 of 8 ways to give three signs, twice
    assert differences["d"].p == 0.5
    assert not differences["d"].clear
    assert differences["e"].p == 1
    assert order[0].name == "a"


@pytest.mark.parametrize("count", [0, 1, 2, 5, 20])
def test_holm_against_its_definition(count):
    p = np.random.default_rng(count).uniform(0, 0.2, count).tolist()
    order = np.argsort(p)
    expected = [0.0] * count
    for place, at in enumerate(order):
        expected[at] = min(1.0, max((count - before) * p[order[before]] for before in range(place + 1)))
    assert holm(p) == pytest.approx(expected)


def test_the_front_has_what_no_other_beats_at_less():
    assert [one.name for one in front([A, B, C], "high")] == ["c", "b"]
    twins = [side("one", [1, 1]), side("two", [1, 1])]
    assert len(front(twins, "high")) == 1
    assert [one.name for one in front([side("x", [3], 1.0), side("y", [2], 2.0)], "low")] == ["x", "y"]


def test_one_seed_gives_no_interval_and_says_so():
    result = Result("accuracy", "high", [side("a", [0.5]), side("b", [0.25])], [])
    assert [row["low"] for row in rows(result)] == [None, None]
    assert "nothing is known of chance" in notes(result)[0]
    assert math.isinf(side("a", [0.5]).score.low)


def right(values):
    return Rows({"right": list(values)}, {"accuracy": Formula("mean", ("right",))}, "same").resampled()


def with_rows(name, table, **facts):
    """A side with a row of right answers for each seed."""
    resampled = {seed: right(values) for seed, values in enumerate(table)}
    return replace(side(name, [np.mean(values) for values in table], **facts), resampled=resampled)


def test_the_interval_that_decides_is_over_seeds_and_examples():
    draws = np.random.default_rng(1)
    a, b = draws.integers(0, 2, (3, 50)) | draws.integers(0, 2, (3, 50)), draws.integers(0, 2, (3, 50))
    order, differences = rank([with_rows("a", a), with_rows("b", b)], "high")
    assert order[0].name == "a"
    each = (a - b).mean(1)
    error = math.sqrt(each.var(ddof=1) / 3 + (a - b).mean(0).var(ddof=1) / 50)
    half = stats.t.ppf(0.975, 2) * error
    found = differences["b"]
    assert (found.ahead.low, found.ahead.high) == pytest.approx((each.mean() - half, each.mean() + half))
    assert found.p == pytest.approx(2 * stats.t.sf(each.mean() / error, 2))
    assert found.examples == 50
    own = order[0].score
    wide = stats.t.ppf(0.975, 2) * math.sqrt(a.mean(1).var(ddof=1) / 3 + a.mean(0).var(ddof=1) / 50)
    assert own.high - own.value == pytest.approx(wide)
    said = notes(Result("accuracy", "high", order, []))
    assert "over seeds and 50 examples" in said[-1]


def test_of_one_seed_the_examples_alone_are_drawn_and_the_report_says_so():
    draws = np.random.default_rng(2)
    a, b = draws.integers(0, 2, (1, 60)) | draws.integers(0, 2, (1, 60)), draws.integers(0, 2, (1, 60))
    for better in ("high", "low"):
        order, differences = rank([with_rows("a", a), with_rows("b", b)], better)
        (found,) = differences.values()
        low, high = interval(order[0].resampled[0], order[1].resampled[0])
        expected = (low, high) if better == "high" else (-high, -low)
        assert (found.ahead.low, found.ahead.high) == pytest.approx(expected)
        assert found.ahead.low < found.ahead.value < found.ahead.high
        assert (found.p, found.clear) == (None, False)
    result = Result("accuracy", "high", order, [])
    assert "another seed is another model" in notes(result)[0]
    assert all(row["low"] is not None for row in rows(result))


def test_sides_that_answered_other_examples_are_compared_over_seeds_alone():
    table = np.array([[1, 0, 1, 1], [1, 1, 0, 1]])
    odd = with_rows("odd", table[:, :3])
    _, differences = rank([with_rows("a", table), odd], "high")
    assert differences["odd"].examples == 0


def test_a_run_that_failed_counts_as_the_worst_and_is_named():
    sides = [
        side("lost", [math.inf, 0.1, 0.1, 0.1, 0.1, 0.1], cost=0.1, failures={0: "training diverged"}),
        side("a", [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]),
        side("b", [2.0, 2.5, 3.5, 2.0, 2.5, 3.5]),
    ]
    order, differences = rank(sides, "low")
    assert [one.name for one in order] == ["a", "b", "lost"]
    assert not differences["lost"].clear
    result = Result("loss", "low", sides, [])
    lost = rows(result)[-1]
    assert (lost["loss"], lost["behind"], lost["failed"]) == (None, None, 1)
    assert "lost failed with seed 0, which counts as the worst score: training diverged." in notes(result)
    text = as_json_text(result, "x")
    assert "Infinity" not in text
    assert '"0": null' in text
    assert "1 of 6 failed" in as_html(result, "x", pictures(result))
    assert [one.name for one in front(sides, "low")] == ["a"]
    every = [replace(one, scores=dict.fromkeys(range(6), math.inf), failures={0: "x"}) for one in sides]
    assert pictures(Result("loss", "low", every, [])) == {}
    assert rank(every, "low")[1]["b"].p == 1


def test_the_report_has_every_number_and_runs_no_text_of_a_user():
    hostile = side("<script>alert(1)</script>", [0.75, 0.5, 0.75], parameters=300, tuned="1e-3", at_edge=True)
    result = Result("accuracy", "high", [hostile, side("b", [0.25, 0.25, 0.5], tuned="2e-3")], ["alike: <b>"])
    text = as_html(result, "headwise compare '<x>'", pictures(result))
    assert "<script" not in text
    assert "<b>" not in text
    assert "66.7 % ± " in text
    said = " ".join(notes(result))
    assert "100 to 300 parameters" in said
    assert "<script>alert(1)</script> (1e-3)" in said
    assert '"seeds": 3' in as_json_text(result, "x")


@pytest.mark.parametrize(
    ("scores", "beginning"),
    [
        ([[1.0, 1.1, 0.9, 1.0], [0.0, 0.1, 0.05, 0.0]], "s0 is better than all others."),
        ([[1.0, 0.0, 2.0, 1.0], [0.9, 0.1, 1.5, 1.2]], "No difference is clear; s0"),
        ([[1.0, 1.1, 0.9, 1.0], [0.0, 0.1, 0.0, 0.1], [1.2, 0.8, 1.1, 0.8]], "s0 is better than s1; between it and s2"),
    ],
)
def test_what_is_clear_is_said(scores, beginning):
    sides = [side(f"s{at}", row) for at, row in enumerate(scores)]
    assert notes(Result("bleu", "high", sides, []))[0].startswith(beginning)
