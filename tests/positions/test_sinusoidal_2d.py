"""Sines and cosines of the row and the column of a patch."""

import math

import pytest
import torch
from devices import DEVICE

from headwise.errors import ConfigError
from headwise.positions.sinusoidal import sinusoids
from headwise.positions.sinusoidal_2d import Sinusoidal2d


def test_the_formula_entry_by_entry():
    height, width, d_model = 3, 5, 12
    added = Sinusoidal2d(d_model, width).embed(torch.zeros(1, height * width, d_model, dtype=torch.float64), 0)[0]
    for place in range(height * width):
        for half, coordinate in enumerate((place // width, place % width)):
            for pair in range(3):
                angle = coordinate / 10000 ** (2 * pair / 6)
                column = 6 * half + 2 * pair
                assert added[place, column].item() == pytest.approx(math.sin(angle), abs=1e-12)
                assert added[place, column + 1].item() == pytest.approx(math.cos(angle), abs=1e-12)


def test_an_image_one_patch_wide_is_a_sequence():
    added = Sinusoidal2d(8, 1).embed(torch.zeros(1, 7, 8, dtype=torch.float64), 0)[0]
    torch.testing.assert_close(added[:, :4], sinusoids(7, 4).to(DEVICE))
    assert torch.equal(added[:, 4:], sinusoids(1, 4).to(DEVICE).expand(7, 4))


def test_patches_later_are_the_patches_at_their_place():
    position = Sinusoidal2d(8, 3)
    x = torch.randn(2, 11, 8)
    for chunk in (1, 2, 4):
        steps = torch.cat([position.embed(x[:, t : t + chunk], t) for t in range(0, 11, chunk)], 1)
        torch.testing.assert_close(steps, position.embed(x, 0), rtol=0, atol=1e-6)
    assert position.embed(x[:, :0], 4).shape == (2, 0, 8)


@pytest.mark.parametrize(
    ("d_model", "width", "message"),
    [
        (10, 3, "sinusoidal_2d positions need a d_model that 4 divides, got 10; use 8 or 12"),
        (8, 0, "sinusoidal_2d positions need a grid at least 1 patch wide, got 0"),
    ],
)
def test_sizes_that_do_not_fit(d_model, width, message):
    with pytest.raises(ConfigError, match=message):
        Sinusoidal2d(d_model, width)


def test_a_model_needs_a_square():
    assert Sinusoidal2d.sized(8, 4, 2, 196).width == 14
    message = "sinusoidal_2d positions need a square max_len, the patches of a square image, got 31; use 25 or 36, or"
    with pytest.raises(ConfigError, match=message):
        Sinusoidal2d.sized(8, 4, 2, 31)
