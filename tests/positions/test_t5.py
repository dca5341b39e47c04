"""A learned number for each bucket of distances."""

import math

import pytest
import torch
from relative_loops import WIDTH, assert_equal, by_pairs, spread, tensors

from headwise.errors import ConfigError
from headwise.positions.t5 import T5


def by_logarithms(distance: int, bidirectional: bool, buckets: int, longest: int) -> int:
    """The formula of the paper's code, in floating point."""
    first = 0
    if bidirectional:
        buckets //= 2
        first = buckets if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(0, -distance)
    near = buckets // 2
    if distance < near:
        return first + distance
    part = math.log(distance / near) / math.log(longest / near)
    # the nudge stands for real numbers, in which an exact power is not rounded down
    return first + min(buckets - 1, near + math.floor(part * (buckets - near) + 1e-9))


@pytest.mark.parametrize(("buckets", "longest"), [(32, 128), (16, 64), (8, 20), (4, 7), (64, 1000)])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_the_buckets_of_every_distance(bidirectional, buckets, longest):
    position = T5(1, bidirectional=bidirectional, num_buckets=buckets, max_distance=longest)
    found = position.buckets(-2 * longest, 2 * longest).tolist()
    assert found == [by_logarithms(n, bidirectional, buckets, longest) for n in range(-2 * longest, 2 * longest + 1)]


def test_buckets_by_hand():
    """32 buckets, both sides: 8 exact ones, then floor(8 + 2 log2(a / 8)): 16 at 8 sqrt(2) = 11.3 and so on."""
    expected = {0: 0, 7: 7, 8: 8, 11: 8, 12: 9, 15: 9, 16: 10, 22: 10, 23: 11, 32: 12, 64: 14, 90: 14, 91: 15, 9999: 15}
    both, past = T5(1), T5(1, bidirectional=False)
    for away, number in expected.items():
        assert both.buckets(-away, -away).item() == number
        assert both.buckets(away, away).item() == (number + 16 if away else 0)
        assert past.buckets(away, away).item() == 0


def test_the_table_covers_clipped_distances():
    position = T5(3, num_buckets=8, max_distance=20)
    query = torch.zeros(1, 3, 5, WIDTH)
    near, far = position.relative(query, query, -4, 2), position.relative(query, query, -1000, 2000)
    assert (near.low, near.size) == (-4, 7)
    assert (far.low, far.size) == (-20, 41)
    assert torch.equal(far.scalar[:, 16:23], near.scalar)


@pytest.mark.parametrize(("start", "bidirectional"), [(0, True), (2, True), (2, False)])
def test_the_definition_pair_by_pair(start, bidirectional):
    position = spread(T5(3, bidirectional=bidirectional, num_buckets=6, max_distance=4))
    query, key, value = inputs = tensors()

    def score(b, h, i, j):
        number = by_logarithms(j - i - start, bidirectional, 6, 4)
        return query[b, h, i] @ key[b, h, j] / WIDTH**0.5 + position.table[number, h]

    assert_equal(position, inputs, start, by_pairs(value, score))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_buckets": 31}, "num_buckets of t5 positions must be even and at least 4, got 31"),
        ({"num_buckets": 2}, "must be even and at least 4, got 2"),
        ({"num_buckets": 0, "bidirectional": False}, "must be even and at least 2, got 0"),
        ({"max_distance": 8}, "max_distance of t5 positions \\(8\\) must be above 8, the distances that 32 buckets"),
        ({"max_distance": 16, "bidirectional": False}, "max_distance of t5 positions \\(16\\) must be above 16"),
    ],
)
def test_sizes_that_leave_no_room(options, message):
    with pytest.raises(ConfigError, match=message):
        T5(3, **options)
