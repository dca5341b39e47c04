"""Sines and cosines added to the embeddings."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise import positions
from headwise.errors import ConfigError
from headwise.positions.sinusoidal import Sinusoidal, sinusoids


def test_the_formula_entry_by_entry():
    table = sinusoids(60, 32)
    assert table.dtype == torch.float64
    for position in range(60):
        for pair in range(16):
            angle = position / 10000 ** (2 * pair / 32)
            assert table[position, 2 * pair].item() == pytest.approx(math.sin(angle), abs=1e-12)
            assert table[position, 2 * pair + 1].item() == pytest.approx(math.cos(angle), abs=1e-12)


def test_the_first_row_and_the_length_of_every_row():
    """Position 0 is (0, 1, 0, 1, ...); the squared length of a row is half the width, 16 for 32."""
    table = sinusoids(60, 32)
    assert table[0].tolist() == [0.0, 1.0] * 16
    torch.testing.assert_close(table.square().sum(-1), torch.full((60,), 16.0, dtype=torch.float64))


def test_columns_six_to_nine_at_positions_one_and_two():
    table = sinusoids(60, 32)
    expected = [[0.17689219, 0.98423023, 0.09983342, 0.99500417], [0.34820528, 0.93741831, 0.19866933, 0.98006658]]
    torch.testing.assert_close(table[1:3, 6:10], torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-8)


def test_frequencies_fall_with_the_column():
    """Columns 6 and 7 share the frequency .17783 (period 35.33), columns 8 and 9 share .1 (62.83), a quarter apart."""
    table = sinusoids(2000, 32)
    frequencies = torch.atan2(table[1, 0::2], table[1, 1::2])
    assert (frequencies[1:] < frequencies[:-1]).all()
    assert frequencies[3].item() == pytest.approx(0.17783, abs=1e-5)
    assert 2 * math.pi / frequencies[3].item() == pytest.approx(35.33, abs=0.01)
    assert frequencies[4].item() == pytest.approx(0.1, abs=1e-12)
    assert 2 * math.pi / frequencies[4].item() == pytest.approx(62.83, abs=0.01)
    for pair in range(16):
        angles = torch.arange(2000, dtype=torch.float64) * frequencies[pair]
        torch.testing.assert_close(table[:, 2 * pair + 1], torch.sin(angles + math.pi / 2), rtol=0, atol=1e-9)


@given(st.integers(0, 1500), st.sampled_from([1, 5, 17, 400]), st.sampled_from([2, 8, 32]))
def test_a_shift_is_a_rotation_that_does_not_depend_on_position(position, shift, width):
    """[[cos dw, sin dw], [-sin dw, cos dw]] turns p_i into p_(i+d), in float64 to 1e-12 and in float32 to 2e-4."""
    for table, bound in ((sinusoids(2000, width), 1e-12), (sinusoids(2000, width).float(), 2e-4)):
        for pair in range(width // 2):
            angle = shift * 10000 ** (-2 * pair / width)
            turn = [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
            here, there = (table[p, 2 * pair : 2 * pair + 2] for p in (position, position + shift))
            torch.testing.assert_close(torch.tensor(turn, dtype=table.dtype) @ here, there, rtol=0, atol=bound)


def test_products_depend_on_distance_alone():
    table = sinusoids(60, 32)
    assert (table[0] @ table[10]).item() == pytest.approx(10.0589, abs=1e-4)
    assert (table[30] @ table[40]).item() == pytest.approx(10.0589, abs=1e-4)


def test_no_two_positions_are_alike():
    """The nearest two of 60 rows of width 32 are 1.17 apart."""
    distances = torch.pdist(sinusoids(60, 32))
    assert distances.min().item() == pytest.approx(1.17, abs=5e-3)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_what_is_added_to_the_embeddings(dtype):
    position = Sinusoidal(32)
    x = torch.randn(2, 3, 5, 32).to(dtype)
    for start in (0, 7, 1000):
        output = position.embed(x, start)
        assert output.dtype == dtype
        expected = x + sinusoids(5, 32, start).to(dtype)
        torch.testing.assert_close(output, expected, rtol=0, atol=0 if dtype == torch.float64 else 1e-6)
    zeros = position.embed(torch.zeros(1, 60, 32, dtype=dtype), 0)
    torch.testing.assert_close(zeros[0].double(), sinusoids(60, 32), rtol=0, atol=0 if dtype == torch.float64 else 4e-3)


def test_the_table_grows_on_demand_and_is_no_state():
    position = Sinusoidal(8)
    assert position.state_dict() == {}
    for end in (64, 65, 129, 5000):
        output = position.embed(torch.zeros(1, 1, 8), end - 1)
        torch.testing.assert_close(output[0].double(), sinusoids(1, 8, end - 1), rtol=0, atol=1e-6)
    half = position.to(torch.bfloat16)
    assert half.embed(torch.zeros(1, 7000, 8, dtype=torch.bfloat16), 0).dtype == torch.bfloat16


def test_positions_far_out_are_exact():
    """Angles are computed in float64: at a million they are as good as at one."""
    angle = 1_000_000 / 10000 ** (2 / 8)
    assert sinusoids(1, 8, 1_000_000)[0, 2].item() == pytest.approx(math.sin(angle), abs=1e-9)


def test_a_table_grown_without_gradients_serves_training():
    position = Sinusoidal(8)
    with torch.inference_mode():
        position.embed(torch.zeros(1, 100, 8), 0)
    x = torch.zeros(1, 100, 8, requires_grad=True)
    position.embed(x, 0).square().sum().backward()
    assert x.grad.isfinite().all()


def test_odd_widths_are_refused():
    with pytest.raises(ConfigError, match="sinusoidal positions need an even d_model, got 7; use 6 or 8"):
        Sinusoidal(7)
    with pytest.raises(ConfigError, match="need an even d_model, got 33"):
        positions.build("sinusoidal", 33, 11, 3, 5)
