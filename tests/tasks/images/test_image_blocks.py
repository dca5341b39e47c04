"""Random changes of images, standardizing, residual convolutions, and attention over a map against its formula."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from headwise.attention.mechanisms.scored import Scored
from headwise.layers.attention import MultiHeadAttention
from headwise.models.initializers import initialize
from headwise.tasks.images.encoders import (
    AttentionCnnConfig,
    Augmentation,
    CnnConfig,
    Gate,
    MapAttention,
    ResidualConvolutions,
    Standardized,
)


def numbered(batch=64, channels=2, height=5, width=7):
    count = channels * height * width
    return torch.arange(count, dtype=torch.uint8).view(1, channels, height, width).expand(batch, -1, -1, -1)


def moved(pixels, down, across, flip):
    """The definition in loops: each pixel comes from where it was, the nearest edge beyond it."""
    _, height, width = pixels.shape
    found = torch.empty_like(pixels)
    for row in range(height):
        for column in range(width):
            source = min(max(column + across, 0), width - 1)
            source = width - 1 - source if flip else source
            found[:, row, column] = pixels[:, min(max(row + down, 0), height - 1), source]
    return found


def test_every_move_and_mirror_is_drawn_and_no_other():
    torch.manual_seed(0)
    pixels = numbered(400)
    found = Augmentation(1, flip=True).train()(pixels)
    allowed = {
        moved(pixels[0], down, across, flip).numpy().tobytes(): (down, across, flip)
        for down in (-1, 0, 1)
        for across in (-1, 0, 1)
        for flip in (False, True)
    }
    drawn = [allowed[image.contiguous().numpy().tobytes()] for image in found]
    counts = [drawn.count(kind) for kind in allowed.values()]
    # 400 draws of 18 kinds
    assert len(counts) == 18
    assert min(counts) >= 8
    assert max(counts) <= 42


def test_augmentation_rests_in_eval_and_where_nothing_is_asked_for():
    pixels = numbered()
    state = torch.get_rng_state()
    assert torch.equal(Augmentation(3, flip=True).eval()(pixels), pixels)
    assert torch.equal(Augmentation(0, flip=False).train()(pixels), pixels)
    assert torch.equal(torch.get_rng_state(), state)
    assert Augmentation(0, flip=True).train()(pixels).dtype == torch.uint8


def test_draws_follow_the_random_state():
    model = Augmentation(2, flip=True).train()
    torch.manual_seed(1)
    first, second = model(numbered()), model(numbered())
    torch.manual_seed(1)
    assert torch.equal(model(numbered()), first)
    assert torch.equal(model(numbered()), second)
    assert not torch.equal(first, second)


def test_standardized_images_have_mean_zero_and_deviation_one():
    pixels = torch.randint(0, 256, (7, 3, 5, 5), dtype=torch.uint8)
    fractions = pixels.double() / 255
    mean, deviation = fractions.mean((0, 2, 3)), fractions.std((0, 2, 3), correction=0)
    found = Standardized(mean.tolist(), deviation.tolist())(pixels)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.mean((0, 2, 3)), torch.zeros(3), rtol=0, atol=1e-5)
    torch.testing.assert_close(found.std((0, 2, 3), correction=0), torch.ones(3), rtol=1e-5, atol=0)


def test_a_residual_block_is_its_formula():
    torch.manual_seed(0)
    first, second, shortcut = nn.Conv2d(3, 5, 3, 2, 1), nn.Conv2d(5, 5, 3, 1, 1), nn.Conv2d(3, 5, 1)
    x = torch.randn(2, 3, 7, 6)
    inside = F.relu(F.conv2d(x, first.weight, first.bias, 2, 1))
    wanted = F.relu(F.conv2d(x, shortcut.weight, shortcut.bias, 2) + F.conv2d(inside, second.weight, second.bias, 1, 1))
    torch.testing.assert_close(ResidualConvolutions(first, second, shortcut, 2)(x), wanted)


@pytest.mark.parametrize("kind", [CnnConfig, AttentionCnnConfig])
def test_no_convolution_of_size_one_has_a_stride(kind):
    # oneDNN's gradient of one, over channels-last maps, corrupts memory where a processor has AVX2 and no more
    encoder = kind(width=4, stages=3).encoder((16, 16, 1))
    sizes = {(layer.kernel_size, layer.stride) for layer in encoder.modules() if isinstance(layer, nn.Conv2d)}
    assert ((3, 3), (2, 2)) in sizes
    assert ((1, 1), (2, 2)) not in sizes


def sagan(channels=16, inner=2):
    torch.manual_seed(0)
    made = MapAttention(MultiHeadAttention(channels, 1, Scored("dot"), head_dim=inner)).double()
    initialize(made, "xavier")
    return made


def test_map_attention_begins_as_the_identity_and_learns_its_gate():
    block, x = sagan(), torch.randn(2, 16, 3, 5, dtype=torch.double)
    assert torch.equal(block(x), x)
    block(x).square().sum().backward()
    assert block.gate.gamma.grad.abs() > 0
    # what is behind a closed gate waits
    assert not block.attention.projection.weight.grad.any()


def test_map_attention_is_the_formula_of_the_paper():
    """Zhang et al. 2019, arXiv:1805.08318, eq. 1 to 3, in loops over the places."""
    block, x = sagan(), torch.randn(2, 16, 3, 5, dtype=torch.double)
    with torch.no_grad():
        block.gate.gamma.fill_(0.7)
        block.attention.projection.bias.normal_()
    g, f, h = block.attention.projection.weight.split(2)
    g_bias, f_bias, h_bias = block.attention.projection.bias.split(2)
    v, v_bias = block.attention.output.weight, block.attention.output.bias
    for image in range(2):
        places = [(row, column) for row in range(3) for column in range(5)]
        at = {place: x[image, :, place[0], place[1]] for place in places}
        for j in places:
            s = torch.stack([(f @ at[i] + f_bias) @ (g @ at[j] + g_bias) for i in places])
            beta = s.exp() / s.exp().sum()
            mixed = sum(share * (h @ at[i] + h_bias) for share, i in zip(beta, places, strict=True))
            wanted = 0.7 * (v @ mixed + v_bias) + at[j]
            torch.testing.assert_close(block(x)[image, :, j[0], j[1]], wanted, rtol=1e-10, atol=1e-10)


def test_a_gate_is_one_number():
    gate = Gate()
    assert [parameter.shape for parameter in gate.parameters()] == [()]
    with torch.no_grad():
        gate.gamma.fill_(2.0)
    assert gate(torch.ones(3)).tolist() == [2.0] * 3
