"""A learned vector for each position."""

import pytest
import torch

from headwise.errors import ConfigError, ShapeError
from headwise.positions.learned import Learned


def test_learned_positions_are_a_table_that_is_added():
    position = Learned(128, 12)
    assert sum(p.numel() for p in position.parameters()) == 128 * 12
    x = torch.randn(2, 5, 12)
    torch.testing.assert_close(position.embed(x, 3), x + position.table[3:8])
    position.embed(x, 3).sum().backward()
    assert position.table.grad[3:8].eq(2).all()
    assert not position.table.grad[:3].any()
    assert not position.table.grad[8:].any()
    # random, small, and different
    assert position.table.std().item() == pytest.approx(0.02, rel=0.1)


def test_a_position_beyond_the_learned_table_is_an_error_and_never_wraps():
    position = Learned(128, 4)
    assert position.embed(torch.zeros(1, 128, 4), 0).shape == (1, 128, 4)
    message = (
        "position 128 is beyond the learned table of 128 positions; shorten the input, train with a larger max_len,"
        " or use sinusoidal or rotary positions"
    )
    for length, start in ((129, 0), (1, 128), (2, 127)):
        with pytest.raises(ShapeError, match=message):
            position.embed(torch.zeros(1, length, 4), start)


@pytest.mark.parametrize(("rows", "length"), [(5, 9), (5, 23), (2, 7), (1, 3), (7, 8)])
def test_a_stretched_table_lies_between_its_rows(rows, length):
    position = Learned(rows, 3, interpolate=True).double()
    found = position.embed(torch.zeros(1, length, 3, dtype=torch.float64), 0)[0]
    for i in range(length):
        place = i * (rows - 1) / (length - 1)
        below = min(int(place), max(0, rows - 2))
        above = min(below + 1, rows - 1)
        expected = position.table[below] + (place - below) * (position.table[above] - position.table[below])
        torch.testing.assert_close(found[i], expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(found[[0, -1]], position.table[[0, -1]])
    gradient = torch.autograd.grad(found.sum(), position.table)[0]
    assert gradient.sum().item() == pytest.approx(3 * length)
    assert gradient.all()


def test_within_the_table_nothing_is_stretched():
    x = torch.randn(2, 5, 12)
    plain, stretching = Learned(7, 12), Learned(7, 12, interpolate=True)
    stretching.load_state_dict(plain.state_dict())
    for start in (0, 2):
        assert torch.equal(plain.embed(x, start), stretching.embed(x, start))


def test_a_part_of_a_stretched_input_is_refused():
    message = (
        "an interpolated table depends on the whole input, got positions 6 to 8 alone; give the input at once, or"
        " stay within 7 positions"
    )
    with pytest.raises(ShapeError, match=message):
        Learned(7, 4, interpolate=True).embed(torch.zeros(1, 3, 4), 6)


def test_an_empty_table_is_refused():
    with pytest.raises(ConfigError, match="learned positions need a max_len of at least 1, got 0"):
        Learned(0, 4)
