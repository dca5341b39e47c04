"""Curves of measurements."""

import statistics

import pytest

from headwise.errors import DataError
from headwise.explain.lines import Mean, lines


def test_mean_and_spread():
    values = [0.2, 0.5, 0.9, 0.1]
    found = Mean.of(values)
    assert (found.value, found.count) == (pytest.approx(statistics.fmean(values)), 4)
    assert found.spread == pytest.approx(statistics.stdev(values))
    assert [str(Mean.of(row)) for row in ([0.5], [0.25, 0.75], [31.25, 31.75])] == [
        "0.5000", "0.5000 ± 0.3536", "31.50 ± 0.35"
    ]  # fmt: skip
    with pytest.raises(DataError, match="no mean of no values"):
        Mean.of([])


def test_numbers_far_apart_stand_on_a_logarithmic_axis():
    one = Mean.of([0.5])
    for places, scale in (
        ([1, 2, 8], "log"),
        ([1, 2, 7], "linear"),
        ([0, 2, 80], "linear"),
        (list(range(1, 12)), "linear"),
    ):
        axes = lines({"a": [(place, one) for place in places]}, across="x", down="y").axes[0]
        assert axes.get_xscale() == scale
        assert axes.get_legend() is None


def test_names_stand_side_by_side_and_spread_has_bars():
    two = Mean.of([0.2, 0.4])
    drawn = lines({"a": [("none", two), ("layer", two)], "b": [("layer", two)]}, across="norm", down="bleu", title="t")
    axes = drawn.axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["none", "layer"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]
    assert axes.containers[1].lines[0].get_xdata().tolist() == [1.0]
    assert axes.containers[0].has_yerr
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title()) == ("norm", "bleu", "t")
    with pytest.raises(DataError, match="nothing to draw"):
        lines({"a": []}, across="x", down="y")
