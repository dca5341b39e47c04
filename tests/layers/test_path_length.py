"""How many layers a signal needs from one end of a sequence to the other (S129), read from Jacobians."""

import pytest
import torch
from torch import nn

from headwise.attention.masks import Window
from headwise.attention.mechanisms.scored import Scored
from headwise.layers.attention import MultiHeadAttention

LENGTH = 9


def layers_needed(layer) -> int:
    """The least depth at which the last output depends on the first input."""
    for depth in range(1, 2 * LENGTH):
        x = torch.randn(1, LENGTH, 4, dtype=torch.float64, requires_grad=True)
        hidden = x
        for _ in range(depth):
            hidden = layer(hidden)
        if torch.autograd.grad(hidden[0, -1].sum(), x)[0][0, 0].any():
            return depth
    raise AssertionError("never")


def test_attention_needs_one_layer():
    module = MultiHeadAttention(4, 2, Scored()).double()
    assert layers_needed(module) == 1


@pytest.mark.parametrize("width", [1, 2, 3, 8])
def test_a_window_needs_its_share(width):
    module = MultiHeadAttention(4, 2, Scored()).double()
    assert layers_needed(lambda x: module(x, mask=Window(width, width))) == -(-(LENGTH - 1) // width)


@pytest.mark.parametrize("kernel", [3, 5, 9])
def test_a_convolution_needs_a_layer_for_each_half_filter(kernel):
    """From end to end each layer moves (k - 1) / 2; both ends meet in some neuron after ceil((n - 1) / (k - 1))."""
    convolution = nn.Conv1d(4, 4, kernel, padding=kernel // 2).double()
    assert layers_needed(lambda x: convolution(x.mT).mT) == -(-(LENGTH - 1) // (kernel // 2))


def test_a_recurrent_network_needs_a_step_for_each_place():
    cell = nn.RNNCell(4, 4).double()
    x = torch.randn(LENGTH, 4, dtype=torch.float64, requires_grad=True)
    state, steps = cell(x[:1]), 0
    while steps < LENGTH - 1:
        state, steps = cell(x[steps + 1 : steps + 2], state), steps + 1
    assert torch.autograd.grad(state.sum(), x)[0][0].any()
    assert steps == LENGTH - 1
