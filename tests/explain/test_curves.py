import math

import numpy as np
import pytest

from headwise.errors import DataError, ShapeError
from headwise.explain.curves import position_curves, positions, training_curve
from headwise.explain.ramps import ramp


def sinusoids():
    """60 positions, 32 columns: sin and cos of i / 10000^(2j/32), as loops."""
    matrix = np.zeros((60, 32))
    for i in range(60):
        for j in range(16):
            matrix[i, 2 * j] = math.sin(i / 10000 ** (2 * j / 32))
            matrix[i, 2 * j + 1] = math.cos(i / 10000 ** (2 * j / 32))
    return matrix


def test_the_position_heat_map_is_the_matrix_with_zero_as_the_page():
    figure = positions(sinusoids(), title="sinusoidal")
    axes = figure.axes[0]
    image = axes.images[0]
    np.testing.assert_allclose(image.get_array(), sinusoids())
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Column (encoding dimension)", "Row (position)")
    assert (image.norm.vmin, image.norm.vmax) == (-1.0, 1.0)
    np.testing.assert_allclose(image.cmap(image.norm(0.0))[:3], ramp("diverging")[128], atol=1e-12)


def test_position_curves_have_four_lines_with_the_values_of_the_columns():
    axes = position_curves(sinusoids()).axes[0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["Col 6", "Col 7", "Col 8", "Col 9"]
    assert len({line.get_linestyle() for line in axes.lines}) == 4
    assert axes.get_xlim() == (0, 59)
    for column, line in zip((6, 7, 8, 9), axes.lines, strict=True):
        np.testing.assert_allclose(line.get_ydata(), sinusoids()[:, column])
    # 1 / 10000^(6/32) = .17783 and its sine; .1 and its sine
    assert [line.get_ydata()[1] for line in axes.lines] == pytest.approx(
        [0.17689219, 0.98423023, 0.09983342, 0.99500417]
    )


def test_a_column_beyond_the_encoding_is_an_error():
    with pytest.raises(ShapeError, match=r"column 32 is not in 0\.\.31, the columns of the encoding"):
        position_curves(sinusoids(), columns=(6, 32))


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
    with pytest.raises(DataError, match="no row has a `step` and a number besides"):
        training_curve([{"event": "start"}, {"step": 1}])
