"""Scores that fall with the logarithm, or a power, of the distance."""

import pytest
import torch
from relative_loops import WIDTH, assert_equal, by_pairs, tensors

from headwise.errors import ConfigError
from headwise.positions.alibi import Alibi
from headwise.positions.kerple import Kerple


@pytest.mark.parametrize("start", [0, 2])
@pytest.mark.parametrize("form", ["log", "power"])
def test_the_definition_pair_by_pair(form, start):
    query, key, value = inputs = tensors()
    position = Kerple(3, form=form).double()

    def fall(h, distance):
        amount, rate = position.amount[h], position.rate[h]
        # 0 to a power has no derivative by that power
        power = distance**rate if distance else torch.zeros(())
        return amount * (torch.log(1 + rate * distance) if form == "log" else power)

    expected = by_pairs(
        value, lambda b, h, i, j: query[b, h, i] @ key[b, h, j] / WIDTH**0.5 - fall(h, abs(i + start - j))
    )
    assert_equal(position, inputs, start, expected)


def test_the_power_form_with_power_one_is_alibi():
    query, position, alibi = torch.zeros(1, 4, 3, 8), Kerple(4, form="power"), Alibi(4)
    with torch.no_grad():
        position.rate.fill_(1.0)
        position.amount.copy_(torch.tensor(alibi.slopes))
        # the first head's slope is 1/4; the last one's, 1/256, lies below the least rate
        expected = alibi.relative(query, query, -9, 9).scalar[:3]
        torch.testing.assert_close(position.relative(query, query, -9, 9).scalar[:3], expected)


def test_rates_below_zero_are_kept_above_it_and_powers_at_two():
    position, query = Kerple(1, form="power"), torch.zeros(1, 1, 1, 4)
    with torch.no_grad():
        position.amount.fill_(-5.0)
        position.rate.fill_(9.0)
        assert position.relative(query, query, -3, 0).scalar[0].tolist() == pytest.approx([-0.09, -0.04, -0.01, 0.0])


@pytest.mark.usefixtures("untyped")
def test_what_it_cannot_be():
    with pytest.raises(ConfigError, match="kerple positions need at least 1 head, got 0"):
        Kerple(0)
    with pytest.raises(ConfigError, match="must be 'log' or 'power', got 'root'"):
        Kerple(2, form="root")
