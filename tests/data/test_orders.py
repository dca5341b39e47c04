"""Orders of windows: whole permutations, and those by blocks, which are the same for any number of processes."""

import numpy as np
import pytest

from headwise.data import streams
from headwise.data.buckets import permutation
from headwise.data.streams import Portions, Text, shuffled_places, windows


def test_up_to_a_million_are_shuffled_as_a_whole():
    assert shuffled_places(100, 5, 2)(10, 90).tolist() == permutation(100, 5, 2)[10:90].tolist()


@pytest.mark.parametrize("count", [31, 32, 33, 37, 96, 99])
def test_more_are_shuffled_by_blocks(monkeypatch, count):
    monkeypatch.setattr(streams, "_BLOCK", 3)
    monkeypatch.setattr(streams, "_BLOCKS", 5)
    whole = shuffled_places(count, 5, 2)(0, count)
    assert sorted(whole.tolist()) == list(range(count))
    assert whole.tolist() != shuffled_places(count, 5, 4)(0, count).tolist()
    # any part of it is the same, whatever was asked for before
    places = shuffled_places(count, 5, 2)
    for start in reversed(range(0, count, 7)):
        assert places(start, start + 4).tolist() == whole[start : start + 4].tolist()
    # what is shuffled together are five blocks of three neighbours
    first = set(whole[:15].tolist())
    assert len({number // 3 for number in first}) == 5
    # which do not stay together
    assert (np.diff(whole[:15] // 3) != 0).sum() > 4


def test_what_is_read_together_lies_together_and_memory_does_not_grow(monkeypatch):
    asked = []
    monkeypatch.setattr(streams, "permutation", lambda count, *rest: asked.append(count) or permutation(count, *rest))
    count = 3 << 22
    places = shuffled_places(count, 1, 0)
    found = np.concatenate([places(start, start + 1000) for start in (0, 1 << 20, count - 1000)])
    assert (found.min() >= 0, found.max() < count, len(set(found.tolist()))) == (True, True, 3000)
    assert max(asked) <= 1 << 20


def test_portions():
    portions = Portions(7, 3, np.arange)
    assert (len(portions), portions[0], portions[1:], list(portions)[-1]) == (3, [0, 1, 2], [[3, 4, 5], [6]], [6])
    with pytest.raises(IndexError):
        portions[3]


def test_windows_by_blocks_are_shared_by_processes_and_resumed_anywhere(monkeypatch):
    monkeypatch.setattr(streams, "_BLOCK", 2)
    monkeypatch.setattr(streams, "_BLOCKS", 3)
    text = Text(np.arange(200), chars=199)
    alone = [batch.indices for batch in windows(text, 4, 5, seed=9).once()]
    starts = sorted(start for batch in alone for start in batch)
    assert starts == list(range(starts[0], starts[0] + 4 * len(starts), 4))
    assert len(starts) == 49
    shares = [windows(text, 4, 5, seed=9) for _ in range(3)]
    taken = [[batch.indices for batch in source.once(rank, 3)] for rank, source in enumerate(shares)]
    assert [taken[place % 3][place // 3] for place in range(len(alone))] == alone
    again = windows(text, 4, 5, seed=9)
    again.restore({"epoch": 0, "position": 6}, {})
    assert [batch.indices for batch in again.once()] == alone[6:]
