"""Positions that count what a query chooses to count."""

import pytest
import torch
from relative_loops import HEADS, WIDTH, assert_equal, by_pairs, spread, tensors, through

from headwise.attention.masks import Causal
from headwise.errors import ConfigError
from headwise.positions.cope import Cope


@pytest.mark.parametrize("kv_heads", [1, 3])
@pytest.mark.parametrize("start", [0, 2])
def test_the_definition_pair_by_pair(start, kv_heads):
    """Golovneva et al. 2024, eq. 3 to 5; three rows, so that some counts are clipped."""
    query, key, value = inputs = tensors(kv_heads)
    position, group = spread(Cope(WIDTH, size=3)), HEADS // kv_heads

    def score(b, h, i, j):
        keys = key[b, h // group]
        gates = [torch.sigmoid(query[b, h, i] @ keys[n] / WIDTH**0.5) for n in range(j, i + start + 1)]
        count = min(sum(gates, torch.zeros((), dtype=torch.float64)), torch.tensor(2.0).double())
        low = int(count)
        rows = [query[b, h, i] @ position.table[min(row, 2)] for row in (low, low + 1)]
        return query[b, h, i] @ keys[j] / WIDTH**0.5 + rows[0] + (count - low) * (rows[1] - rows[0])

    assert_equal(position, inputs, start, by_pairs(value, score))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
def test_as_x_transformers_with_masked_scores():
    query, key = torch.randn(2, HEADS, 9, WIDTH), torch.randn(2, HEADS, 9, WIDTH)
    position, other = Cope(WIDTH, size=5), pytest.importorskip("x_transformers.x_transformers").CoPE(WIDTH, HEADS, 5)
    other.load_state_dict({"pos_emb": position.table.data})
    scores = query @ key.mT / WIDTH**0.5
    later = torch.ones(9, 9, dtype=torch.bool).triu(1)
    expected = other(query, scores.masked_fill(later, -torch.finfo(scores.dtype).max))
    found = position.bias(query, key, 0)
    torch.testing.assert_close(found.masked_fill(later, 0), expected.masked_fill(later, 0))


def test_a_later_key_changes_no_earlier_row():
    query, key, value = (tensor.detach() for tensor in tensors())
    position, changed = spread(Cope(WIDTH, size=4)), key.clone()
    changed[:, :, 4] = 9.0
    before, after = (through(position, query, k, value, mask=Causal()) for k in (key, changed))
    assert torch.equal(before[:, :, :4], after[:, :, :4])
    assert not torch.equal(before[:, :, 4], after[:, :, 4])


def test_too_few_rows():
    with pytest.raises(ConfigError, match="size of cope positions must be at least 2, got 1"):
        Cope(4, size=1)
