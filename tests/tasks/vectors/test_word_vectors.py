"""The loss of negative sampling against a loop, and its gradient against the closed form."""

import math

import pytest
import torch

from headwise.tasks.vectors.lexicon import WordVectors, sampling_loss

INPUTS = torch.tensor([[5, 0, 0], [6, 7, 5], [4, 4, 0], [0, 0, 0]])
GIVEN = torch.tensor([[True, False, False], [True, True, True], [True, True, False], [False, False, False]])
OUTPUTS = torch.tensor([[6, 7, 4], [4, 4, 6], [5, 6, 6], [7, 4, 5]])
COUNTED = torch.tensor([[True, True, True], [True, False, True], [True, True, True], [True, True, True]])


@pytest.fixture
def model():
    torch.manual_seed(2)
    made = WordVectors(8, 5).double()
    torch.nn.init.normal_(made.words.weight)
    torch.nn.init.normal_(made.contexts.weight)
    return made


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def mean_of(model, row):
    words = [model.words.weight[n] for n, known in zip(INPUTS[row].tolist(), GIVEN[row], strict=True) if known]
    return sum(words, torch.zeros(5, dtype=torch.double)) / max(1, len(words)), len(words)


def test_the_loss_is_that_of_a_loop(model):
    total = 0.0
    for row in range(4):
        mean, _ = mean_of(model, row)
        for place, output in enumerate(OUTPUTS[row].tolist()):
            score = (mean @ model.contexts.weight[output]).item()
            if COUNTED[row, place]:
                total -= math.log(sigmoid(score if place == 0 else -score))
    found = sampling_loss(model(INPUTS, GIVEN, OUTPUTS), COUNTED)
    assert found.item() == pytest.approx(total, rel=1e-12)


def test_the_gradient_is_the_closed_form(model):
    """(s(score) - label) times the other vector; the mean hands each of its words a share."""
    sampling_loss(model(INPUTS, GIVEN, OUTPUTS), COUNTED).backward()
    words, contexts = torch.zeros(8, 5).double(), torch.zeros(8, 5).double()
    for row in range(4):
        mean, count = mean_of(model, row)
        for place, output in enumerate(OUTPUTS[row].tolist()):
            if not COUNTED[row, place]:
                continue
            wrong = sigmoid((mean @ model.contexts.weight[output]).item()) - (place == 0)
            contexts[output] += wrong * mean.detach()
            for number, known in zip(INPUTS[row].tolist(), GIVEN[row], strict=True):
                if known:
                    words[number] += wrong * model.contexts.weight[output].detach() / count
    torch.testing.assert_close(model.contexts.weight.grad, contexts, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(model.words.weight.grad, words, rtol=1e-10, atol=1e-12)
    # padding is nobody's input
    assert not model.words.weight.grad[0].any()


def test_it_begins_as_word2vec_does_and_an_empty_batch_is_nothing():
    model = WordVectors(50, 4)
    assert model.words.weight.abs().max() <= 0.125
    assert not model.contexts.weight.any()
    empty = sampling_loss(model(INPUTS[:0], GIVEN[:0], OUTPUTS[:0]), COUNTED[:0])
    empty.backward()
    assert empty.item() == 0.0
    scores = model(INPUTS, GIVEN, OUTPUTS)
    assert sampling_loss(scores, torch.ones_like(COUNTED)).item() == pytest.approx(4 * 3 * math.log(2))
