"""The picture of a node's neighbourhood: a panel a layer, an edge a key, names and weights as they are."""

import numpy as np
import pytest

from headwise.errors import ConfigError
from headwise.explain.explanation import Explanation, Layer
from headwise.explain.ramps import PALETTE
from headwise.tasks.graphs.neighbours import Neighbourhood

CLASSES = ["bird", "dog", "cat"]
KEYS = ["a$b", "me", "c\n", "3 others"]


def made(num_layers=2):
    weights = np.array([[[0.5, 0.25, 0.125, 0.125]], [[0.1, 0.2, 0.3, 0.4]]])
    layers = {f"mixers.{n}": Layer(weights, ["me"], KEYS, "self") for n in range(num_layers)}
    return Explanation("me", "cat (0.90)", layers, Neighbourhood("me", "cat", ["dog", "cat", "cat", ""], CLASSES))


def texts(axes):
    return [text.get_text() for text in axes.texts]


def test_each_layer_has_a_panel_with_its_weights():
    page = made().page()
    assert [axes.get_title() for axes in page.axes] == ["mixers.0, mean of 2 heads", "mixers.1, mean of 2 heads"]
    # those of one label stand together, what is no node last; the node itself in the middle
    assert texts(page.axes[0]) == ["a\\$b\n0.30", "c\\n\n0.21", "3 others\n0.26", "me\nitself 0.23"]
    # in the order of the model, each with its colour there
    assert [text.get_text() for text in page.legends[0].texts] == ["dog", "cat"]
    assert [mark.get_color() for mark in page.legends[0].get_lines()] == list(PALETTE[1:3])


def test_one_layer_and_one_head():
    page = made(5).page(3, 1)
    assert [axes.get_title() for axes in page.axes] == ["mixers.3, head 1"]
    assert texts(page.axes[0])[0] == "a\\$b\n0.10"
    lines = [line for line in page.axes[0].lines if len(line.get_xdata()) == 2]
    assert [line.get_linewidth() for line in lines] == pytest.approx([4.5 * w / 0.3 for w in (0.1, 0.3, 0.3)])
    with pytest.raises(ConfigError, match="layer 7 is not there"):
        made().page(7)
    assert len(made(4).page().axes) == 4


def test_it_is_written_like_any_other(tmp_path):
    paths = made().write(tmp_path, ["png", "svg"], every=True)
    assert [path.name for path in paths] == [
        "attention.png", "attention.svg", "mixers-0.png", "mixers-0.svg", "mixers-1.png", "mixers-1.svg"
    ]  # fmt: skip
    assert all(path.stat().st_size > 1000 for path in paths)


def test_a_node_that_hears_of_itself_alone():
    layers = {"mixers.0": Layer(np.ones((1, 1, 1)), ["me"], ["me"], "self")}
    page = Explanation("me", "cat (1.00)", layers, Neighbourhood("me", "cat", ["cat"], CLASSES)).page()
    assert texts(page.axes[0]) == ["me\nitself 1.00"]
