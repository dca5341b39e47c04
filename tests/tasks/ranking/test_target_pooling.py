"""Target attention as loops over candidates and items, what lies beyond a history, and Dice by its formula."""

import pytest
import torch

from headwise.attention.mechanisms.scored import Scored
from headwise.attention.scores import ActivationUnit
from headwise.layers.attention import MultiHeadAttention
from headwise.models.pooling import LastOfSequence, MeanOverSequence, SumOverSequence
from headwise.tasks.ranking.model import Dice, HeadsOverHistory, SamePooling, TargetAttention

WIDTH = 5


def poolings():
    torch.manual_seed(0)
    return {
        "din": TargetAttention(Scored(ActivationUnit(WIDTH, (7, 3)), "identity")),
        "din-softmax": TargetAttention(Scored(ActivationUnit(WIDTH, (7,)), "softmax")),
        "attention": HeadsOverHistory(MultiHeadAttention(WIDTH, 2, head_dim=3, memory_dim=WIDTH)),
        "mean": SamePooling(MeanOverSequence()),
        "sum": SamePooling(SumOverSequence()),
        "last": SamePooling(LastOfSequence()),
    }


@pytest.fixture
def inputs():
    torch.manual_seed(1)
    return torch.randn(3, 2, WIDTH), torch.randn(3, 7, WIDTH), torch.tensor([7, 0, 4])


@pytest.mark.parametrize("weights", ["identity", "softmax"])
def test_the_interest_of_the_paper(inputs, weights):
    targets, history, lens = inputs
    unit = ActivationUnit(WIDTH, (7, 3))
    found = TargetAttention(Scored(unit, weights))(*inputs)
    for row in range(3):
        for place, target in enumerate(targets[row]):
            items = history[row, : int(lens[row])]
            # equation 3, its small network over [t, h, t - h, t * h]
            scores = [
                unit.rest(unit.first(torch.cat([target, item, target - item, target * item]))).squeeze()
                for item in items
            ]
            if weights == "softmax" and scores:
                scores = torch.stack(scores).softmax(0)
            expected = sum((score * item for score, item in zip(scores, items, strict=True)), torch.zeros(WIDTH))
            torch.testing.assert_close(found[row, place], expected)


@pytest.mark.parametrize("name", poolings())
def test_nothing_beyond_a_history_counts_and_none_is_zero(inputs, name):
    pooling, (targets, history, lens) = poolings()[name], inputs
    found = pooling(targets, history, lens)
    assert (found[1] == 0).all()
    spoiled = history.clone()
    spoiled[2, 4:] = torch.nan
    spoiled[1] = torch.nan
    spoiled.requires_grad_()
    again = pooling(targets, spoiled, lens)
    torch.testing.assert_close(again, found)
    again.sum().backward()
    assert (spoiled.grad[1] == 0).all()
    assert (spoiled.grad[2, 4:] == 0).all()
    torch.testing.assert_close(pooling(targets[2:], history[2:, :4], lens[2:]), found[2:])


def test_dice_is_the_formula_in_training_and_keeps_running_means():
    dice, x = Dice(2), torch.randn(11, 3, 2)
    with torch.no_grad():
        dice.alpha.copy_(torch.tensor([0.25, -0.5]))
    rows = x.reshape(-1, 2)
    share = torch.sigmoid((rows - rows.mean(0)) / (rows.var(0, unbiased=False) + 1e-8).sqrt())
    expected = (share * rows + (1 - share) * dice.alpha * rows).view_as(x)
    torch.testing.assert_close(dice(x), expected)
    torch.testing.assert_close(dice.norm.running_mean, 0.1 * rows.mean(0))
    # in evaluation a row is what it is alone, and one row trains too
    dice.eval()
    torch.testing.assert_close(dice(x)[4:5, :1], dice(x[4:5, :1]))
    assert dice.train()(x[:1, :1]).isfinite().all()
