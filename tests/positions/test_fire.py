"""A small network of the distance as a share of the query's position."""

import math

import pytest
import torch
from relative_loops import KEYS, QUERIES, WIDTH, assert_equal, by_pairs, spread, tensors

from headwise.errors import ConfigError
from headwise.positions.fire import Fire


def bias(position: Fire, head: int, i: int, j: int) -> torch.Tensor:
    """Li et al. 2024, the listing, for one pair."""

    def psi(x):
        return torch.log(position.rate.abs() * x + 1)

    threshold = (position.share * position.max_len).abs()
    share = psi(abs(i - j)) / (psi(max(torch.tensor(float(i)).double(), threshold)) + 1e-6)
    inner = [torch.relu(position.inner.weight[n, 0] * share + position.inner.bias[n]) for n in range(4)]
    return sum(position.outer.weight[head, n] * inner[n] for n in range(4)) + position.outer.bias[head]


@pytest.mark.parametrize("start", [0, 2])
@pytest.mark.parametrize("max_len", [3, 50])
def test_the_definition_pair_by_pair(start, max_len):
    """Queries before and behind L; gradients of rate and share too."""
    query, key, value = inputs = tensors()
    position = spread(Fire(3, max_len, hidden=4))

    def score(b, h, i, j):
        return query[b, h, i] @ key[b, h, j] / WIDTH**0.5 + bias(position, h, i + start, j)

    assert_equal(position, inputs, start, by_pairs(value, score))


def test_shares_of_the_position_beyond_the_threshold():
    """Half the way back is nearly the same number at position 100 and at 200 when log(c x + 1) is near log(c x)."""
    position = Fire(2, 4).double()
    torch.nn.init.constant_(position.rate, 1e6)
    zeros = torch.zeros(1, 2, 201, WIDTH, dtype=torch.float64)
    table = position.bias(zeros, zeros, 0)
    short = math.log(50e6) / math.log(100e6)
    far = position.bias(zeros[:, :, :1], zeros, 200)[0, :, 0]
    torch.testing.assert_close(far, table[0, :, 200], rtol=0, atol=1e-12)
    expected = position.outer(torch.relu(position.inner(torch.tensor([short], dtype=torch.float64))))
    torch.testing.assert_close(table[0, :, 100, 50], expected, rtol=0, atol=1e-6)


def test_unknown_sizes():
    with pytest.raises(ConfigError, match=r"fire needs num_heads \(0\), max_len \(8\) and hidden \(32\) above 0"):
        Fire(0, 8)
    assert Fire(3).bias(torch.zeros(1, 3, QUERIES, 4), torch.zeros(1, 1, KEYS, 4), 1).shape == (1, 3, QUERIES, KEYS)
