"""Labels of pixels as pictures: what stands where, colours, the map of a pixel, what the legend lists."""

import numpy as np
import pytest

from headwise.errors import ShapeError
from headwise.explain.explanation import Explanation, Layer
from headwise.tasks.images.maps import LabelMap
from headwise.tasks.images.pages import label_page

LEGEND = [("sky", (1, 2, 3)), ("sea", (40, 50, 60)), ("land", (7, 8, 9))]
SAID = np.array([[0, 0, 1, 1, 1], [0, 0, 1, 1, 1], [0, 0, 0, 0, 0]])
TRUTH = np.where(SAID == 0, 255, SAID)


def explained(truth=None, class_tokens=1):
    weights = np.random.default_rng(0).dirichlet(np.ones(6 + class_tokens), (2, 1))
    keys = ["class"] * class_tokens + [f"{row},{column}" for row in range(2) for column in range(3)]
    draw = LabelMap(np.zeros((3, 5, 3), np.uint8), (2, 3), SAID, truth, LEGEND, (2, 4), (4, 6))
    layers = {f"blocks.{number}": Layer(weights, ["pixel 2,4"], keys, "self") for number in range(2)}
    return Explanation("a.png", "sky at 2,4", layers, draw)


@pytest.mark.parametrize("truth", [None, TRUTH])
def test_image_truth_and_prediction_stand_side_by_side(truth):
    page = explained(truth).page("blocks.1", 1)
    titles = [axes.get_title() for axes in page.axes]
    assert titles[: 4 if truth is not None else 3] == [
        "image",
        *([] if truth is None else ["truth"]),
        "predicted",
        "pixel 2,4 attends to",
    ]
    drawn = {axes.get_title(): axes.get_images()[0].get_array() for axes in page.axes[:3]}
    assert drawn["predicted"].tolist() == np.array([colour for _, colour in LEGEND])[SAID].tolist()
    if truth is not None:
        assert drawn["truth"][0, 0].tolist() == [255, 255, 255]
        assert drawn["truth"][0, 2].tolist() == [40, 50, 60]
    (legend,) = page.legends
    assert [text.get_text() for text in legend.get_texts()] == ["sky", "sea"]
    assert page.get_suptitle() == "a.png → sky at 2,4\nblocks.1, head 1"


def test_the_map_lies_over_all_that_was_read_and_the_pixel_is_marked():
    found = explained()
    page = found.page("blocks.0")
    over = page.axes[2]
    glow = over.get_images()[1]
    weights = found.layers["blocks.0"].weights.mean(0)[0, 1:].reshape(2, 3)
    np.testing.assert_allclose(glow.get_array(), weights)
    # the grid covers 4 x 6 pixels, of which 3 x 5 are the image
    assert glow.get_extent() == [-0.5, 5.5, 3.5, -0.5]
    assert (over.get_xlim(), over.get_ylim()) == ((-0.5, 4.5), (2.5, -0.5))
    assert [line.get_xydata().tolist() for line in over.get_lines()] == [[[4.0, 2.0]]] * 2


def test_layers_without_class_tokens_are_placed_too():
    found = explained(class_tokens=0)
    weights = found.layers["blocks.0"].weights
    assert found.draw.placed(weights).tolist() == weights.reshape(2, 2, 3).tolist()


def test_labels_of_another_size_are_refused(untyped):
    with pytest.raises(ShapeError, match="labels do not go with an image of 3 x 5; give each pixel one"):
        label_page(np.zeros((3, 5, 1), np.uint8), {"said": SAID.T}, LEGEND)
