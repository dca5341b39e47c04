"""Batches by a token budget: every example once, within the budget, little padding, an order that can be repeated."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.data import buckets
from headwise.data.buckets import padding_waste, token_batches
from headwise.errors import DataError

LENGTHS = st.lists(st.tuples(st.integers(1, 13), st.integers(1, 13)), max_size=41).map(
    lambda rows: np.array(rows, dtype=np.int64).reshape(-1, 2)
)


def corpus(count=2999, seed=3):
    generator = np.random.default_rng(seed)
    source = generator.poisson(11, count) + 2
    return np.stack([source, np.maximum(source + generator.integers(-3, 4, count), 1)], axis=1)


@given(
    LENGTHS, st.integers(13, 60), st.none() | st.integers(1, 5), st.sampled_from(["longest", "target"]), st.booleans()
)
def test_every_example_once_and_within_the_budget(lengths, budget, most, count, shuffle):
    batches = token_batches(lengths, max_tokens=budget, max_sentences=most, count=count, seed=7, shuffle=shuffle)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert batch
        assert len(batch) <= (most or len(batch))
        longest = lengths[batch, 1].max() if count == "target" else lengths[batch].max()
        assert len(batch) * longest <= budget


def test_one_side():
    batches = token_batches(np.array([[3], [5], [4]]), max_tokens=8, shuffle=False)
    assert batches == [[0, 2], [1]]


def test_no_examples():
    assert token_batches(np.zeros((0, 2), dtype=np.int64), max_tokens=5) == []
    assert padding_waste(np.zeros((0, 2), dtype=np.int64), []) == 0.0


def test_seed_and_epoch_decide_the_order():
    lengths = corpus()
    first = token_batches(lengths, max_tokens=211, seed=1, epoch=0)
    assert token_batches(lengths, max_tokens=211, seed=1, epoch=0) == first
    assert token_batches(lengths, max_tokens=211, seed=1, epoch=1) != first
    assert token_batches(lengths, max_tokens=211, seed=2, epoch=0) != first
    # an epoch of one seed is no epoch of its neighbour
    assert token_batches(lengths, max_tokens=211, seed=0, epoch=1) != first
    assert {tuple(sorted(batch)) for batch in first} != {
        tuple(sorted(batch)) for batch in token_batches(lengths, max_tokens=211, seed=1, epoch=1)
    }


def test_order_is_fixed_for_ever():
    # splitmix64 by hand in Python integers
    def mixed(value):
        word = (value + 1) * 0x9E3779B97F4A7C15 % 2**64
        word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        word = (word ^ word >> 27) * 0x94D049BB133111EB % 2**64
        return word ^ word >> 31

    key = mixed(5 + mixed(2 * 3 + 1))
    expected = sorted(range(7), key=lambda n: mixed(n + key))
    ones = np.ones((7, 2), dtype=np.int64)
    order = token_batches(ones, max_tokens=1, seed=5, epoch=3)
    within = sorted(range(7), key=lambda n: mixed(n + mixed(5 + mixed(2 * 3))))
    ranks = {batch: rank for rank, batch in enumerate(expected)}
    assert [batch[0] for batch in order] == [within[ranks_of] for ranks_of in np.argsort([ranks[n] for n in range(7)])]


def test_without_shuffling_batches_go_by_length():
    lengths = corpus(499)
    batches = token_batches(lengths, max_tokens=97, shuffle=False, epoch=3)
    assert batches == token_batches(lengths, max_tokens=97, shuffle=False, seed=9)
    flat = [tuple(lengths[index][::-1]) for batch in batches for index in batch]
    assert flat == sorted(flat)


def test_batches_come_in_random_order():
    lengths = corpus()
    longest = [lengths[batch].max() for batch in token_batches(lengths, max_tokens=211)]
    assert abs(np.corrcoef(np.arange(len(longest)), longest)[0, 1]) < 0.2


def test_padding_is_small():
    lengths = corpus()
    batches = token_batches(lengths, max_tokens=499)
    shuffled = np.random.default_rng(1).permutation(len(lengths)).tolist()
    random = [shuffled[start : start + 37] for start in range(0, len(lengths), 37)]
    assert padding_waste(lengths, batches) < 0.13
    assert padding_waste(lengths[:, 1:], batches) < 0.02
    assert padding_waste(lengths, random) > 0.3


def test_padding_waste_counts_both_sides():
    lengths = np.array([[1, 4], [3, 4], [2, 2]])
    # 3 + 3 + 4 + 4 padded, 1 + 3 + 4 + 4 real; the third alone wastes nothing
    assert padding_waste(lengths, [[0, 1], [2]]) == pytest.approx(1 - 16 / 18)


def test_large_sets_are_shuffled_in_buckets(monkeypatch):
    monkeypatch.setattr(buckets, "_BUCKET", 101)
    lengths = corpus(499)
    batches = token_batches(lengths, max_tokens=97)
    assert sorted(index for batch in batches for index in batch) == list(range(499))
    assert padding_waste(lengths, batches) < 0.2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {},
            "example 1 has 1,009 tokens on its longer side, more than the budget of a batch \\(512\\); raise",
        ),
        ({"count": "target"}, "example 2 has 600 target tokens, more than the budget"),
    ],
)
def test_an_example_over_the_budget_is_named(options, message):
    with pytest.raises(DataError, match=message):
        token_batches(np.array([[3, 4], [1009, 5], [6, 600]]), max_tokens=512, **options)


def test_an_example_of_exactly_the_budget():
    assert token_batches(np.array([[7, 7]]), max_tokens=7) == [[0]]
    assert token_batches(np.array([[700, 7]]), max_tokens=7, count="target") == [[0]]
