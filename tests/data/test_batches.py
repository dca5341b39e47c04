"""Packed rows, length limits and padded batches, against loops over lists."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise.data.batches import Ragged, collate, fit_lengths, pair_lengths
from headwise.data.buckets import padding_waste, token_batches
from headwise.errors import ShapeError

ROWS = st.lists(st.lists(st.integers(3, 97), max_size=7), min_size=1, max_size=11)
IDS = {"pad_id": 0, "bos_id": 1, "eos_id": 2}


def padded(rows):
    width = max(map(len, rows))
    return [row + [0] * (width - len(row)) for row in rows]


@given(ROWS)
def test_ragged_is_the_list(rows):
    packed = Ragged.of(rows)
    assert [row.tolist() for row in packed] == rows
    assert len(packed) == len(rows)
    assert packed.lengths.tolist() == [len(row) for row in rows]


@given(ROWS, st.data())
def test_take_and_cut(rows, data):
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1)))
    packed = Ragged.of(rows)
    assert [row.tolist() for row in packed.take(np.array(chosen, dtype=np.int64))] == [rows[n] for n in chosen]
    assert [row.tolist() for row in packed.cut(3)] == [row[:3] for row in rows]


def test_ragged_of_nothing():
    assert len(Ragged.of([])) == 0
    assert list(Ragged.of([]).cut(3)) == []


def test_ragged_refuses_lengths_that_do_not_fit():
    with pytest.raises(ShapeError, match="lengths add up to 5, but there are 3 values"):
        Ragged(np.zeros(3), np.array([2, 3]))


def test_fit_lengths():
    sources, targets = Ragged.of([[4] * 5, [5], [6] * 3]), Ragged.of([[7], [8] * 4, [9] * 2])
    options = {"max_source_len": 3, "max_target_len": 2}
    dropped = fit_lengths(sources, targets, too_long="drop", **options)
    assert dropped.kept.tolist() == [2]
    assert [row.tolist() for row in dropped.sources] == [[6] * 3]
    assert dropped.too_long == 2
    cut = fit_lengths(sources, targets, too_long="truncate", **options)
    assert cut.kept.tolist() == [0, 1, 2]
    assert [len(row) for row in cut.sources] == [3, 1, 3]
    assert [len(row) for row in cut.targets] == [1, 2, 2]
    assert cut.too_long == 2


@given(ROWS, st.data(), st.booleans())
def test_collate_equals_loops(rows, data, packed):
    indices = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=7))
    targets = rows[::-1]
    sides = (Ragged.of(rows), Ragged.of(targets)) if packed else (rows, targets)
    batch = collate(*sides, indices, **IDS)
    assert batch.src.tolist() == padded([[*rows[n], 2] for n in indices])
    assert batch.src_lens.tolist() == [len([*rows[n], 2]) for n in indices]
    assert batch.tgt_in.tolist() == padded([[1, *targets[n]] for n in indices])
    assert batch.tgt_out.tolist() == padded([[*targets[n], 2] for n in indices])
    assert batch.tgt_lens.tolist() == [len(targets[n]) + 1 for n in indices]
    assert batch.num_tokens == batch.num_target_tokens == sum(len(targets[n]) + 1 for n in indices)
    assert batch.indices == indices


def test_tensors_are_int64():
    batch = collate([[5]], [[6, 7]], [0], **IDS)
    for name in ("src", "src_lens", "tgt_in", "tgt_out", "tgt_lens"):
        assert getattr(batch, name).dtype == torch.int64


def test_moving_keeps_the_batch():
    batch = collate([[5]], [[6, 7]], [0], **IDS)
    moved = batch.to("cpu")
    torch.testing.assert_close(moved.tgt_out, batch.tgt_out)
    assert (moved.indices, moved.num_tokens) == (batch.indices, batch.num_tokens)
    assert batch.to("meta").src.is_meta


def test_a_batch_without_examples():
    with pytest.raises(ShapeError, match="a batch needs at least one example"):
        collate([[5]], [[6]], [], **IDS)


def test_nothing_is_lost_without_truncation():
    generator = np.random.default_rng(5)
    rows = [generator.integers(3, 97, generator.integers(0, 13)).tolist() for _ in range(211)]
    packed = Ragged.of(rows)
    lengths = pair_lengths(packed, packed)
    seen = {}
    for indices in token_batches(lengths, max_tokens=101):
        batch = collate(packed, packed, indices, **IDS)
        assert batch.src.numel() <= 101
        assert batch.tgt_in.numel() <= 101
        for place, index in enumerate(indices):
            seen[index] = batch.src[place, : batch.src_lens[place] - 1].tolist()
    assert [seen[index] for index in range(211)] == rows


def test_pair_lengths_are_those_of_the_batch():
    rows, others = [[5, 6, 7], [8]], [[9], [4, 3]]
    lengths = pair_lengths(Ragged.of(rows), Ragged.of(others))
    batch = collate(rows, others, [0, 1], **IDS)
    assert lengths.tolist() == torch.stack([batch.src_lens, batch.tgt_lens], dim=1).tolist()
    padding = float((batch.src == 0).sum() + (batch.tgt_out == 0).sum()) / (batch.src.numel() + batch.tgt_out.numel())
    assert padding_waste(lengths, [[0, 1]]) == pytest.approx(padding)


def test_pair_lengths_count_the_end_token():
    rows, others = Ragged.of([[5, 6, 7], [8]]), Ragged.of([[9], [4, 3]])
    assert pair_lengths(rows, others).tolist() == [[4, 2], [2, 3]]
