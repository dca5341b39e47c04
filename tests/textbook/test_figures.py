import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from matplotlib import pyplot

from headwise import textbook as d2l
from headwise.errors import ShapeError
from headwise.textbook import plot, show_heatmaps


@pytest.fixture(autouse=True)
def _closed():
    # other tests of this process may have left some
    pyplot.close("all")
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
    with pytest.raises(ShapeError, match="2 titles for 3 columns"):
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


def test_scales_styles_and_axes_that_are_given():
    pyplot.subplots()
    axes = pyplot.gca()
    axes.plot([1, 2])
    plot([1, 10], [[1, 100]], xscale="log", yscale="log", fmts=["g^"], axes=axes)
    assert drawn() == [axes]
    (line,) = axes.lines
    assert (axes.get_xscale(), axes.get_yscale(), line.get_color(), line.get_marker()) == ("log", "log", "g", "^")


def test_the_size_of_figures():
    before = list(pyplot.rcParams["figure.figsize"])
    try:
        d2l.set_figsize((2.0, 3.0))
        assert d2l.plt.figure().get_size_inches().tolist() == [2, 3]
        d2l.set_figsize()
        assert d2l.plt.figure().get_size_inches().tolist() == [3.5, 2.5]
    finally:
        pyplot.rcParams["figure.figsize"] = before


def test_lengths_of_two_lists_side_by_side():
    d2l.show_list_len_pair_hist(["source", "target"], "words", "count", [[1], [1, 2]], [[1, 2, 3], [1], [2]])
    (axes,) = drawn()
    counts = [sum(bar.get_height() for bar in bars) for bars in axes.containers]
    assert counts == [2, 3]
    assert [{bar.get_hatch() for bar in bars} for bars in axes.containers] == [{None}, {"/"}]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("words", "count")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["source", "target"]


def test_growing_curves():
    animator = d2l.Animator(xlabel="epoch", legend=["a", "b"], xlim=[1.0, 3.0], ylim=[0.0, 9.0], fmts=["k-", "r:"])
    animator.add(1, (2, None))
    animator.add(2, [torch.tensor(3.0), 4])
    animator.add([3, 2.5], np.array([5, 6]))
    (axes,) = drawn()
    assert [line.get_xydata().tolist() for line in axes.lines] == [[[1, 2], [2, 3], [3, 5]], [[2, 4], [2.5, 6]]]
    assert [line.get_color() for line in axes.lines] == ["k", "r"]
    assert (axes.get_xlabel(), axes.get_xlim(), axes.get_ylim()) == ("epoch", (1, 3), (0, 9))
    assert len(d2l.Animator(nrows=2, ncols=3).axes) == 6


class Shell:
    """What a notebook runs in, as far as it is asked."""

    kernel = object()

    def __init__(self):
        self.said, self.display_pub = [], self

    def run_line_magic(self, *words):
        self.said.append(words)

    def clear_output(self, wait):
        self.said.append(("clear", wait))


def test_a_notebook_shows_each_point(monkeypatch):
    shell = Shell()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    shown = SimpleNamespace(display=lambda figure: shell.said.append(("show", figure)))
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    d2l.use_svg_display()
    animator = d2l.Animator()
    animator.add(1, 2)
    svg = ("config", "InlineBackend.figure_formats = ['svg']")
    assert shell.said == [svg, ("clear", True), ("show", animator.fig)]


def test_without_a_notebook_nothing_is_shown(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    d2l.use_svg_display()
    d2l.Animator().add(1, 2)
