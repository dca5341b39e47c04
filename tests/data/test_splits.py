"""Splits by source sentence: nothing crosses, nothing moves."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.data.readers import Pair
from headwise.data.splits import Overlap, overlap, source_place, split_by
from headwise.errors import ConfigError, DataError


def split_pairs(pairs, valid, test, seed):
    return split_by(pairs, lambda pair: pair.source, (valid, test), seed, "pairs")


PAIRS = [Pair(f"source {n // 3}", f"target {n}", n + 1) for n in range(1499)]


def test_translations_of_one_sentence_stay_together():
    parts = split_pairs(PAIRS, 0.1, 0.2, seed=5)
    sources = [{pair.source for pair in part} for part in parts]
    assert not sources[0] & sources[1]
    assert not sources[0] & sources[2]
    assert not sources[1] & sources[2]
    assert sorted(pair.line for part in parts for pair in part) == [pair.line for pair in PAIRS]
    assert [len(part) / len(PAIRS) for part in parts] == pytest.approx([0.7, 0.1, 0.2], abs=0.04)


def test_order_within_a_part_is_kept():
    for part in split_pairs(PAIRS, 0.1, 0.2, seed=5):
        assert [pair.line for pair in part] == sorted(pair.line for pair in part)


@settings(max_examples=11)
@given(st.integers(0, 2**64))
def test_adding_data_moves_no_pair(seed):
    old = split_pairs(PAIRS[:900], 0.2, 0.2, seed)
    new = split_pairs(PAIRS, 0.2, 0.2, seed)
    assert all(set(a) <= set(b) for a, b in zip(old, new, strict=True))


def test_another_validation_fraction_moves_no_test_pair():
    assert split_pairs(PAIRS, 0.1, 0.2, 5)[2] == split_pairs(PAIRS, 0.3, 0.2, 5)[2]


def test_seed_changes_the_split():
    assert split_pairs(PAIRS, 0.1, 0.2, 5) != split_pairs(PAIRS, 0.1, 0.2, 6)


def test_places_are_fixed_for_ever():
    # printf '0\ngo .' | sha256sum, the first 53 bits
    expected = (0x99C80567FEE899D0 >> 11) / 2**53
    assert source_place("go .", 0) == source_place(" go\u00a0. ", 0) == expected


def test_no_held_out_part():
    assert split_pairs(PAIRS, 0.0, 0.0, 1) == (PAIRS, [], [])


@pytest.mark.parametrize(("valid", "test"), [(0.5, 0.5), (-0.1, 0.1), (0.9, 0.2)])
def test_bad_fractions(valid, test):
    with pytest.raises(
        ConfigError, match=r"valid_fraction \(.*\) and test_fraction \(.*\) must be 0 or more, together"
    ):
        split_pairs(PAIRS, valid, test, 1)


@pytest.mark.parametrize(("fractions", "part"), [((0.001, 0.0), "validation"), ((0.0, 0.001), "test")])
def test_empty_parts(fractions, part):
    with pytest.raises(DataError, match=f"the split of 2 pairs leaves none for {part}; change the fractions"):
        split_pairs([Pair("a", "b", 1), Pair("c", "d", 2)], *fractions, seed=1)


def test_empty_training_part():
    with pytest.raises(DataError, match="the split of 1 pairs leaves none for training"):
        split_pairs([Pair("a", "b", 1)], 0.999, 0.0, seed=1)


def test_overlap():
    train = [Pair("a", "x", 1), Pair("b", "y", 2)]
    found = overlap(train, [Pair("a", "x", 1), Pair("a", "z", 2), Pair("c", "x", 3)])
    assert found == Overlap((1, 2), (1,), 3)
    assert str(found) == "2 of 3 held-out sources are in the training part, 1 with the same translation: line 1, 2"
    assert str(overlap(train, [Pair("c", "x", 1)])) == "0 of 1 held-out sources are in the training part"
    many = overlap(train, [Pair("a", "x", n) for n in range(1, 9)])
    assert str(many).endswith("line 1, 2, 3, 4, 5, ...")
