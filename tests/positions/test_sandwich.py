"""Scores that fall as the product of two sinusoidal vectors does."""

import math

import pytest
import torch
from relative_loops import WIDTH, assert_equal, by_pairs, tensors

from headwise.errors import ConfigError
from headwise.positions.sandwich import Sandwich
from headwise.positions.sinusoidal import sinusoids


@pytest.mark.parametrize("start", [0, 2])
def test_the_definition_pair_by_pair(start):
    query, key, value = inputs = tensors()

    def bias(h, distance):
        waves = sum(math.cos(distance / 10000 ** (2 * c / 6)) for c in range(3))
        return 8 * (h + 1) / 3 * (waves - 3)

    expected = by_pairs(value, lambda b, h, i, j: query[b, h, i] @ key[b, h, j] / WIDTH**0.5 + bias(h, i + start - j))
    assert_equal(Sandwich(3, columns=6), inputs, start, expected)


def test_it_is_the_product_of_the_vectors_of_the_transformer():
    vectors, query = sinusoids(50, 128), torch.zeros(1, 8, 1, 4, dtype=torch.float64)
    expected = vectors @ vectors[0] - 64
    table = Sandwich(8).relative(query, query, 0, 49).scalar
    torch.testing.assert_close(table[0], expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(table[7], 8 * expected, rtol=0, atol=1e-10)


def test_what_it_cannot_be():
    with pytest.raises(ConfigError, match="sandwich positions need at least 1 head, got 0"):
        Sandwich(0)
    with pytest.raises(ConfigError, match="columns of sandwich positions must be even, got 5"):
        Sandwich(2, columns=5)
