"""Models made ready for decoding: the same numbers from the same weights, whatever the parts and the beams do."""

import copy

import pytest
import torch
from torch import nn

from headwise.attention.mechanisms.scored import Scored
from headwise.attention.normalizers import relu
from headwise.layers import decoding, packed
from headwise.layers.blocks import DecoderBlock
from headwise.layers.decoding import DecodingBlock, for_inference, is_current
from headwise.layers.packed import PackedLinear
from headwise.models.transformer import build_transformer
from headwise.models.transformer_config import TransformerConfig

SIZES = {"d_model": 12, "d_ff": 23, "num_heads": 3, "encoder_layers": 1, "decoder_layers": 2, "max_len": 97}
VOCAB = 19
LENS = torch.tensor([5, 0, 3])


def model(dtype=torch.float64, **options):
    torch.manual_seed(3)
    made = build_transformer(TransformerConfig(**(SIZES | options)), VOCAB, VOCAB, joint=True)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    return made.to(dtype)


def memory_of(made):
    source = torch.randint(4, VOCAB, (3, 5), generator=torch.Generator().manual_seed(4))
    return made.encoder(source, LENS)


def decoded(made, steps, beams, moves=True):
    """Logits of every step of one and the same walk: tokens, changes of place and departures are drawn by seed."""
    generator = torch.Generator().manual_seed(9)
    cache = made.decoder.start(memory_of(made), LENS)
    sentences, logits = 3, [made.decoder.step(torch.randint(4, VOCAB, (3,), generator=generator), cache)]
    cache.expand(beams)
    for step in range(steps):
        rows = torch.randint(4, VOCAB, (sentences * beams,), generator=generator)
        logits.append(made.decoder.step(rows, cache))
        if moves and beams > 1:
            own = torch.arange(sentences)[:, None] * beams
            cache.reorder((own + torch.randint(beams, (sentences, beams), generator=generator)).flatten())
        if moves and step == steps // 2:
            cache.keep(torch.tensor([2, 0]))
            sentences = 2
    return logits


def same(made, twin, steps=5, beams=3, **tolerance):
    with torch.inference_mode():
        for plain, fast in zip(decoded(made, steps, beams), decoded(twin, steps, beams), strict=True):
            torch.testing.assert_close(fast, plain, **tolerance)


EXACT = {"rtol": 1e-12, "atol": 1e-12}


@pytest.mark.parametrize("position", ["sinusoidal", "rotary", "learned", "none"])
@pytest.mark.parametrize("kv_heads", [None, 1])
@pytest.mark.parametrize("activation", ["relu", "gelu", "swiglu"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_same_numbers(norm, activation, kv_heads, position):
    options = {"norm": norm, "activation": activation, "num_kv_heads": kv_heads, "position": position}
    made = model(**options, **({"num_heads": 3, "d_model": 18} if position == "rotary" else {})).eval()
    twin = for_inference(made)
    assert all(type(block) is DecodingBlock for block in twin.decoder.blocks)
    for beams in (1, 3):
        same(made, twin, beams=beams, **EXACT)


@pytest.mark.parametrize("beams", [1, 4])
def test_same_numbers_while_the_cache_grows(beams):
    made = model(position="rotary", d_model=18).eval()
    same(made, for_inference(made), steps=37, beams=beams, **EXACT)


def test_packed_layers_too(monkeypatch):
    monkeypatch.setattr(packed, "SMALLEST", 1)
    made = model(torch.float32).eval()
    twin = for_inference(made)
    assert any(isinstance(module, PackedLinear) for module in twin.modules())
    assert not any(isinstance(module, PackedLinear) for module in made.modules())
    same(made, twin, steps=19, rtol=1e-5, atol=1e-5)


def test_without_the_packing_operation(monkeypatch):
    monkeypatch.setattr(packed, "SMALLEST", 1)
    monkeypatch.setattr(packed, "_packed", lambda weight: None)
    made = model(torch.float32).eval()
    same(made, for_inference(made), rtol=1e-6, atol=1e-6)


def test_parameters_are_shared_not_copied():
    made = model(torch.float32)
    before = copy.deepcopy(made.state_dict())
    twin = for_inference(made)
    assert {id(p) for p in twin.parameters()} == {id(p) for p in made.parameters()}
    assert {p.data_ptr() for p in twin.buffers()} == {p.data_ptr() for p in made.buffers()}
    assert twin.decoder.output.weight is made.decoder.embedding.weight
    assert made.training
    assert not any(module.training for module in twin.modules())
    # making it changed nothing
    assert all(torch.equal(before[name], value) for name, value in made.state_dict().items())
    assert all(type(block) is DecoderBlock for block in made.decoder.blocks)


@pytest.mark.parametrize(
    "options",
    [{"normalizer": "relu"}, {"score": "additive"}, {"score": "bilinear"}, {"score": "dot"}, {"kernel": "plain"}],
)
def test_what_is_not_plain_keeps_its_block(options):
    made = model(**options).eval()
    twin = for_inference(made)
    assert all(type(block) is DecoderBlock for block in twin.decoder.blocks)
    same(made, twin, **EXACT)


def test_every_condition_of_a_plain_block():
    def changed(change):
        block = model().decoder.blocks[0]
        change(block)
        return decoding._is_plain(block)

    assert changed(lambda block: None)
    assert not changed(lambda block: setattr(block.self_attention.mechanism, "normalizer", relu))
    assert not changed(lambda block: setattr(block.cross_attention.mechanism, "kernel", "plain"))
    assert not changed(lambda block: setattr(block.cross_attention, "mechanism", nn.Identity()))
    assert not changed(lambda block: setattr(block.cross_attention, "memory_projection", None))
    assert changed(lambda block: setattr(block.self_attention, "mechanism", Scored()))


def test_other_calls_go_to_the_block_it_was_made_of():
    made = model().eval()
    twin = for_inference(made)
    memory = memory_of(made)
    tokens = torch.randint(4, VOCAB, (3, 7), generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(
        twin.decoder.hidden(tokens, memory, LENS), made.decoder.hidden(tokens, memory, LENS), **EXACT
    )


def test_a_copy_tells_when_it_is_outdated(monkeypatch):
    monkeypatch.setattr(packed, "SMALLEST", 1)
    made = model(torch.float32).eval()
    twin = for_inference(made)
    assert is_current(twin)
    with torch.no_grad():
        made.decoder.blocks[1].feed_forward.outer.weight.mul_(1.1)
    assert not is_current(twin)
    assert is_current(for_inference(made))


def test_dropout_does_not_act():
    made = model(dropout=0.5, attention_dropout=0.5, activation_dropout=0.5)
    twin = for_inference(made.train())
    same(made.eval(), twin, **EXACT)


def test_norms_of_another_kind_are_called_as_they_are():
    made = model(norm="pre").eval()
    for block in made.decoder.blocks:
        for residual in (block.self_residual, block.cross_residual, block.feed_forward_residual):
            residual.before = nn.RMSNorm(12).double()
    same(made, for_inference(made), **EXACT)
