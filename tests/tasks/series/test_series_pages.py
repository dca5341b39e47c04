"""The page about a forecast: what is drawn where."""

import numpy as np
import pytest

from headwise.errors import ShapeError
from headwise.explain.explanation import Explanation, Layer
from headwise.tasks.series.look import SeriesMap
from headwise.tasks.series.pages import series_page


def test_numbers_and_weights_stand_over_the_same_steps():
    past, ahead, truth = np.arange(10.0).reshape(5, 2), np.array([[7.0, 8.0], [9.0, 1.0]]), np.ones((2, 2))
    drawn = series_page(["a", "b"], past, ahead, truth, np.eye(6)[-2:], ["+1", "+2"], title="t")
    upper, second, lower = drawn.axes[:3]
    assert [axes.get_ylabel() for axes in (upper, second)] == ["a", "b"]
    lines = {line.get_label(): line.get_xydata().tolist() for line in upper.lines}
    assert lines["history"] == [[-4, 0], [-3, 2], [-2, 4], [-1, 6], [0, 8]]
    assert lines["truth"] == [[0, 8], [1, 1], [2, 1]]
    assert lines["forecast"] == [[0, 8], [1, 7], [2, 9]]
    assert upper.get_xlim() == lower.get_xlim() == (-4.5, 2.5)
    (image,) = lower.images
    # the sixth place is the first step that was told
    assert image.get_extent() == [-4.5, 1.5, 1.5, -0.5]
    assert [text.get_text() for text in lower.get_yticklabels()] == ["+1", "+2"]
    assert "truth" not in [
        line.get_label() for line in series_page(["a"], past, ahead, None, np.eye(5), "abcde").axes[0].lines
    ]
    with pytest.raises(ShapeError, match="nothing to draw"):
        series_page(["a"], past, ahead, None, np.eye(0), [])


def test_many_columns_are_not_all_drawn():
    drawn = series_page([str(n) for n in range(9)], np.ones((5, 9)), np.ones((2, 9)), None, np.eye(5)[:1], ["mean"])
    assert len(drawn.axes) == 5


@pytest.mark.parametrize(
    ("kind", "keys", "rows", "reads", "expected"),
    [
        ("self", 4, 4, None, [[0.25, 0.25, 0.25, 0.25]]),
        ("self", 4, 4, -1, [[0.0, 0.0, 0.0, 1.0]]),
        ("self", 5, 5, 0, [[0.0, 0.0, 0.0, 0.0]]),
        ("self", 5, 5, -1, [[0.0, 0.0, 0.0, 1.0]]),
        ("pooled", 5, 1, -1, [[0.0, 0.0, 0.0, 0.0]]),
        ("cross", 5, 2, None, [[1.0, 0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0]]),
    ],
)
def test_rows_of_a_map(kind, keys, rows, reads, expected):
    layer = Layer(np.eye(keys)[None, :rows], [str(n) for n in range(rows)], [str(n) for n in range(keys)], kind)
    found = Explanation("s", "o", {"layer": layer}, SeriesMap(["a"], np.ones((4, 1)), np.ones((2, 1)), None, reads))
    (image,) = found.page().axes[-1].images
    assert image.get_array().tolist() == expected
