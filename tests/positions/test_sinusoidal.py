"""Sines and cosines added to the embeddings."""

import math

import pytest
import torch
from devices import DEVICE
from torch._subclasses.fake_tensor import FakeTensorMode

from headwise.errors import ConfigError, ShapeError
from headwise.positions import sinusoidal
from headwise.positions.sinusoidal import Sinusoidal, exact


def sinusoids(length, d_model, start=0):
    return sinusoidal.sinusoids(length, d_model, start, torch.device(DEVICE)).to(DEVICE)


def test_the_formula_entry_by_entry():
    table = sinusoids(60, 32)
    assert table.dtype == torch.float64
    expected = [
        [f(position / 10000 ** (2 * pair / 32)) for pair in range(16) for f in (math.sin, math.cos)]
        for position in range(60)
    ]
    torch.testing.assert_close(table, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12)


def test_columns_six_to_nine_at_positions_one_and_two():
    expected = [[0.17689219, 0.98423023, 0.09983342, 0.99500417], [0.34820528, 0.93741831, 0.19866933, 0.98006658]]
    found = sinusoids(60, 32)[1:3, 6:10]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-8)


def test_frequencies_fall_with_the_column():
    """Columns 6 and 7 share the frequency .17783 (period 35.33), columns 8 and 9 share .1 (62.83), a quarter apart."""
    table = sinusoids(2000, 32)
    frequencies = torch.atan2(table[1, 0::2], table[1, 1::2])
    assert (frequencies[1:] < frequencies[:-1]).all()
    assert 2 * math.pi / frequencies[3].item() == pytest.approx(35.33, abs=0.01)
    assert 2 * math.pi / frequencies[4].item() == pytest.approx(62.83, abs=0.01)
    quarter = torch.sin(torch.arange(2000, dtype=torch.float64)[:, None] * frequencies + math.pi / 2)
    torch.testing.assert_close(table[:, 1::2], quarter, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("position", "shift"), [(0, 1), (3, 17), (1500, 400)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_a_shift_is_a_rotation_that_does_not_depend_on_position(position, shift, dtype):
    """[[cos dw, sin dw], [-sin dw, cos dw]] turns p_i into p_(i+d)."""
    here, there = (sinusoids(1, 32, at)[0].to(dtype).unflatten(0, (16, 2)) for at in (position, position + shift))
    angles = shift * 10000 ** (-torch.arange(16, dtype=torch.float64) / 16)
    sin, cos = angles.sin(), angles.cos()
    turn = torch.stack((cos, sin, -sin, cos), -1).unflatten(-1, (2, 2)).to(dtype)
    bound = 1e-12 if dtype == torch.float64 else 2e-4
    torch.testing.assert_close((turn @ here[..., None])[..., 0], there, rtol=0, atol=bound)


def test_products_depend_on_distance_alone():
    table = sinusoids(60, 32)
    assert (table[0] @ table[10]).item() == pytest.approx(10.0589, abs=1e-4)
    assert (table[30] @ table[40]).item() == pytest.approx(10.0589, abs=1e-4)
    # the squared length of a row is half the width
    torch.testing.assert_close(table.square().sum(-1), torch.full((60,), 16.0, dtype=torch.float64))


def test_no_two_positions_are_alike():
    """The nearest two of 60 rows of width 32 are 1.17 apart."""
    assert torch.pdist(sinusoids(60, 32)).min().item() == pytest.approx(1.17, abs=5e-3)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_what_is_added_to_the_embeddings(dtype):
    position, x = Sinusoidal(32), torch.randn(2, 3, 5, 32).to(dtype)
    assert position.state_dict() == {}
    # a type that the module had before leaves no trace
    position.bfloat16()
    for start in (0, 1000):
        assert torch.equal(position.embed(x, start), x + sinusoids(5, 32, start).to(dtype))


def test_positions_far_out_are_exact():
    """Angles are computed in float64: at a million they are as good as at one."""
    angle = 1_000_000 / 10000 ** (2 / 8)
    assert sinusoids(1, 8, 1_000_000)[0, 2].item() == pytest.approx(math.sin(angle), abs=1e-9)


def test_a_device_without_float64_gets_its_angles_from_the_processor():
    assert exact(torch.device("mps")) == exact(torch.device("xpu", 1)) == torch.device("cpu")
    assert exact(torch.device("cuda", 1)) == torch.device("cuda", 1)
    assert sinusoidal.sinusoids(3, 4, device=torch.device("mps")).device.type == "cpu"


def test_odd_widths_are_refused():
    with pytest.raises(ConfigError, match="sinusoidal positions need an even d_model, got 7; use 6 or 8"):
        Sinusoidal(7)
    with pytest.raises(ConfigError, match="sinusoidal positions need an even d_model, got 0; use 2"):
        Sinusoidal(0)
    with pytest.raises(ShapeError, match="sinusoidal positions of width 6 meet embeddings of width 1"):
        Sinusoidal(6).embed(torch.zeros(2, 5, 1), 0)


@pytest.mark.parametrize("start", [0, 300])
def test_another_base_has_its_own_frequencies(start):
    found = Sinusoidal(6, base=100.0).embed(torch.zeros(1, 5, 6, dtype=torch.float64), start)[0]
    exact = [[(math.sin, math.cos)[j % 2](i / 100 ** (j // 2 / 3)) for j in range(6)] for i in range(start, start + 5)]
    torch.testing.assert_close(found, torch.tensor(exact, dtype=torch.float64))
    with pytest.raises(ConfigError, match="base of sinusoidal positions must be above 0"):
        Sinusoidal(6, base=0.0)


def test_under_fake_tensors():
    position = Sinusoidal(6)
    with FakeTensorMode():
        for start in (0, 300):
            assert position.embed(torch.zeros(2, 5, 6), start).shape == (2, 5, 6)


@pytest.mark.parametrize("start", [0, 1, 200, 254, 255, 256, 1000, -1, -3])
@pytest.mark.parametrize("length", [0, 1, 2, 300])
def test_positions_that_are_kept_are_those_that_are_computed(start, length):
    x = torch.zeros(1, length, 6, dtype=torch.float64)
    found = Sinusoidal(6).embed(x, start)
    torch.testing.assert_close(found[0], sinusoids(length, 6, start), rtol=0, atol=1e-15)
