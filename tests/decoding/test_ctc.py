"""CTC against every path written out."""

import itertools

import pytest
import torch

from headwise.decoding.ctc import best_path, fewest_places, occupancy, prefix_beam


def collapsed(path):
    return [unit for unit, _ in itertools.groupby(path) if unit]


@pytest.fixture
def log_probs():
    torch.manual_seed(5)
    return torch.randn(5, 3, dtype=torch.float64).mul(1.5).log_softmax(-1)


def paths(log_probs):
    for path in itertools.product(range(log_probs.shape[1]), repeat=len(log_probs)):
        yield path, float(sum(log_probs[at, unit] for at, unit in enumerate(path)).exp())


@pytest.mark.parametrize("seed", range(6))
def test_a_wide_beam_finds_the_likeliest_text(seed):
    torch.manual_seed(seed)
    log_probs = torch.randn(4, 3, dtype=torch.float64).log_softmax(-1)
    totals = {}
    for path, probability in paths(log_probs):
        text = tuple(collapsed(path))
        totals[text] = totals.get(text, 0.0) + probability
    assert tuple(prefix_beam(log_probs, 1000)) == max(totals, key=totals.get)


def test_the_beam_sees_what_the_best_path_does_not():
    # the likeliest path is blank, blank; most paths say 1
    log_probs = torch.tensor([[0.6, 0.4], [0.6, 0.4]]).log()
    assert best_path(log_probs) == []
    assert prefix_beam(log_probs, 2) == [1]


def test_repetitions_need_a_blank():
    assert best_path(torch.eye(3)[[1, 0, 1, 1, 2, 2]]) == [1, 1, 2]
    assert (fewest_places([]), fewest_places([1, 1]), fewest_places([1, 2])) == (0, 3, 2)


@pytest.mark.parametrize("units", [[1, 2], [1, 1], [2], [1, 2, 1]])
def test_occupancy_is_the_share_of_all_paths(log_probs, units):
    wanted, total = torch.zeros(len(units), 5, dtype=torch.float64), 0.0
    for path, probability in paths(log_probs):
        if collapsed(path) == units:
            total += probability
            at = -1
            for place, unit in enumerate(path):
                at += unit != 0 and (place == 0 or path[place - 1] != unit)
                if unit:
                    wanted[at, place] += probability
    torch.testing.assert_close(torch.from_numpy(occupancy(log_probs, units)), wanted / total)


def test_texts_that_do_not_fit_are_refused(log_probs):
    with pytest.raises(ValueError, match="4 units do not fit in 5 places"):
        occupancy(log_probs, [1, 1, 1, 1])
