"""The Conformer's parts by their formulas, and what padding and masks of the spectrogram may change."""

import pytest
import torch
from torch.nn import functional as F

from headwise.attention.masks import Padding
from headwise.errors import ConfigError
from headwise.tasks.speech.encoders import ConformerConfig, ConvolutionModule, SpectrogramMasks, Subsampling

SIZES = {"d_model": 6, "d_ff": 7, "num_heads": 3, "encoder_layers": 2, "kernel": 5, "dropout": 0.0}
LENS = torch.tensor([11, 4, 0])


def made(**values):
    torch.manual_seed(2)
    return ConformerConfig(**SIZES | values).encoder().double()


def frames(length=11, width=6):
    return torch.randn(3, length, width, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_the_convolution_is_that_of_its_loops():
    torch.manual_seed(0)
    module, x, lens = ConvolutionModule(6, 5).double(), frames(), torch.tensor([11, 4, 7])
    found = module(x, lens)
    weight, bias = module.depthwise.weight[:, 0], module.depthwise.bias
    for row, length in enumerate(lens.tolist()):
        value, gate = module.inner(x[row]).chunk(2, -1)
        gated = value * gate.sigmoid()
        for place in range(length):
            total = bias.clone()
            for step in range(-2, 3):
                if 0 <= place + step < length:
                    total = total + weight[:, step + 2] * gated[place + step]
            normed = F.layer_norm(total, (6,), module.norm.weight, module.norm.bias)
            wanted = module.outer(normed * normed.sigmoid())
            torch.testing.assert_close(found[row, place], wanted)


def test_a_block_is_half_attention_convolution_half_norm():
    encoder = made(encoder_layers=1, position="none")
    block, x, lens = encoder.blocks[0], frames()[:1], torch.tensor([11])
    first, attention, convolution, second, last = block.norms
    y = x + block.first(first(x)) / 2
    y = y + block.self_attention(attention(y), mask=Padding(lens))
    y = y + block.convolution(convolution(y), lens)
    y = y + block.second(second(y)) / 2
    torch.testing.assert_close(encoder(x, lens), last(y))


@pytest.mark.parametrize(
    "values", [{}, {"position": "rotary"}, {"window": 2}, {"mechanism": "linear", "position": "none"}]
)
def test_padding_and_neighbours_change_nothing(values):
    encoder, x = made(**values), frames()
    # what stands beyond the lengths must not matter, whatever it is
    poisoned = x.clone()
    poisoned[1, 4:] = torch.nan
    poisoned[2] = torch.nan
    found, again = encoder(x, LENS), encoder(poisoned, LENS)
    for row, length in enumerate(LENS.tolist()):
        torch.testing.assert_close(found[row, :length], again[row, :length])
        if length:
            alone = encoder(x[row : row + 1, :length], LENS[row : row + 1])
            torch.testing.assert_close(found[row, :length], alone[0])


def test_a_window_reaches_as_far_as_it_says():
    encoder = made(encoder_layers=1, kernel=1, window=2)
    x = frames()[:1].requires_grad_()
    encoder(x, torch.tensor([11]))[0, 5].sum().backward()
    assert (x.grad[0].abs().sum(-1) > 0).nonzero()[:, 0].tolist() == [3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kernel": 4}, r"kernel \(4\) must be odd"),
        ({"segment": 3}, "leave out segment"),
        ({"norm": "rms"}, "leave out norm"),
        ({"norm_order": "post"}, "leave out norm_order"),
        ({"residual": False}, "leave out residual"),
        ({"d_ff": 0}, "set d_ff to 1 or more"),
    ],
)
def test_what_a_conformer_cannot_do_is_refused(values, message):
    with pytest.raises(ConfigError, match=message):
        ConformerConfig(**SIZES | values)


@pytest.mark.parametrize(("factor", "places"), [(1, [11, 4, 0]), (2, [6, 2, 0]), (4, [3, 1, 0])])
def test_fewer_frames_that_know_nothing_of_padding(factor, places):
    torch.manual_seed(0)
    layer, x = Subsampling(6, 5, factor).double(), frames()
    poisoned = x.clone()
    poisoned[1, 4:] = torch.nan
    found, lens = layer(x, LENS)
    assert lens.tolist() == places
    assert found.shape == (3, max(places), 5)
    again = layer(poisoned, LENS)[0]
    alone = layer(x[1:2, :4], LENS[1:2])[0]
    torch.testing.assert_close(again[1, : places[1]], found[1, : places[1]])
    torch.testing.assert_close(alone[0], found[1, : places[1]])


def test_masks_hide_stretches_in_training_alone():
    masks, x = SpectrogramMasks(2, 4, 1, 3), torch.ones(50, 20, 9)
    assert masks.eval()(x) is x
    torch.manual_seed(0)
    hidden = masks.train()(x) == 0
    torch.manual_seed(0)
    assert torch.equal(masks(x) == 0, hidden)
    times, bands = hidden.all(2), hidden.all(1)
    assert torch.equal(hidden, times[:, :, None] | bands[:, None])
    assert times.sum(1).max() <= 8
    assert {0, 3} <= set(bands.sum(1).tolist()) <= {0, 1, 2, 3}
    # every place can be hidden, the last one too
    assert times.any(0).all()
    assert bands.any(0).all()
    assert masks(torch.ones(2, 2, 9)).shape == (2, 2, 9)
