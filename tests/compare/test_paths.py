"""Chains of operations and paths between tokens, against what is counted by hand."""

import math

import pytest
import torch

from headwise.compare.paths import chain, links, path_length
from headwise.compare.subjects import KERNEL_SIZE, Mixer, Subject, subject
from headwise.errors import Unsupported


class Steps(Mixer):
    """Each token is the tanh of the one before, with a branch beside that is not longer."""

    def forward(self, x):
        state, states = x[:, 0], []
        for token in x.unbind(1):
            state = torch.tanh(state + token)
            states.append(state)
        return torch.stack(states, 1)


def test_a_chain_has_the_operations_of_its_longest_branch():
    steps = Subject("steps", lambda length, width: Steps(), None, None)
    # select or unbind with its item, then an addition and a tanh for each token, and the stack
    assert chain(steps, 8) - chain(steps, 4) == 4 * 2


@pytest.mark.parametrize(
    "name", ["plain", "scored", "linear", pytest.param("retention", marks=pytest.mark.slow), "cnn"]
)
def test_what_computes_all_at_once_has_one_chain_for_all_lengths(name):
    assert len({chain(subject(name), length) for length in (6, 18)}) == 1


@pytest.mark.parametrize("name", ["rnn", *(pytest.param(name, marks=pytest.mark.slow) for name in ("gru", "lstm"))])
def test_a_recurrent_chain_grows_with_each_token(name):
    first, second, third = (chain(subject(name), length) for length in (4, 8, 12))
    assert third - second == second - first >= 4


@pytest.mark.parametrize("length", [1, 2, 3, 6, *(pytest.param(n, marks=pytest.mark.slow) for n in (9, 16))])
def test_paths_are_those_of_the_theory(length):
    n = length - 1
    expected = {
        "plain": min(n, 1),
        "linear": min(n, 1),
        "causal-cnn": math.ceil(n / (KERNEL_SIZE - 1)),
        "cnn": n,
        "rnn": n,
        "gru": n,
        "lstm": n,
    }
    assert {name: path_length(subject(name), length) for name in expected} == expected


def test_without_a_path_it_is_said():
    class Apart(Mixer):
        def forward(self, x):
            return 2 * x

    with pytest.raises(Unsupported, match="does not depend"):
        path_length(Subject("apart", lambda length, width: Apart(), None, None), 5)


def test_what_cannot_be_traced_is_said():
    class Deciding(Mixer):
        def forward(self, x):
            return x if x.sum().item() > 0 else -x

    with pytest.raises(Unsupported, match="traced"):
        chain(Subject("deciding", lambda length, width: Deciding(), None, None), 4)


@pytest.mark.parametrize(
    ("name", "sees"),
    [
        ("cnn", lambda end, start: abs(end - start) <= 1),
        ("causal-cnn", lambda end, start: 0 <= end - start <= 2),
        # the state before comes in besides
        ("gru", lambda end, start: end == start),
        ("scored", lambda end, start: True),
        ("retention", lambda end, start: start <= end),
    ],
)
@pytest.mark.parametrize("length", [1, 5])
def test_what_depends_directly(name, sees, length):
    expected = [[sees(end, start) for start in range(length)] for end in range(length)]
    assert links(subject(name), length).tolist() == expected
