"""A map over the image for each word: where the weights lie, what stands on the page, layers without words."""

import numpy as np
import pytest

from headwise.errors import ShapeError
from headwise.explain.explanation import Explanation, Layer
from headwise.tasks.images.maps import WordMaps
from headwise.tasks.images.pages import word_page


def made(words=("a", "red", "dog"), grid=(2, 3)):
    weights = np.random.default_rng(0).dirichlet(np.ones(grid[0] * grid[1]), (2, len(words)))
    keys = [f"{row},{column}" for row in range(grid[0]) for column in range(grid[1])]
    own = np.broadcast_to(np.eye(len(words)), (2, len(words), len(words)))
    layers = {
        "decoder.own": Layer(own, list(words), list(words), "self", causal=True),
        "decoder.cross": Layer(weights, list(words), keys, "cross"),
    }
    return Explanation("a.png", "a red dog", layers, WordMaps(np.zeros((8, 12, 3), np.uint8), grid))


def test_each_word_has_its_map_over_the_image():
    found = made()
    page = found.page()
    assert [axes.get_title() for axes in page.axes] == ["image", "a", "red", "dog"]
    weights = found.layers["decoder.cross"].weights
    for axes, wanted in zip(page.axes[1:], weights.mean(0), strict=True):
        picture, glow = axes.get_images()
        np.testing.assert_array_equal(glow.get_array(), wanted.reshape(2, 3))
        assert glow.get_extent() == [-0.5, 11.5, 7.5, -0.5] == list(picture.get_extent())
    assert page.get_suptitle() == "a.png → a red dog\ndecoder.cross, mean of 2 heads"
    (_, one, *_) = found.page("decoder.cross", 1).axes
    np.testing.assert_array_equal(one.get_images()[1].get_array(), weights[1, 0].reshape(2, 3))


def test_a_layer_of_words_alone_is_a_map_of_words(tmp_path):
    found = made()
    assert [axes.get_title() for axes in found.page("decoder.own").axes][:1] != ["image"]
    names = [path.name for path in found.write(tmp_path, every=True)]
    assert names == ["attention.png", "decoder-own.png", "decoder-cross.png"]


def test_many_words_stand_in_several_rows():
    page = word_page(np.zeros((4, 4, 1), np.uint8), np.ones((17, 2, 2)), ["w"] * 17)
    bottoms = [round(float(axes.get_position().y0), 3) for axes in page.axes]
    assert [bottoms.count(bottom) for bottom in dict.fromkeys(bottoms)] == [5, 5, 5, 3]
    inside = [axes.get_position() for axes in page.axes]
    assert all(box.x0 >= 0 and box.x1 <= 1 and box.y0 >= 0 and box.y1 <= 1 for box in inside)


@pytest.mark.parametrize("shape", [(2, 2, 2), (0, 2, 2)])
def test_words_without_maps_are_refused(shape):
    with pytest.raises(ShapeError, match="words do not go with weights of shape"):
        word_page(np.zeros((4, 4, 1), np.uint8), np.ones(shape), ["a"])
