"""The feed-forward network: one function for every position, its activations and its dropout."""

import pytest
import torch
from devices import seeded
from torch.nn import functional as F

from headwise.errors import ConfigError
from headwise.layers.feed_forward import ACTIVATIONS, FeedForward


def network(activation, dropout=0.0, dtype=torch.float64):
    torch.manual_seed(3)
    return FeedForward(7, 13, activation, dropout).to(dtype)


def numbers(*shape):
    return torch.randn(*shape, generator=seeded(5), dtype=torch.float64)


def test_formulas():
    x = numbers(2, 5, 7)
    for activation, inner in (("relu", F.relu), ("gelu", F.gelu), ("silu", lambda a: a / (1 + torch.exp(-a)))):
        net = network(activation)
        expected = inner(x @ net.inner.weight.T + net.inner.bias) @ net.outer.weight.T + net.outer.bias
        torch.testing.assert_close(net(x), expected, rtol=1e-12, atol=1e-12)
    net = network("swiglu")
    (gate, linear), (gate_bias, linear_bias) = net.inner.weight.chunk(2), net.inner.bias.chunk(2)
    gated = x @ gate.T + gate_bias
    inner = gated / (1 + torch.exp(-gated)) * (x @ linear.T + linear_bias)
    torch.testing.assert_close(net(x), inner @ net.outer.weight.T + net.outer.bias, rtol=1e-12, atol=1e-12)
    assert net.inner.weight.shape == (26, 7)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_acts_on_each_position_alone(activation):
    net, x = network(activation), numbers(2, 5, 7)
    order = torch.tensor([3, 0, 4, 1, 2])
    # the product may round a row differently where it stands elsewhere
    torch.testing.assert_close(net(x[:, order]), net(x)[:, order], rtol=1e-12, atol=1e-12)
    assert [net(numbers(*shape)).shape for shape in ((7,), (0, 5, 7))] == [(7,), (0, 5, 7)]


def test_dropout_is_for_training_and_keeps_the_mean():
    net, x = network("relu", 0.25, torch.float32), numbers(3, 7).float()
    quiet = net.eval()(x)
    assert torch.equal(net(x), quiet)
    net.train()
    with torch.no_grad():
        draws = torch.stack([net(x) for _ in range(2000)])
    assert not torch.equal(draws[0], draws[1])
    assert ((draws.mean(0) - quiet).abs() < 4.5 * draws.std(0) / 2000**0.5).all()


def test_unknown_activation():
    with pytest.raises(ConfigError, match=r"unknown activation 'swigllu'; did you mean 'swiglu'\?"):
        FeedForward(7, 13, "swigllu")
    with pytest.raises(ConfigError, match=r"dropout \(1.0\) must be at least 0 and below 1"):
        FeedForward(7, 13, "relu", 1.0)
