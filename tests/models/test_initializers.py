"""Initial weights have the deviation of their formula, matrix by matrix, also where matrices are packed."""

import pytest
import torch
from torch import nn

from headwise.attention.mechanisms.scored import Scored
from headwise.layers.attention import MultiHeadAttention
from headwise.layers.feed_forward import FeedForward
from headwise.models.initializers import initialize

DEVIATION = {
    "xavier": lambda fan_in, fan_out: (2 / (fan_in + fan_out)) ** 0.5,
    "kaiming": lambda fan_in, fan_out: (2 / fan_in) ** 0.5,
    "normal": lambda fan_in, fan_out: 0.02,
}


@pytest.mark.parametrize("scheme", DEVIATION)
@pytest.mark.parametrize(("kv_heads", "memory_dim"), [(None, None), (2, None), (2, 96), (None, 320)])
def test_deviation_of_every_matrix(scheme, kv_heads, memory_dim):
    torch.manual_seed(2)
    attention = MultiHeadAttention(192, 8, Scored(), num_kv_heads=kv_heads, memory_dim=memory_dim)
    model = nn.ModuleList([attention, FeedForward(192, 512), nn.Linear(96, 384, bias=False)])
    initialize(model, scheme)
    matrices = [*attention.matrices(), *(net.weight for net in (model[1].inner, model[1].outer, model[2]))]
    for matrix in (weight.detach() for weight in matrices):
        fan_out, fan_in = matrix.shape
        assert float(matrix.std()) == pytest.approx(DEVIATION[scheme](fan_in, fan_out), rel=0.05)
        assert abs(float(matrix.mean())) < 4 * float(matrix.std()) / matrix.numel() ** 0.5
    kv_width = 192 if kv_heads is None else 48
    assert [tuple(part.shape) for part in attention.matrices()] == [
        (192, 192), (kv_width, memory_dim or 192), (kv_width, memory_dim or 192), (192, 192)
    ]  # fmt: skip


@pytest.mark.parametrize("scheme", ["xavier", "kaiming"])
def test_uniform_within_its_bounds(scheme):
    torch.manual_seed(2)
    linear = nn.Linear(96, 384)
    initialize(nn.ModuleList([linear]), scheme)
    bound = 3**0.5 * DEVIATION[scheme](96, 384)
    assert 0.99 * bound < float(linear.weight.detach().abs().max()) <= bound


def test_biases_are_zero_and_the_rest_is_left_alone():
    model = nn.ModuleList([nn.Linear(7, 5), nn.LayerNorm(5), nn.Embedding(11, 5), MultiHeadAttention(6, 2, Scored())])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(3.0)
    initialize(model, "xavier")
    assert torch.equal(model[1].weight, torch.full((5,), 3.0))
    assert torch.equal(model[2].weight, torch.full((11, 5), 3.0))
    for bias in (model[0].bias, model[3].projection.bias, model[3].output.bias):
        assert not bias.any()
    for weight in (model[0].weight, model[3].projection.weight, model[3].output.weight):
        assert (weight != 3.0).all()


def test_same_seed_same_weights():
    weights = []
    for _ in range(2):
        torch.manual_seed(11)
        attention = MultiHeadAttention(6, 2, Scored())
        initialize(attention, "xavier")
        weights.append(attention.projection.weight)
    assert torch.equal(*weights)
