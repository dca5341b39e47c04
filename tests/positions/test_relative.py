"""Tables of relative positions, whole and in parts."""

import pytest
import torch

from headwise.attention.relative import Relative
from headwise.errors import ShapeError


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
    return Relative(low=-3, **{name: tensor.double().requires_grad_() for name, tensor in tables.items()})


def test_terms_pair_by_pair(relative):
    weights, start = torch.rand(2, 3, 7, 11, dtype=torch.float64), 2
    bias, values = torch.zeros(2, 3, 7, 11, dtype=torch.float64), torch.zeros(2, 3, 7, 6, dtype=torch.float64)
    for i in range(7):
        for j in range(11):
            row = min(max(j - i - start + 3, 0), 4)
            by_query = (relative.query[:, :, i] * relative.query_table[:, row]).sum(-1)
            by_key = (relative.key[:, :, j] * relative.key_table[:, row]).sum(-1)
            bias[:, :, i, j] = relative.scalar[:, row] + by_query + by_key
            values[:, :, i] += weights[:, :, i, j, None] * relative.value_table[:, row]
    torch.testing.assert_close(relative.bias(7, 11, start), bias, rtol=0, atol=1e-13)
    torch.testing.assert_close(relative.values(weights, start), values, rtol=0, atol=1e-13)


@pytest.mark.parametrize("placed", [False, True])
@pytest.mark.parametrize("start", [0, 2])
def test_parts_are_those_of_the_whole(relative, start, placed):
    if placed:
        relative = relative.placed(torch.randint(-5, 5, (7, 11)))
    whole, weights = relative.bias(7, 11, start), torch.rand(2, 3, 7, 11, dtype=torch.float64)
    for heads, rows, keys in (([2, 0], (2, 5), (3, 10)), ([1], (0, 7), (4, 4)), (None, (6, 7), (0, 11))):
        part = relative.part(heads, rows, keys)
        one = slice(None) if heads is None else heads
        queries, columns = slice(*rows), slice(*keys)
        found = part.bias(rows[1] - rows[0], keys[1] - keys[0], start + rows[0])
        torch.testing.assert_close(found, whole[:, one, queries, columns], rtol=0, atol=1e-14)
        used = torch.zeros_like(weights)
        used[:, :, queries, columns] = weights[:, :, queries, columns]
        values = part.values(weights[:, one, queries, columns], start + rows[0])
        torch.testing.assert_close(values, relative.values(used, start)[:, one, queries], rtol=0, atol=1e-14)
    assert torch.equal(relative.part().bias(7, 11, start), whole)


def test_gradients_reach_every_tensor_unless_detached(relative):
    whole = relative.bias(7, 11).sum() + relative.values(torch.rand(2, 3, 7, 11, dtype=torch.float64)).sum()
    whole.backward()
    assert len(relative.tensors) == 6
    assert all(tensor.grad.any() for tensor in relative.tensors)
    assert not any(tensor.requires_grad for tensor in relative.detached().tensors)


def test_a_sequence_at_a_time_is_the_batch(relative):
    relative = relative.detached()
    weights = torch.rand(2, 3, 7, 11, dtype=torch.float64)

    def alone(query, key, weights):
        tables = Relative(relative.low, relative.scalar, query[None], relative.query_table, key[None])
        values = Relative(relative.low, value_table=relative.value_table).values(weights[None])
        return tables.part(queries=(1, 7)).bias(6, 11, 1)[0], values[0]

    bias, values = torch.vmap(alone)(relative.query, relative.key, weights)
    without = Relative(relative.low, relative.scalar, relative.query, relative.query_table)
    torch.testing.assert_close(bias, without.bias(7, 11)[:, :, 1:])
    torch.testing.assert_close(values, relative.values(weights))


def test_tables_that_differ():
    with pytest.raises(ShapeError, match="tables of relative positions need one number of rows, got none"):
        Relative(0).size  # noqa: B018


@pytest.mark.usefixtures("untyped")
def test_tables_of_two_lengths():
    both = Relative(0, scalar=torch.zeros(1, 3), value_table=torch.zeros(1, 5, 2))
    with pytest.raises(ShapeError, match=r"need one number of rows, got \[3, 5\]"):
        both.bias(1, 1)
