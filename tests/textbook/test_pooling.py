"""Attention pooling as the book's page of kernel regression computes it: numbers by hand, and against loops."""

import math

import pytest
import torch
from matplotlib import pyplot
from torch import nn
from torch.testing import assert_close

from headwise import textbook as d2l
from headwise.errors import Unsupported


def looped(queries, keys, values, w):
    found = []
    for query, near, worth in zip(queries.tolist(), keys.tolist(), values.tolist(), strict=True):
        weights = [math.exp(-(((query - key) * w) ** 2) / 2) for key in near]
        found.append(sum(a * b for a, b in zip(weights, worth, strict=True)) / sum(weights))
    return torch.tensor(found)


def pooled(w):
    net = d2l.NWKernelRegression()
    net.w.data.fill_(w)
    return net


@pytest.mark.parametrize("w", [0.0, 1.0, 3.5])
def test_estimates_are_weighted_means(w):
    queries, keys, values = torch.randn(5), torch.randn(5, 7), torch.randn(5, 7)
    net = pooled(w)
    assert_close(net(queries, keys, values), looped(queries, keys, values, w))
    assert net.attention_weights.shape == (5, 7)
    assert_close(net.attention_weights.sum(-1), torch.ones(5))


def test_the_width_decides_between_the_mean_and_the_nearest():
    queries, keys = torch.tensor([0.1]), torch.tensor([[0.0, 1.0, 3.0]])
    values = torch.tensor([[5.0, 7.0, 3.0]])
    assert pooled(0.0)(queries, keys, values).item() == pytest.approx(5.0)
    assert pooled(100.0)(queries, keys, values).item() == pytest.approx(5.0)
    assert pooled(1.0)(torch.tensor([2.9]), keys, values).item() == pytest.approx(3.5856, abs=1e-4)
    assert pooled(100.0)(torch.tensor([2.9]), keys, values).item() == 3.0


def test_points_far_away_do_not_overflow():
    out = pooled(1.0)(torch.tensor([1e4]), torch.tensor([[0.0, 1.0]]), torch.tensor([[5.0, 7.0]]))
    assert out.item() == 7.0


def test_no_weights_before_a_call():
    with pytest.raises(Unsupported, match="call the module first"):
        _ = pooled(1.0).attention_weights


def f(x):
    return 2 * torch.sin(x) + x**0.8


@pytest.mark.usefixtures("untyped")
def test_the_page_without_and_with_parameters():
    n_train = 50
    x_train, _ = torch.sort(torch.rand(n_train) * 5)
    y_train = f(x_train) + torch.normal(0.0, 0.5, (n_train,))
    x_test = torch.arange(0, 5, 0.1)
    # without parameters: nearer the truth than the mean, and flatter than the truth
    weights = nn.functional.softmax(-((x_test[:, None] - x_train) ** 2) / 2, dim=1)
    plain = weights @ y_train
    assert_close(plain, looped(x_test, x_train.repeat(50, 1), y_train.repeat(50, 1), 1.0))
    truth = f(x_test)
    assert (plain - truth).square().mean() < 0.6 * (y_train.mean() - truth).square().mean()
    d2l.plot(x_test, [truth, plain], "x", "y", legend=["Truth", "Pred"], xlim=[0, 5], ylim=[-1, 5])
    d2l.plt.plot(x_train, y_train, "o", alpha=0.5)
    assert len(pyplot.gcf().axes[0].lines) == 3
    d2l.show_heatmaps(
        weights.unsqueeze(0).unsqueeze(0), xlabel="Sorted training inputs", ylabel="Sorted testing inputs"
    )
    # with a width: each training point is estimated from the others
    others = (1 - torch.eye(n_train)).type(torch.bool)
    keys = x_train.repeat((n_train, 1))[others].reshape((n_train, -1))
    values = y_train.repeat((n_train, 1))[others].reshape((n_train, -1))
    net, loss = pooled(1.0), nn.MSELoss(reduction="none")
    trainer = torch.optim.SGD(net.parameters(), lr=0.5)
    animator = d2l.Animator(xlabel="epoch", ylabel="loss", xlim=[1, 5])
    losses = []
    for epoch in range(5):
        trainer.zero_grad()
        found = loss(net(x_train, keys, values), y_train)
        found.sum().backward()
        trainer.step()
        losses.append(found.sum().item())
        animator.add(epoch + 1, found.sum())
    assert animator.axes[0].lines[0].get_ydata().tolist() == losses
    assert losses[-1] < 0.9 * losses[0]
    # the learned kernel is narrower
    assert net.w.item() > 1.5
    pyplot.close("all")
