"""Scores that fall linearly with distance."""

import pytest
import torch
from relative_loops import KEYS, QUERIES, WIDTH, assert_equal, by_pairs, tensors

from headwise.errors import ConfigError
from headwise.positions.alibi import Alibi, slopes


def test_the_slopes_of_the_paper():
    """Press et al. 2022, section 3: 1/2 ... 1/256 for 8 heads; for 16 heads, 1/2^0.5, 1/2^1, ..., 1/2^8."""
    assert slopes(8) == (1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256)
    assert slopes(16) == pytest.approx([2 ** (-(head + 1) / 2) for head in range(16)])
    assert slopes(1) == (1 / 256,)


def test_the_slopes_between_powers_of_two():
    """The paper's code for 12 heads: those of 8, then the first, third, fifth and seventh of 16."""
    assert slopes(12) == pytest.approx([*(2**-n for n in range(1, 9)), 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5])
    assert slopes(3) == (1 / 16, 1 / 256, 1 / 4)
    assert slopes(5) == pytest.approx([2**-2, 2**-4, 2**-6, 2**-8, 2**-1])


@pytest.mark.parametrize("start", [0, 2])
def test_the_definition_pair_by_pair(start):
    query, key, value = inputs = tensors()
    slope = [1 / 16, 1 / 256, 1 / 4]
    expected = by_pairs(
        value, lambda b, h, i, j: query[b, h, i] @ key[b, h, j] / WIDTH**0.5 - slope[h] * abs(i + start - j)
    )
    assert_equal(Alibi(3), inputs, start, expected)


def test_both_sides_are_alike_and_far_distances_exact():
    query = torch.zeros(1, 2, QUERIES, WIDTH, dtype=torch.bfloat16)
    scalar = Alibi(2).relative(query, query[:, :, :KEYS], -100_001, 100_001).scalar
    assert scalar.dtype == torch.float32
    assert torch.equal(scalar, scalar.flip(1))
    # bfloat16 would know no odd number above 256
    assert scalar[0, 0].item() == -100_001 / 16


def test_no_heads():
    with pytest.raises(ConfigError, match="alibi positions need at least 1 head, got 0"):
        Alibi(0)
