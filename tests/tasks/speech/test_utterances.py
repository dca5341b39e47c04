"""Strings of recordings and their batches."""

import numpy as np
import torch

from headwise.data.sources import Limits
from headwise.tasks.speech.log_mel import log_mel
from headwise.tasks.speech.recordings import Recording
from headwise.tasks.speech.utterances import Strings, Utterances, concatenated


def recordings(count=11):
    draw = np.random.default_rng(0)
    return [
        Recording(f"r{at}", draw.uniform(-1, 1, 40 + 16 * at).astype(np.float32), 1600, "ab"[at % 2])
        for at in range(count)
    ]


def utterances(span=(2, 3), passes=1):
    found = recordings()
    return Utterances(found, encoded, Strings(11, span, passes), 5)


def encoded(one):
    return ["ab".index(unit) + 1 for unit in one.label.split()]


def test_a_string_is_its_recordings_one_after_another():
    one, two = recordings()[:2]
    found = concatenated([one, two])
    assert (found.label, found.name) == ("a b", "r0 r1")
    np.testing.assert_array_equal(found.samples, np.concatenate([one.samples, two.samples]))
    assert concatenated([one]) is one


def test_every_pass_draws_others_and_hears_nearly_everything_once():
    strings = Strings(100, (2, 5))
    first, again, second = strings.drawn(3, 0), strings.drawn(3, 0), strings.drawn(3, 1)
    assert first == again != second
    heard = [at for string in first for at in string]
    assert len(set(heard)) == len(heard) >= 96
    assert {len(string) for string in first} == {2, 3, 4, 5}
    assert len(Strings(100, (2, 5), 3).drawn(3, 0)) > 2.5 * len(first)
    assert Strings(3).drawn(0, 5) == [[0], [1], [2]]


def test_batches_hold_the_frames_and_targets_of_their_strings():
    part = utterances()
    source = part.source(Limits(40, seed=4), shuffle=True)
    for epoch in range(2):
        strings = [concatenated([part.recordings[at] for at in string]) for string in part.strings.drawn(4, epoch)]
        batches = list(source.once())
        assert sorted(at for batch in batches for at in batch.indices) == [
            epoch * 11 + at for at in range(len(strings))
        ]
        for batch in batches:
            for row, at in enumerate(batch.indices):
                wanted = strings[at - epoch * 11]
                frames = log_mel(torch.from_numpy(wanted.samples), 1600, 5)
                assert batch.lens[row] == len(frames)
                assert torch.equal(batch.frames[row, : len(frames)], frames)
                assert not batch.frames[row, len(frames) :].any()
                assert batch.labels[row] == wanted.label
                assert batch.targets[row, : batch.target_lens[row]].tolist() == encoded(wanted)
            assert batch.num_tokens == int((batch.targets >= 0).sum())


def test_a_source_goes_on_where_another_stood_and_evaluation_hears_the_same():
    one, two = (utterances().source(Limits(40, seed=4), shuffle=True) for _ in range(2))
    one.take(3)
    two.restore(one.state(), {})
    for _ in range(4):
        (first,), (second,) = one.take(1), two.take(1)
        assert first.indices == second.indices
        assert torch.equal(first.frames, second.frames)
    held = utterances().source(Limits(40, seed=9), shuffle=False)
    assert [b.labels for b in held.once()] == [b.labels for b in held.once()]
