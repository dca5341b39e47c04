import statistics

import pytest

from headwise.errors import DataError
from headwise.explain.curves import Mean, lines, training_curve


def test_training_curve_draws_losses_together_and_scores_apart():
    rows = [
        {"step": 20, "event": "validation", "metrics": {"loss": 3.0, "bleu": 7.0, "seconds": 2.0}},
        {"step": 10, "loss": 5.0, "tokens_per_s": 100.0, "event": "train", "timing": {"cpu_s": 1.0}},
        {"step": 30, "loss": float("nan")},
        {"step": 40, "loss": None},
        {"step": 20, "loss": 4.0},
        {"event": "start"},
    ]
    figure = training_curve(rows, title="$run$")
    losses, bleu = figure.axes
    assert [line.get_label() for line in losses.lines] == ["valid loss", "loss"]
    assert losses.lines[1].get_xydata().tolist() == [[10, 5.0], [20, 4.0]]
    assert bleu.lines[0].get_xydata().tolist() == [[20, 7.0]]
    assert (bleu.get_xlabel(), bleu.get_ylabel()) == ("step", "valid bleu")
    figure._repr_png_()


def test_a_log_without_numbers_is_an_error():
    with pytest.raises(DataError, match="step"):
        training_curve([{"event": "start"}, {"step": 1}])


def test_mean_and_spread():
    values = [0.2, 0.5, 0.9, 0.1]
    found = Mean.of(values)
    assert (found.value, found.count) == (pytest.approx(statistics.fmean(values)), 4)
    assert found.spread == pytest.approx(statistics.stdev(values))
    assert [str(Mean.of(row)) for row in ([0.5], [0.25, 0.75], [31.25, 31.75])] == [
        "0.5000", "0.5000 ± 0.3536", "31.50 ± 0.35"
    ]  # fmt: skip
    with pytest.raises(DataError, match="mean"):
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
    with pytest.raises(DataError, match="measurement"):
        lines({"a": []}, across="x", down="y")
