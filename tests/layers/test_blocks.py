"""Residuals, norms and the blocks made of them; golden numbers of layer and batch normalisation."""

import pytest
import torch
from devices import DEVICE, not_simulated, seeded
from torch import nn
from torch.nn import functional as F

from headwise.attention.masks import Causal, Padding
from headwise.attention.mechanisms.scored import Scored
from headwise.caches import AttentionStep, KeyValues
from headwise.layers.attention import MultiHeadAttention
from headwise.layers.blocks import DecoderBlock, EncoderBlock, Residual
from headwise.layers.feed_forward import FeedForward

WIDTH, HEADS, INNER = 33, 3, 17
MAKERS = {"pre": Residual.pre_norm, "post": Residual.post_norm}


def attention(memory_dim=None):
    return MultiHeadAttention(WIDTH, HEADS, Scored(), memory_dim=memory_dim)


def blocks(norm, dropout=0.0):
    torch.manual_seed(2)
    make = MAKERS[norm]
    encoder = EncoderBlock(attention(), FeedForward(WIDTH, INNER), make(WIDTH, dropout), make(WIDTH, dropout))
    decoder = DecoderBlock(
        attention(), attention(WIDTH), FeedForward(WIDTH, INNER), *(make(WIDTH, dropout) for _ in range(3))
    )
    for module in (encoder, decoder):
        for parameter in module.parameters():
            nn.init.normal_(parameter, std=0.3)
    return encoder.double(), decoder.double()


def numbers(*shape, seed=4):
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def test_zeroed_sublayer_leaves_the_residual():
    for norm in MAKERS:
        encoder, decoder = blocks(norm)
        for block in (encoder, decoder):
            for name, module in block.named_children():
                if "residual" not in name:
                    nn.init.zeros_((module.outer if name == "feed_forward" else module.output).weight)
                    nn.init.zeros_((module.outer if name == "feed_forward" else module.output).bias)
                elif norm == "post":
                    module.after.reset_parameters()
        x = numbers(2, 5, WIDTH)
        normed = F.layer_norm(x, (WIDTH,))
        memory = numbers(2, 7, WIDTH)
        for output in (encoder(x, None), decoder(x, memory, mask=Causal(), memory_mask=None)):
            if norm == "pre":
                assert torch.equal(output, x)
            else:
                # a norm of a norm is the norm again, up to the small number under its root
                torch.testing.assert_close(output, normed, rtol=1e-4, atol=1e-4)


def test_blocks_by_definition():
    x, memory = numbers(2, 5, WIDTH), numbers(2, 7, WIDTH, seed=6)
    mask, lens = Causal(), Padding(torch.tensor([7, 3]))
    for norm in MAKERS:
        encoder, decoder = blocks(norm)

        def joined(residual, x, sublayer, norm=norm):
            if norm == "pre":
                return x + sublayer(residual.before(x))
            return residual.after(x + sublayer(x))

        y = joined(encoder.attention_residual, x, lambda x, e=encoder: e.self_attention(x, mask=mask))
        y = joined(encoder.feed_forward_residual, y, encoder.feed_forward)
        torch.testing.assert_close(encoder(x, mask), y, rtol=1e-12, atol=1e-12)

        y = joined(decoder.self_residual, x, lambda x, d=decoder: d.self_attention(x, mask=mask))
        y = joined(decoder.cross_residual, y, lambda x, d=decoder: d.cross_attention(x, memory, mask=lens))
        y = joined(decoder.feed_forward_residual, y, decoder.feed_forward)
        torch.testing.assert_close(decoder(x, memory, mask=mask, memory_mask=lens), y, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("norm", MAKERS)
def test_residual_dropout_is_on_the_branch_in_training(norm):
    torch.manual_seed(6)
    residual = MAKERS[norm](WIDTH, 0.5)
    x, branch = torch.ones(11, WIDTH)[None], torch.full((1, 11, WIDTH), 2.0)
    residual.eval()
    whole = 3 * torch.ones_like(x)
    torch.testing.assert_close(residual(x, branch), whole if norm == "pre" else F.layer_norm(whole, (WIDTH,)))
    residual.train()
    if norm == "pre":
        # the input always passes; a branch element is dropped or doubled
        assert set(residual(x, branch).unique().tolist()) == {1.0, 5.0}
    else:
        assert not torch.equal(residual(x, branch), residual(x, branch))
    assert repr(residual).startswith("Residual(\n  dropout=0.5")


def test_gradient_passes_a_residual():
    torch.manual_seed(3)
    residual = Residual.pre_norm(WIDTH, 0.3).train()
    x, branch = torch.randn(1, 11, WIDTH, requires_grad=True), torch.randn(1, 11, WIDTH, requires_grad=True)
    residual(x, branch).sum().backward()
    assert torch.equal(x.grad, torch.ones_like(x))
    zero = branch.grad == 0
    assert 0.15 < zero.double().mean() < 0.45
    assert branch.grad[~zero].unique().numel() == 1


def test_cached_step_needs_no_memory():
    _, decoder = blocks("pre")
    x, memory = numbers(2, 5, WIDTH), numbers(2, 7, WIDTH, seed=6)
    lens = Padding(torch.tensor([7, 3]))
    whole = decoder(x, memory, mask=Causal(), memory_mask=lens)
    own, cross = KeyValues(), KeyValues()
    for row in range(5):
        out = decoder(
            x[:, row : row + 1],
            memory if row == 0 else None,
            mask=None,
            memory_mask=lens,
            self_cache=AttentionStep(own, row),
            cross_cache=AttentionStep(cross, 0),
        )
        torch.testing.assert_close(out[:, 0], whole[:, row], rtol=1e-12, atol=1e-12)


@not_simulated("it has no autocast")
@pytest.mark.parametrize("norm", MAKERS)
def test_a_bfloat16_stream_is_cast_by_nothing(norm):
    """Under autocast numbers that enter in bfloat16 stay so through norms, dropout and residuals."""
    encoder, _ = blocks(norm, 0.1)
    encoder.float().train()
    x = numbers(2, 5, WIDTH).bfloat16()
    with torch.autocast(DEVICE, torch.bfloat16):
        encoder(x, None)
        with torch.profiler.profile(record_shapes=True) as profile:
            output = encoder(x, None)
    assert output.dtype == torch.bfloat16
    cast = [event.input_shapes[0] for event in profile.events() if event.name == "aten::_to_copy"]
    # weights are cast once; heads inside the attention, where scores are float32
    assert [2, 5, WIDTH] not in cast
