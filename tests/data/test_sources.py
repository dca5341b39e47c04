"""The order of batches: a pure function of seed and epoch, shared by processes, continued exactly from any place."""

import random

import numpy as np
import pytest

from headwise.data.sources import Drawn, Limits, bucketed, shuffled, spread, whole
from headwise.errors import DataError

LENGTHS = np.random.default_rng(1).integers(1, 9, (29, 2))


def _source(seed=7):
    return bucketed(LENGTHS, list, Limits(24, seed=seed))


def _taken(source, steps, count):
    return [source.take(count) for _ in range(steps)]


def test_every_example_once_an_epoch_and_no_step_over_two():
    source = _source()
    seen = []
    while source.epoch == 0:
        taken = source.take(3)
        assert 1 <= len(taken) <= 3
        seen += [row for batch in taken for row in batch]
    assert sorted(seen) == list(range(29))
    assert source.state() == {"epoch": 1, "position": 0}


def test_order_depends_on_seed_and_epoch():
    first, again, other = _taken(_source(), 30, 2), _taken(_source(), 30, 2), _taken(_source(seed=8), 30, 2)
    assert first == again
    assert first != other
    source = _source()
    epochs = [list(source.once()), list(source.once())]
    assert epochs[0] != epochs[1]
    assert source.epoch == 2


def test_restored_anywhere_any_number_of_times():
    reference = _taken(_source(), 40, 2)
    rng = random.Random(3)
    for stop in range(40):
        source = _source()
        taken = _taken(source, stop, 2)
        while len(taken) < 40:
            follower = _source()
            follower.restore(source.state(), {})
            source = follower
            taken += _taken(source, min(rng.randint(1, 9), 40 - len(taken)), 2)
        assert taken == reference


@pytest.mark.parametrize("world", [1, 2, 3, 5, 40])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_processes_share_the_batches_of_a_step(world, count):
    whole_step, ranks = _source(), [_source() for _ in range(world)]
    for _ in range(20):
        expected = whole_step.take(count)
        shares = [source.take(count, rank, world) for rank, source in enumerate(ranks)]
        # all of it, once, and none has more than the fewest that is possible
        found = sorted(row for share in shares for batch in share for row in batch)
        assert found == sorted(row for batch in expected for row in batch)
        parts = -(-world // len(expected))
        assert max(map(len, shares)) <= -(-parts * len(expected) // world)
        assert all(len(batch) <= -(-max(map(len, expected)) // parts) for share in shares for batch in share)
        assert {tuple(source.state().items()) for source in ranks} == {tuple(whole_step.state().items())}


def test_whole_batches_are_shared_where_none_waits_for_another():
    alone, ranks = _source(), [_source() for _ in range(3)]
    alone.take(2)
    for source in ranks:
        source.take(2)
    shares = [list(source.once(rank, 3)) for rank, source in enumerate(ranks)]
    expected = list(alone.once())
    assert [shares[(2 + place) % 3].pop(0) for place in range(len(expected))] == expected
    assert all(source.state() == {"epoch": 1, "position": 0} for source in ranks)


def test_a_process_without_a_share_has_an_example_to_go_on_with():
    source = _source()
    first = source.draw(7, 0)[0]
    assert source.example() == list(first[:1])
    assert source.state() == {"epoch": 0, "position": 0}
    graph = whole(lambda: "graph")
    assert (graph.take(1, 0, 2), graph.take(1, 1, 2), graph.example()) == (["graph"], [], "graph")


def test_progress_is_a_fraction_of_the_epoch():
    source = Drawn(lambda seed, epoch: [[0], [1], [2], [3]], list, seed=0)
    source.take(3)
    assert (source.progress(), source.size()) == (0.75, 4)
    source.take(3)
    assert source.progress() == 1.0


def test_no_batches_and_a_place_that_is_not_there():
    with pytest.raises(DataError, match=r"the training data gives no batches: is it empty, or is training.batch"):
        Drawn(lambda seed, epoch: [], list, seed=0).take(1)
    with pytest.raises(DataError, match="has 1 batches in epoch 2, but the checkpoint stands at batch 5: it was made"):
        Drawn(lambda seed, epoch: [[0]], list, seed=0).restore({"epoch": 2, "position": 5}, {})


def test_for_evaluation_the_first_examples_in_the_same_order_whatever_the_budget():
    source = bucketed(LENGTHS, list, Limits(4, examples=11), shuffle=False)
    first, again = list(source.once()), list(source.once())
    assert first == again
    assert sorted(row for batch in first for row in batch) == list(range(11))
    with pytest.raises(DataError, match="more than the budget of a batch"):
        bucketed(LENGTHS, list, Limits(4)).take(1)


def test_examples_of_one_size_and_all_at_once():
    source = shuffled(7, 3, list, seed=1)
    batches = list(source.once())
    assert list(map(len, batches)) == [3, 3, 1]
    assert sorted(row for batch in batches for row in batch) == list(range(7))
    assert list(source.once()) != batches
    assert list(shuffled(5, 2, list, shuffle=False).once()) == [[0, 1], [2, 3], [4]]
    graph = whole(lambda: "graph")
    assert graph.take(3) == ["graph"]
    assert graph.epoch == 1


def test_spread_takes_its_first_examples_from_everywhere_and_evaluates_in_one_order():
    def taken(examples=None, shuffle=False, seed=0):
        source = spread(40, 7, list, Limits(0, seed=seed, examples=examples), shuffle=shuffle)
        return [number for batch in source.once() for number in batch]

    assert sorted(taken()) == list(range(40))
    few = taken(10)
    assert len(set(few)) == 10
    assert max(few) > 20
    assert taken(10, seed=3) == taken(10)
    assert taken(shuffle=True) != taken(shuffle=True, seed=3)
    # the examples are the same ones in whatever order
    assert sorted(taken(10, shuffle=True, seed=3)) == sorted(few)
