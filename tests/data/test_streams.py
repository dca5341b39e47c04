"""Batches of one long text: what windows and streams hold, where they go on, and what processes share."""

import numpy as np
import pytest
import torch

from headwise.data.sources import Drawn
from headwise.data.streams import Stream, Text, text_batch, windows
from headwise.errors import ConfigError, DataError

TEXT = Text(np.arange(100, 124, dtype=np.uint16), chars=46)


def rows_of(batches):
    """The targets of each row, over all batches."""
    rows = [[] for _ in batches[0].lens]
    for batch in batches:
        for row, length in enumerate(batch.lens.tolist()):
            rows[row] += batch.targets[row, :length].tolist()
    return rows


def same(one, two):
    return len(one) == len(two) and all(
        torch.equal(a.inputs, b.inputs) and torch.equal(a.targets, b.targets) and a.indices == b.indices
        for a, b in zip(one, two, strict=True)
    )


def whole_pass(source):
    batches, epoch = [], source.epoch
    while source.epoch == epoch:
        batches += source.take(1)
    return batches


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 23])
@pytest.mark.parametrize("length", [1, 3, 4, 30])
def test_a_stream_holds_every_token_once_and_each_row_goes_on(rows, length):
    batches = whole_pass(Stream(TEXT, length, rows))
    assert [token for row in rows_of(batches) for token in row] == list(range(101, 124))
    assert sum(batch.num_tokens for batch in batches) == len(TEXT) == 23
    assert sum(batch.chars for batch in batches) == pytest.approx(46)
    for batch in batches:
        for row, size in enumerate(batch.lens.tolist()):
            assert batch.inputs[row, :size].tolist() == [token - 1 for token in batch.targets[row, :size].tolist()]
            assert batch.inputs[row, size:].tolist() == [0] * (batch.inputs.shape[1] - size)
    assert len({id(batch.carry) for batch in batches}) == 1


def test_a_new_pass_begins_without_what_was_carried_and_a_restored_stream_with_it():
    stream, kept = Stream(TEXT, 4, 3), [torch.ones(3, 2, 5), torch.zeros(3, 2, 5)]
    stream.take(1)[0].carry.tensors = kept
    state, saved = stream.state(), stream.tensors()
    assert stream.take(1)[0].carry.tensors is kept
    assert stream.epoch == 1
    # between two passes nothing is carried, whatever the last batch left
    assert stream.tensors() == {}
    assert stream.take(1)[0].carry.tensors == []
    stream.restore(state, saved)
    assert [one is two for one, two in zip(stream.take(1)[0].carry.tensors, kept, strict=True)] == [True, True]


@pytest.mark.parametrize("make", [lambda: Stream(TEXT, 2, 3), lambda: windows(TEXT, 2, 3, seed=5)])
def test_a_restored_source_continues_exactly(make):
    source = make()
    source.take(1)
    state, tensors, told = source.state(), source.tensors(), source.progress()
    rest = [source.take(2) for _ in range(6)]
    again = make()
    again.restore(state, tensors)
    assert again.progress() == told > 0
    assert all(same(one, two) for one, two in zip(rest, [again.take(2) for _ in range(6)], strict=True))
    with pytest.raises(DataError, match="made with other data"):
        again.restore({"epoch": 0, "position": 99}, {})


def test_processes_share_the_rows_of_a_stream():
    alone, shared = Stream(TEXT, 2, 5), [Stream(TEXT, 2, 5) for _ in range(2)]
    for _ in range(3):
        (batch,) = alone.take(1)
        parts = [source.take(1, rank, 2)[0] for rank, source in enumerate(shared)]
        for rank, part in enumerate(parts):
            assert torch.equal(part.inputs, batch.inputs[rank::2])
        assert sum(part.num_tokens for part in parts) == batch.num_tokens
    # a process without rows moves on with the others, and has an example to compute
    source = Stream(TEXT, 2, 5)
    assert source.take(3, 5, 6) == []
    assert source.position == alone.position
    assert source.example().inputs.tolist() == [TEXT.tokens[:2].tolist()]
    assert source.tensors() == {}


@pytest.mark.parametrize("world", [1, 2, 3, 7])
def test_what_processes_carry_is_put_together_and_shared_again(world):
    kept = [torch.arange(5 * 2 * 3).reshape(5, 2, 3) + 0.5, torch.rand(5, 2, 3)]
    ranks = [Stream(TEXT, 2, 5) for _ in range(world)]
    for rank, source in enumerate(ranks):
        for batch in source.take(1, rank, world):
            batch.carry.tensors = [tensor[rank::world] for tensor in kept]
    together = ranks[0].together([source.tensors() for source in ranks])
    assert [torch.equal(together[str(place)], tensor) for place, tensor in enumerate(kept)] == [True, True]
    again = Stream(TEXT, 2, 5)
    again.restore(ranks[0].state(), together, 1, 2)
    assert torch.equal(again.take(1, 1, 2)[0].carry.tensors[1], kept[1][1::2])


def test_windows_without_shuffling_hold_every_token_once_in_order():
    batches = whole_pass(windows(TEXT, 5, 2, shuffle=False))
    found = [token for batch in batches for row in rows_of([batch]) for token in row]
    assert found == list(range(101, 124))
    assert [batch.lens.tolist() for batch in batches] == [[5, 5], [5, 5], [3]]


def test_windows_are_cut_and_ordered_anew_in_each_pass_by_the_seed_alone():
    one, two, other = (windows(TEXT, 4, 2, seed=seed) for seed in (5, 5, 6))
    passes = [whole_pass(one) for _ in range(20)]
    assert all(same(a, whole_pass(two)) for a in passes)
    assert not all(same(a, whole_pass(other)) for a in passes)
    starts = [sorted(start for batch in batches for start in batch.indices) for batches in passes]
    assert {row[0] for row in starts} == {0, 1, 2, 3}
    for row in starts:
        assert np.all(np.diff(row) == 4)
        assert row[-1] + 4 <= len(TEXT)
    assert all(batch.num_tokens == batch.targets.numel() for batches in passes for batch in batches)
    assert isinstance(one, Drawn)


def test_a_text_shorter_than_a_window_is_one_window():
    batches = whole_pass(windows(TEXT, 50, 4))
    assert [batch.lens.tolist() for batch in batches] == [[23]]


def test_a_mapped_text_is_one_in_memory(tmp_path):
    TEXT.tokens.tofile(tmp_path / "tokens")
    mapped = Text(np.memmap(tmp_path / "tokens", dtype=np.uint16, mode="r"), 46)
    assert same(whole_pass(Stream(mapped, 3, 2)), whole_pass(Stream(TEXT, 3, 2)))
    assert same(whole_pass(windows(mapped, 3, 2)), whole_pass(windows(TEXT, 3, 2)))


def test_the_first_tokens_have_their_share_of_the_characters():
    first = TEXT.first(5)
    assert (len(first), first.chars) == (5, 10)
    assert len(TEXT.first(99)) == 23


def test_a_batch_moves_and_keeps_what_it_carries():
    batch = Stream(TEXT, 3, 2).take(1)[0]
    moved = batch.to("cpu")
    assert moved.carry is batch.carry
    assert text_batch(TEXT, [(0, 2)]).carry is None


def test_what_is_no_batch():
    with pytest.raises(ConfigError, match=r"at least one row \(0\)"):
        Stream(TEXT, 3, 0)
    with pytest.raises(DataError, match="the text has no token"):
        windows(Text(np.array([1]), 0), 3, 2)
