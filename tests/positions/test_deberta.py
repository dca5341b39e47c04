"""Disentangled attention: content to content, content to position, position to content."""

import pytest
import torch
from relative_loops import WIDTH, assert_equal, by_pairs, spread, tensors

from headwise.errors import ConfigError
from headwise.positions.deberta import Deberta

D_MODEL = 6


def place(i: int, j: int, k: int) -> int:
    """Eq. 3 of the paper."""
    if i - j <= -k:
        return 0
    return 2 * k - 1 if i - j >= k else i - j + k


@pytest.mark.parametrize("kv_heads", [3, 1])
@pytest.mark.parametrize("start", [0, 2])
@pytest.mark.parametrize("clip", [1, 3, 20])
def test_the_definition_pair_by_pair(clip, start, kv_heads):
    """Eq. 4 of the paper, all three terms over sqrt(3 d)."""
    position = spread(Deberta(D_MODEL, 3, WIDTH, max_distance=clip))
    query, key, value = inputs = tensors(kv_heads)

    def score(b, h, i, j):
        q, k = query[b, h, i], key[b, h * kv_heads // 3, j]
        rows = slice(h * WIDTH, (h + 1) * WIDTH)
        key_place = position.keys.weight[rows] @ position.table[place(i + start, j, clip)]
        query_place = position.queries.weight[rows] @ position.table[place(j, i + start, clip)]
        return (q @ k + q @ key_place + k @ query_place) / (3 * WIDTH) ** 0.5

    assert_equal(position, inputs, start, by_pairs(value, score))


def test_only_near_rows_are_projected():
    position = Deberta(D_MODEL, 3, WIDTH, max_distance=512)
    query = torch.zeros(1, 3, 5, WIDTH)
    position.relative(query, query, -4, 4).query_table.sum().backward()
    used = position.table.grad.any(-1).nonzero().flatten()
    assert used.tolist() == list(range(508, 517))


def test_a_kept_table_is_that_of_training():
    position = spread(Deberta(D_MODEL, 3, WIDTH, max_distance=7))
    query = tensors()[0].detach()
    for low, high in ((-4, 4), (-9, 0), (-200, 300), (0, 0)):
        learning = position.relative(query, query, low, high)
        with torch.no_grad():
            kept = position.relative(query, query, low, high)
        assert kept.low == learning.low == max(low, -7)
        for name in ("query_table", "key_table"):
            torch.testing.assert_close(getattr(kept, name), getattr(learning, name), rtol=0, atol=1e-14)


def test_a_model_spans_its_length():
    assert Deberta.sized(12, 4, 3, 31).table.shape == (62, 12)


def test_a_distance_below_one():
    with pytest.raises(ConfigError, match="max_distance of deberta positions must be at least 1, got 0"):
        Deberta(12, 3, 4, max_distance=0)
