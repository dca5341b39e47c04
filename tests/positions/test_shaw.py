"""Learned vectors for clipped distances, on keys and on values."""

import pytest
import torch
from relative_loops import WIDTH, assert_equal, by_pairs, spread, tensors

from headwise.errors import ConfigError
from headwise.positions.shaw import Shaw


@pytest.mark.parametrize(("clip", "start", "kv_heads"), [(0, 2, 3), (2, 0, 1), (2, 2, 3), (16, 2, 1)])
def test_the_definition_pair_by_pair(clip, start, kv_heads):
    """Eq. 3 to 5 of the paper: e = q (k + a^K) / sqrt(d), z = sum of weights times (v + a^V)."""
    position = spread(Shaw(WIDTH, max_distance=clip))
    query, key, value = inputs = tensors(kv_heads)

    def row(i, j):
        return max(-clip, min(clip, j - i - start)) + clip

    def score(b, h, i, j):
        return query[b, h, i] @ (key[b, h * kv_heads // 3, j] + position.keys[row(i, j)]) / WIDTH**0.5

    assert_equal(position, inputs, start, by_pairs(value, score, lambda i, j: position.values[row(i, j)]))


def test_only_the_rows_that_can_be_met_are_used():
    position = Shaw(WIDTH, max_distance=3)
    query = torch.zeros(1, 2, 5, WIDTH)
    assert torch.equal(position.relative(query, query, -9, 9).value_table[0], position.values)
    near = position.relative(query, query, -1, 2)
    assert (near.low, near.size) == (-1, 4)
    assert torch.equal(near.value_table[0], position.values[2:6])


def test_the_parameters_do_not_grow_with_heads():
    assert sum(p.numel() for p in Shaw.sized(24, 4, 6, 100).parameters()) == 2 * 33 * 4


def test_a_distance_below_zero():
    with pytest.raises(ConfigError, match="max_distance of shaw positions must be at least 0, got -1"):
        Shaw(4, max_distance=-1)
