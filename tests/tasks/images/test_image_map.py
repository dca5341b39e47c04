"""Attention over an image: numbers, captions, tables, and pages whose parts stand where they should."""

import numpy as np
import pytest

from headwise.errors import ConfigError, ShapeError
from headwise.explain.explanation import Explanation, Layer
from headwise.explain.ramps import ramp
from headwise.tasks.images.maps import ImageMap
from headwise.tasks.images.pages import image_page


def made(channels=1, class_tokens=1, grid=(2, 3), layers=2, heads=4):
    draws = np.random.default_rng(0)
    keys = class_tokens + grid[0] * grid[1]
    names = ["class"] * class_tokens + [f"{row},{column}" for row in range(grid[0]) for column in range(grid[1])]
    found = {}
    for number in range(layers):
        weights = draws.random((heads, 1, keys))
        found[f"blocks.{number}"] = Layer(weights / weights.sum(-1, keepdims=True), ["class"], names, "self")
    pixels = draws.integers(0, 256, (8, 12, channels), dtype=np.uint8)
    return Explanation("a.png", "cat 0.97", found, ImageMap(pixels, grid))


def test_weights_are_those_of_the_grid_row_by_row():
    weights = made().layers["blocks.1"].weights
    placed = ImageMap(np.zeros((8, 12, 1), np.uint8), (2, 3)).placed(weights)
    np.testing.assert_array_equal(placed, weights[:, 0, 1:].reshape(4, 2, 3))


def test_captions_tell_what_the_class_token_gives_to_itself():
    found = made()
    itself = found.layers["blocks.1"].mean()[0, 0]
    assert found.page(1).get_suptitle().endswith(f"\nmean of 4 heads, {itself:.0%} of it on the class token itself")
    assert made(class_tokens=0).page(0, 1).get_suptitle() == "a.png → cat 0.97\nblocks.0\nhead 1"


def test_layers_and_heads_that_are_not_there():
    for arguments, message in ((("blocks.7",), "unknown layer 'blocks.7'"), ((5,), "layer 5 is not there")):
        with pytest.raises(ConfigError, match=message):
            made().page(*arguments)
    with pytest.raises(ConfigError, match="head 4 is not there"):
        made().page(heads=4)


@pytest.mark.parametrize("channels", [1, 3, 4, 6])
def test_a_page_has_image_map_and_heads(channels):
    figure = made(channels).page(heads=1)
    names = [axes.get_title() for axes in figure.axes]
    assert names[:3] == ["image", "attention over it", "attention"]
    image, over, alone, small, *_ = figure.axes
    assert image.images[0].get_array().shape[:2] == (8, 12)
    # the map lies over the whole image
    assert over.images[1].get_extent() == alone.images[0].get_extent() == [-0.5, 11.5, 7.5, -0.5]
    wanted = made(channels).layers["blocks.1"].weights[1, 0, 1:].reshape(2, 3)
    np.testing.assert_allclose(over.images[1].get_array(), wanted)
    assert len(small.images) == 8
    assert [text.get_text() for text in small.get_yticklabels()] == ["layer 0", "layer 1"]
    assert figure.get_suptitle().startswith("a.png → cat 0.97\nblocks.1\nhead 1, ")


def test_the_picture_shows_in_grey_under_the_map():
    page = image_page(np.arange(48, dtype=np.uint8).reshape(4, 4, 3), np.zeros((2, 2)), [np.zeros((1, 2, 2))])
    grey, cover = page.axes[1].images
    assert grey.get_array().tolist() == (3 * np.arange(16.0) + 1).reshape(4, 4).tolist()
    np.testing.assert_allclose(cover.cmap(cover.norm(cover.get_array()))[..., :3], [[ramp("ink light")[0]] * 2] * 2)
    assert 0.3 < cover.get_alpha() < 0.8
    with pytest.raises(ShapeError, match="nothing to draw"):
        image_page(np.zeros((4, 4, 1), np.uint8), np.zeros((0, 2)), [np.zeros((1, 0, 2))])


def test_pages_are_written_in_every_format(tmp_path):
    found = made(layers=1, heads=1)
    written = found.write(tmp_path, every=True)
    assert [path.name for path in written] == ["attention.png", "blocks-0.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)
    with pytest.raises(ConfigError, match="unknown format 'gif'"):
        found.write(tmp_path, ["gif"])
    assert found.save(tmp_path / "one.svg", 0, 0).read_bytes().startswith(b"<?xml")
