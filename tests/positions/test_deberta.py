"""Disentangled attention: content to content, content to position, position to content."""

import math

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


def log_place(i: int, j: int, k: int, longest: int) -> int:
    """The same with k buckets for each side, as the released code writes it."""
    near, away = k // 2, abs(i - j)
    if away > near:
        # the nudge stands for real numbers, in which an exact power is not rounded up
        part = math.log(away / near) / math.log((longest - 1) / near)
        away = near + math.ceil(part * (near - 1) - 1e-9)
    return min(max(k + (away if i > j else -away), 0), 2 * k - 1)


@pytest.mark.parametrize(
    ("start", "kv_heads", "options"),
    [
        (0, 3, {"max_distance": 3}),
        (2, 1, {"max_distance": 1}),
        (2, 3, {"max_distance": 20}),
        (0, 1, {"max_distance": 3, "index": "released"}),
        (2, 3, {"max_distance": 6, "index": "released", "buckets": 4}),
    ],
)
def test_the_definition_pair_by_pair(start, options, kv_heads):
    """Eq. 4 of the paper, all three terms over sqrt(3 d); the released models read both tables at one index."""
    position = spread(Deberta(D_MODEL, 3, WIDTH, **options))
    query, key, value = inputs = tensors(kv_heads)
    longest, buckets = options["max_distance"], options.get("buckets")

    def row(linear, i, j, h):
        index = place(i, j, longest) if buckets is None else log_place(i, j, buckets, longest)
        return linear(position.table[index]).unflatten(0, (3, WIDTH))[h]

    def score(b, h, i, j):
        q, k, at = query[b, h, i], key[b, h * kv_heads // 3, j], i + start
        back = (at, j) if position.index == "released" else (j, at)
        return (q @ k + q @ row(position.keys, at, j, h) + k @ row(position.queries, *back, h)) / (3 * WIDTH) ** 0.5

    assert_equal(position, inputs, start, by_pairs(value, score))


@pytest.mark.parametrize(("buckets", "longest"), [(4, 4), (6, 40), (32, 128), (256, 512)])
def test_the_buckets_of_every_distance(buckets, longest):
    position = Deberta(2, 1, 2, max_distance=longest, index="released", buckets=buckets)
    with torch.no_grad():
        position.keys.weight.copy_(torch.eye(2))
        position.table.copy_(torch.arange(2.0 * buckets)[:, None].expand(-1, 2))
    query = torch.zeros(1, 1, 1, 2)
    relative = position.relative(query, query, -3 * longest, 3 * longest)
    assert (relative.low, relative.size) == (-longest, 2 * longest + 1)
    rows = (relative.query_table[0, :, 0] - relative.query_table[0, 0, 0]) * 3**0.25 * 2**0.5
    expected = [log_place(0, n, buckets, longest) for n in range(-longest, longest + 1)]
    assert (rows.round().int() + expected[0]).tolist() == expected
    for far in (longest, 3 * longest):
        assert (log_place(0, far, buckets, longest), log_place(far, 0, buckets, longest)) == (0, 2 * buckets - 1)


def test_only_near_rows_are_projected():
    position = Deberta(D_MODEL, 3, WIDTH, max_distance=512)
    query = torch.zeros(1, 3, 5, WIDTH)
    position.relative(query, query, -4, 4).query_table.sum().backward()
    used = position.table.grad.any(-1).nonzero().flatten()
    assert used.tolist() == list(range(508, 517))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_distance": 0}, "max_distance of deberta positions must be at least 1, got 0"),
        ({"index": "mine"}, "index of deberta positions must be 'paper' or 'released', got 'mine'"),
        ({"buckets": 5}, "buckets of deberta positions must be even, at least 4, .* got 5"),
        ({"buckets": 32, "max_distance": 17}, "half of them below max_distance \\(17\\) - 1, got 32"),
    ],
)
@pytest.mark.usefixtures("untyped")
def test_sizes_that_leave_no_room(options, message):
    with pytest.raises(ConfigError, match=message):
        Deberta(12, 3, 4, **options)
