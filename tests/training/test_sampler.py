"""The order of batches: a pure function of seed and epoch, continued exactly from any place."""

import random

import numpy as np
import pytest

from headwise.data.buckets import token_batches
from headwise.errors import DataError
from headwise.training.sampler import Sampler

LENGTHS = np.random.default_rng(1).integers(1, 9, (29, 2))


def _sampler(seed=7):
    return Sampler(lambda s, e: token_batches(LENGTHS, max_tokens=24, seed=s, epoch=e), seed=seed)


def _taken(sampler, steps, count):
    return [sampler.take(count) for _ in range(steps)]


def test_every_example_once_an_epoch_and_no_step_over_two():
    sampler = _sampler()
    seen = []
    while sampler.epoch == 0:
        taken = sampler.take(3)
        assert 1 <= len(taken) <= 3
        seen += [row for batch in taken for row in batch]
    assert sorted(seen) == list(range(29))
    assert sampler.state() == {"epoch": 1, "position": 0}


def test_order_depends_on_seed_and_epoch():
    first, again, other = _taken(_sampler(), 30, 2), _taken(_sampler(), 30, 2), _taken(_sampler(seed=8), 30, 2)
    assert first == again
    assert first != other
    sampler = _sampler()
    epochs = [[], []]
    while sampler.epoch < 2:
        epochs[sampler.epoch].append(sampler.take(1)[0])
    assert epochs[0] != epochs[1]


def test_restored_anywhere_any_number_of_times():
    reference = _taken(_sampler(), 40, 2)
    rng = random.Random(3)
    for stop in range(40):
        sampler = _sampler()
        taken = _taken(sampler, stop, 2)
        while len(taken) < 40:
            follower = _sampler()
            follower.restore(sampler.state())
            sampler = follower
            taken += _taken(sampler, min(rng.randint(1, 9), 40 - len(taken)), 2)
        assert taken == reference


def test_progress_is_a_fraction_of_the_epoch():
    sampler = Sampler(lambda seed, epoch: [[0], [1], [2], [3]], seed=0)
    sampler.take(3)
    assert (sampler.progress(), sampler.batches_per_epoch()) == (0.75, 4)
    sampler.take(3)
    assert sampler.progress() == 1.0


def test_no_batches_and_a_place_that_is_not_there():
    with pytest.raises(DataError, match=r"the training data gives no batches: is it empty, or is training.batch"):
        Sampler(lambda seed, epoch: [], seed=0).take(1)
    with pytest.raises(DataError, match="has 1 batches in epoch 2, but the checkpoint stands at batch 5: it was made"):
        Sampler(lambda seed, epoch: [[0]], seed=0).restore({"epoch": 2, "position": 5})
