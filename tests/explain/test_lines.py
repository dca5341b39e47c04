"""Curves of measurements, and the distances they may be of."""

import statistics

import numpy as np
import pytest

from headwise.errors import DataError, Unsupported
from headwise.explain.distances import attended_distance, distances
from headwise.explain.explanation import Explanation, Layer
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


def test_the_distance_attended_to_by_hand():
    weights = np.random.default_rng(0).dirichlet(np.ones(5), (3, 4))
    expected = [sum(head[i, j] * abs(i - j) for i in range(4) for j in range(5)) / 4 for head in weights]
    np.testing.assert_allclose(attended_distance(weights), expected)


def test_distances_are_of_self_attention_and_means_over_texts():
    def explained(*shares):
        # all on the next token but one, or on itself
        layers = {}
        for number, share in enumerate(shares):
            weights = (1 - share) * np.eye(4) + share * np.roll(np.eye(4), 2, 1)
            layers[f"layer {number}"] = Layer(weights[None], list("abcd"), list("abcd"), "self")
        cross = Layer(np.eye(4)[None], list("abcd"), list("abcd"), "cross")
        return Explanation("a b c d", "a", layers | {"cross": cross})

    found = distances([explained(0.0, 1.0), explained(0.5, 1.0)])
    assert found == {"layer 0, head 0": pytest.approx(0.5), "layer 1, head 0": pytest.approx(2.0)}
    with pytest.raises(Unsupported, match="no self-attention, so there are no distances"):
        distances([Explanation("a", "b", {})])
