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
    assert [line.get_label() for line in losses.lines] == ["training", "validation"]
    assert losses.lines[0].get_xydata().tolist() == [[10, 5.0], [20, 4.0]]
    assert bleu.lines[0].get_xydata().tolist() == [[20, 7.0]]
    assert (losses.get_ylabel(), bleu.get_xlabel(), bleu.get_ylabel()) == ("loss, nats", "step", "BLEU")
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
        assert not axes.figure.legends


def test_names_stand_beside_the_plot_and_bars_are_intervals_of_the_mean():
    two, three = Mean.of([0.2, 0.4]), Mean.of([0.2, 0.4, 0.6])
    series = {"a$": [("none", two), ("layer", two)], "b": [("layer", three)]}
    drawn = lines(series, across="model.norm", down="accuracy", title="t")
    axes = drawn.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["none", "layer"]
    texts = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert texts == [r"a\$", "b", "95 % interval over 2 to 3 seeds"]
    assert axes.containers[1].lines[0].get_xdata().tolist() == [pytest.approx(0.4)]
    # Student's t at .975 of two degrees of freedom, from a table
    (bar,) = axes.containers[1].lines[2]
    (start, _), (end, _) = bar.get_segments()[0]
    assert (end - start) / 2 == pytest.approx(4.3027 * 0.2 / 3**0.5, rel=1e-4)
    drawn.draw_without_rendering()
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("model.norm", "accuracy, %")
    assert axes.get_xlim() == (-0.02, 1.02)
    assert {"0", "20", "100"} <= {label.get_text() for label in axes.get_xticklabels()}
    assert drawn.legends[0].get_title().get_text() == "t"
    with pytest.raises(DataError, match="measurement"):
        lines({"a": []}, across="x", down="y")


def test_a_plot_is_as_wide_as_a_column_of_a_paper():
    many = {f"layer {number}, head {number}": [(step, Mean.of([1.0])) for step in (1, 9)] for number in range(12)}
    for series in (many, {"": [("a very long name of a recipe " * 3, Mean.of([0.5]))]}):
        figure = lines(series, across="step", down="distance")
        figure.draw_without_rendering()
        assert figure.get_tightbbox().width < 3.4
