"""Relative positions asked for some queries only: their rows are those of all queries."""

import pytest
import torch

from headwise.attention.relative import Relative


@pytest.fixture
def relative():
    tables = {
        "scalar": torch.randn(3, 5),
        "query": torch.randn(2, 3, 7, 4),
        "query_table": torch.randn(3, 5, 4),
        "key": torch.randn(2, 3, 11, 4),
        "key_table": torch.randn(1, 5, 4),
        "value_table": torch.randn(3, 5, 6),
    }
    return Relative(low=-3, **{name: tensor.double() for name, tensor in tables.items()})


@pytest.mark.parametrize("start", [0, 2])
@pytest.mark.parametrize(("first", "last"), [(0, 7), (2, 5), (6, 7)])
def test_rows_are_those_of_the_whole(relative, first, last, start):
    whole = relative.bias(0, 7, 11, start)
    torch.testing.assert_close(relative.bias(first, last, 11, start), whole[:, :, first:last], rtol=0, atol=1e-14)
    weights = torch.rand(2, 3, 7, 11, dtype=torch.float64)
    every = relative.values(weights, 0, start)
    part = relative.values(weights[:, :, first:last], first, start)
    torch.testing.assert_close(part, every[:, :, first:last], rtol=0, atol=1e-14)


def test_values_by_distance_are_those_of_two_loops(relative):
    weights = torch.rand(2, 3, 7, 11, dtype=torch.float64)
    expected = torch.zeros(2, 3, 7, 6, dtype=torch.float64)
    for i in range(7):
        for j in range(11):
            row = min(max(j - i + 3, 0), 4)
            expected[:, :, i] += weights[:, :, i, j, None] * relative.value_table[:, row]
    torch.testing.assert_close(relative.values(weights, 0), expected, rtol=0, atol=1e-13)
