import numpy as np
import pytest
import torch
from matplotlib import pyplot

from headwise.errors import ShapeError
from headwise.textbook import plot, show_heatmaps


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot.close("all")


def drawn():
    """The axes of the one figure that is open, without its colour bar."""
    assert len(pyplot.get_fignums()) == 1
    return [axes for axes in pyplot.gcf().axes if axes.get_label() != "<colorbar>"]


def test_heat_maps_stand_in_a_grid():
    matrices = torch.rand(2, 3, 5, 7, requires_grad=True)
    show_heatmaps(matrices, "Keys", "Queries", titles=["one", "two", "three"], figsize=(7.0, 3.5), cmap="Blues")
    axes = drawn()
    assert len(axes) == 6
    for number, (row, column) in enumerate(np.ndindex(2, 3)):
        np.testing.assert_array_equal(axes[number].images[0].get_array(), matrices[row, column].detach().numpy())
        assert axes[number].images[0].cmap.name == "Blues"
        assert axes[number].get_xlabel() == ("Keys" if row == 1 else "")
        assert axes[number].get_ylabel() == ("Queries" if column == 0 else "")
        assert axes[number].get_title() == ["one", "two", "three"][column]
    assert tuple(pyplot.gcf().get_size_inches()) == (7, 3.5)


def test_heat_maps_share_one_colour_scale():
    show_heatmaps(torch.tensor([[[[0.0, 1.0]], [[2.0, 4.0]]]]), "x", "y")
    assert [axes.images[0].get_clim() for axes in drawn()] == [(0.0, 4.0)] * 2


def test_heat_maps_take_half_precision():
    show_heatmaps(torch.eye(3, dtype=torch.bfloat16)[None, None], "x", "y")
    assert drawn()[0].images[0].get_array().sum() == 3


def test_heat_maps_need_four_axes(untyped):
    message = r"matrices must be \(rows, columns, queries, keys\), none of them 0; got \(5, 7\)"
    with pytest.raises(ShapeError, match=message):
        show_heatmaps(torch.rand(5, 7), "x", "y")
    with pytest.raises(ShapeError, match=r"got \(1, 0, 5, 7\)"):
        show_heatmaps(torch.rand(1, 0, 5, 7), "x", "y")


def test_heat_maps_need_a_title_for_each_column():
    with pytest.raises(ShapeError, match="2 titles for 3 columns of heat maps; give one for each column"):
        show_heatmaps(torch.rand(1, 3, 5, 7), "x", "y", titles=["a", "b"])


@pytest.mark.parametrize(
    "curves", [torch.tensor([[1.0, 2.0], [3.0, 4.0]]), [[1.0, 2.0], [3.0, 4.0]], [torch.tensor([1.0, 2.0]), [3, 4]]]
)
def test_several_curves_have_styles_of_their_own(curves):
    plot([5.0, 6.0], curves, "x", "y", legend=["a", "b"], xlim=[5.0, 7.0], ylim=[0.0, 9.0])
    (axes,) = drawn()
    assert [line.get_xydata().tolist() for line in axes.lines] == [[[5, 1], [6, 2]], [[5, 3], [6, 4]]]
    assert len({(line.get_linestyle(), line.get_color()) for line in axes.lines}) == 2
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_xlim(), axes.get_ylim()) == ("x", "y", (5, 7), (0, 9))


def test_one_curve_without_points_starts_at_zero():
    plot([3.0, 5.0, 4.0])
    (axes,) = drawn()
    assert [line.get_xydata().tolist() for line in axes.lines] == [[[0, 3], [1, 5], [2, 4]]]
    assert axes.get_legend() is None
    assert axes.get_xlabel() == ""
