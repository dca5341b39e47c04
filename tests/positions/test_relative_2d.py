"""A learned number for each way from patch to patch."""

import pytest
import torch
from relative_loops import WIDTH, assert_equal, by_pairs, spread, tensors

from headwise.errors import ConfigError, ShapeError
from headwise.positions.relative_2d import Relative2d


def test_every_step_has_its_own_number():
    height, width = 3, 4
    position = spread(Relative2d(2, height=height, width=width))
    patches = torch.zeros(1, 2, height * width, 4, dtype=torch.float64)
    bias = position.bias(patches, patches, 0)[0]
    steps = {}
    for i in range(height * width):
        for j in range(height * width):
            step = (j // width - i // width, j % width - i % width)
            row = (step[0] + height - 1) * (2 * width - 1) + step[1] + width - 1
            assert torch.equal(bias[:, i, j], position.table[row])
            steps[step] = row
    assert sorted(steps.values()) == list(range((2 * height - 1) * (2 * width - 1)))


def test_a_later_query_is_the_query_at_its_place():
    position = spread(Relative2d(2, height=3, width=4))
    patches = torch.zeros(1, 2, 12, 4, dtype=torch.float64)
    whole = position.bias(patches, patches, 0)
    assert torch.equal(position.bias(patches[:, :, 5:8], patches[:, :, :9], 5), whole[:, :, 5:8, :9])


def test_the_definition_pair_by_pair():
    position = spread(Relative2d(3, height=4, width=2))
    query, key, value = inputs = tensors()

    def score(b, h, i, j):
        row = (j // 2 - i // 2 + 3) * 3 + (j % 2 - i % 2 + 1)
        return query[b, h, i] @ key[b, h, j] / WIDTH**0.5 + position.table[row, h]

    assert_equal(position, inputs, 0, by_pairs(value, score))


def test_a_patch_beyond_the_grid():
    position = Relative2d(3, height=2, width=3)
    patches = torch.zeros(1, 3, 7, 4)
    message = "position 6 is beyond the grid of 2 x 3 patches; build relative_2d for the size of the image"
    for query, key, start in ((patches, patches, 0), (patches[:, :, :1], patches[:, :, :1], 6)):
        with pytest.raises(ShapeError, match=message):
            position.bias(query, key, start)


def test_grids_that_are_none():
    with pytest.raises(ConfigError, match="relative_2d positions need a grid of at least 1 x 1 patches, got 0 x 3"):
        Relative2d(3, height=0, width=3)
    with pytest.raises(ConfigError, match=r"relative_2d positions need a square max_len, .* got 512; use 484 or 529"):
        Relative2d.sized(12, 4, 3, 512)
    assert Relative2d.sized(12, 4, 3, 49).width == 7


def test_a_recipe_names_the_grid():
    """max_len need be no square where the grid is written after the name."""
    from headwise.positions import build

    sizes = {"d_model": 8, "head_dim": 4, "num_heads": 2, "max_len": 30}
    for name in ("rotary_2d:width=5", "sinusoidal_2d:width=5", "relative_2d:width=5,height=6", "relative_2d:width=5"):
        assert build(name, **sizes).width == 5
    assert build("relative_2d:height=6", **sizes).width == build("relative_2d:width=5", **sizes).width == 5
    with pytest.raises(ConfigError, match="need a grid of at least 1 x 1 patches, got 30 x 0"):
        build("relative_2d:width=0", **sizes)
    with pytest.raises(ConfigError, match="or name the grid, such as rotary_2d:width=5"):
        build("rotary_2d", **sizes)
