"""Models made ready for decoding: the same numbers from the same weights, whatever the parts and the beams do."""

import copy

import pytest
import torch
from devices import DEVICE, not_simulated, on_the_host, seeded
from torch import nn

from headwise import native
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.normalizers import build
from headwise.errors import MachineError
from headwise.layers import compiled as compiled_module
from headwise.layers import inference
from headwise.layers.blocks import DecoderBlock
from headwise.layers.inference import (
    SMALLEST,
    DecodingBlock,
    RoundedLinear,
    bfloat16_product,
    for_inference,
    int8_product,
    is_current,
    is_rounded,
)
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
    source = torch.randint(4, VOCAB, (3, 5), generator=seeded(4))
    return made.encoder(source, LENS)


def decoded(made, steps, beams, moves=True):
    """Logits of every step of one and the same walk: tokens, changes of place and departures are drawn by seed."""
    generator = seeded(9)
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


@pytest.mark.parametrize(
    ("norm", "activation", "kv_heads", "position"),
    [
        ("pre", "relu", None, "rotary"),
        ("post", "gelu", 1, "sinusoidal"),
        ("pre", "swiglu", 1, "rotary"),
        ("post", "relu", None, "learned"),
    ],
)
def test_same_numbers(norm, activation, kv_heads, position):
    made = model(norm_order=norm, activation=activation, num_kv_heads=kv_heads, position=position, d_model=18).eval()
    twin = for_inference(made)
    assert all(type(block) is DecodingBlock for block in twin.decoder.blocks)
    for beams in (1, 3):
        same(made, twin, beams=beams, **EXACT)


@pytest.mark.parametrize("options", [{"norm": "none"}, {"norm": "rms"}, {"residual": False}, {"d_ff": 0}])
def test_same_numbers_without_parts(options):
    made = model(**options).eval()
    twin = for_inference(made)
    # blocks that miss a part run as they are
    assert all((type(block) is DecodingBlock) == ("norm" in options) for block in twin.decoder.blocks)
    same(made, twin, **EXACT)


def test_same_numbers_while_the_cache_grows():
    made = model(position="rotary", d_model=18).eval()
    same(made, for_inference(made), steps=37, beams=4, **EXACT)


@on_the_host("layers are rounded on a processor")
@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_large_layers_too(monkeypatch, precision):
    for name in ("SMALLEST", "SMALLEST_INT8"):
        monkeypatch.setattr(inference, name, 1)
    made = model(torch.float32).eval()
    twin = for_inference(made, precision)
    assert sum(type(module) is RoundedLinear for module in twin.modules()) > 10
    assert not any(type(module) is RoundedLinear for module in made.modules())
    same(made, twin, steps=11, rtol=1e-5, atol=0.3)


def linear(bias=True):
    torch.manual_seed(3)
    return nn.Linear(97, 301, bias=bias)


PRODUCTS = pytest.mark.parametrize("product", [bfloat16_product, int8_product])


@PRODUCTS
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [(1,), (2, 5), (0,), ()])
def test_a_rounded_product(rows, bias, product):
    plain, x = linear(bias), torch.randn(*rows, 97)
    with torch.inference_mode():
        rounded = RoundedLinear(plain, product)(x)
        assert rounded.dtype == torch.float32
        torch.testing.assert_close(rounded, plain(x), rtol=0, atol=3e-2 if product is bfloat16_product else 0.1)


@pytest.mark.parametrize(("rows", "columns"), [(5, 301), (15, 21_001), (17, 21_001)])
@pytest.mark.parametrize("bits", [7, 8])
def test_a_product_of_8_bits_is_that_of_the_rounded_numbers(rows, columns, bits, monkeypatch):
    if bits > min(inference.int8_bits(), inference.int8_bits("onednn")):
        pytest.skip("this processor has no exact sums of 8 bits")
    monkeypatch.setattr(inference, "int8_bits", lambda engine=None: bits)
    plain, x = nn.Linear(97, columns), torch.randn(rows, 97, generator=seeded(4))
    weight, bias = plain.weight.detach().double(), plain.bias.detach().double()
    low, high = min(0.0, float(x.min())), max(0.0, float(x.max()))
    # x in 7 or 8 bits from 0, one scale for all rows; each row of the weight in steps of its largest number by 127
    largest = 2**bits - 1
    step = (high - low) / largest
    zero = round(-low / step)
    rounded = ((x / step).round() + zero).clamp(0, largest).sub(zero).mul(step).double()
    steps = weight.abs().amax(1, keepdim=True) / 127
    expected = rounded @ ((weight / steps).round() * steps).mT + bias
    with torch.inference_mode():
        torch.testing.assert_close(int8_product(plain)(x).double(), expected, rtol=0, atol=2e-2)


@pytest.mark.parametrize("bits", [7, 8])
@pytest.mark.parametrize(("compiled", "tiled"), [(False, False), (True, False), (True, True)])
def test_a_layer_has_a_product_of_its_own_for_many_rows_where_there_is_vnni(monkeypatch, bits, compiled, tiled):
    if compiled and native.build().library is None:
        pytest.skip("no compiler here")
    if bits > inference.int8_bits("onednn"):
        pytest.skip("this processor has no exact sums of 8 bits")
    engines, plain = [], nn.Linear(97, 2_111)
    monkeypatch.setattr(inference, "int8_bits", lambda engine=None: bits)
    if not compiled:
        monkeypatch.setattr(inference, "build", lambda: native.Build(None, "as without a compiler"))
    for module in (inference, compiled_module):
        monkeypatch.setattr(module, "takes_all", lambda: tiled)
    packed = inference._packed
    monkeypatch.setattr(inference, "_packed", lambda *args: engines.append(args[2:]) or packed(*args))
    before = torch.backends.quantized.engine
    product = int8_product(plain)
    twice = bits == 8 and "onednn" in torch.backends.quantized.supported_engines
    # what is compiled takes few rows, and by tiles all
    expected = [*([] if compiled else [()]), ("onednn",)] if twice else [()]
    assert engines == ([] if tiled else expected)
    assert torch.backends.quantized.engine == before
    with torch.inference_mode():
        for shape in ((3, 17, 97), (15, 97), (16, 97), (131, 97), (0, 97)):
            x = torch.randn(shape)
            torch.testing.assert_close(product(x), plain(x), rtol=0, atol=0.1)


def test_a_row_of_zeros_stays_zero_in_8_bits():
    plain = linear(bias=False)
    with torch.inference_mode():
        plain.weight[7] = 0
        assert not int8_product(plain)(torch.randn(5, 97))[:, 7].any()


def test_without_8_bit_products_there_is_an_error(monkeypatch):
    monkeypatch.setattr(inference, "has_int8", lambda: False)
    with pytest.raises(MachineError, match=r"no 8-bit products here; set decoding\.precision to fp32 or bf16"):
        int8_product(linear())


@PRODUCTS
def test_what_is_not_trained_is_not_summed(product, monkeypatch):
    plain = linear().requires_grad_(False)
    copied = RoundedLinear(plain, product)
    monkeypatch.setattr(inference, "_sums", None)
    assert copied.is_current()
    plain.weight[3, 5] += 1.0
    assert not copied.is_current()


@PRODUCTS
def test_a_rounded_layer_tells_when_its_weight_has_changed(product):
    plain = linear()
    copied = RoundedLinear(plain, product)
    assert {name for name, _ in copied.named_parameters()} == {"linear.weight", "linear.bias"}
    assert copied.is_current()
    # a fused optimizer changes weights without telling their version
    optimizer = torch.optim.AdamW(plain.parameters(), lr=1e-2, fused=True)
    plain(torch.randn(5, 97)).sum().backward()
    optimizer.step()
    assert not copied.is_current()


@pytest.mark.parametrize("change", [(300, slice(None)), (slice(None), 96), (211, 5)], ids=["row", "column", "number"])
@PRODUCTS
def test_what_counts_no_version_is_noticed_in_any_place(change, product):
    for mode in (False, True):
        with torch.inference_mode(mode):
            plain = linear()
            copied = RoundedLinear(plain, product)
            plain.weight.data[change] += 1.0
            assert not copied.is_current()


def test_only_large_plain_layers_in_single_precision_are_rounded():
    width = int(SMALLEST**0.5) + 1
    assert is_rounded(nn.Linear(width, width)) == (DEVICE == "cpu")
    assert not is_rounded(nn.Linear(width - 2, width - 2))
    assert is_rounded(nn.Linear(width - 2, width - 2), "int8") == (DEVICE == "cpu")
    # in C++ a call costs less
    small = native.build().library is not None and DEVICE == "cpu"
    assert is_rounded(nn.Linear(64, 64), "int8") == small
    assert not is_rounded(nn.Linear(63, 64), "int8")
    assert not is_rounded(nn.Linear(width, width), "fp32")
    assert not is_rounded(Adapted(width, width))
    assert not is_rounded(nn.Linear(width, width, dtype=torch.bfloat16))
    assert not is_rounded(nn.Linear(width, width, device="meta"))
    assert not is_rounded(nn.Identity())


@not_simulated("another type unties weights there")
def test_parameters_are_shared_not_copied():
    made = model(torch.float32)
    before = copy.deepcopy(made.state_dict())
    twin = for_inference(made)
    assert {id(p) for p in twin.parameters()} == {id(p) for p in made.parameters()}
    assert len(twin.state_dict()) == len(made.state_dict())
    assert twin.decoder.output.weight is made.decoder.embedding.weight
    assert made.training
    assert not any(module.training for module in twin.modules())
    # making it changed nothing
    assert all(torch.equal(before[name], value) for name, value in made.state_dict().items())
    assert all(type(block) is DecoderBlock for block in made.decoder.blocks)


@pytest.mark.parametrize(
    "options", [{"normalizer": "relu"}, {"score": "additive"}, {"score": "dot"}, {"qk_norm": True}]
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
        return inference.is_plain(block)

    assert changed(lambda block: None)
    assert not changed(lambda block: setattr(block.self_attention.mechanism, "normalizer", build("relu")))
    assert not changed(lambda block: setattr(block.cross_attention.mechanism, "kernel", "plain"))
    assert not changed(lambda block: setattr(block.cross_attention, "mechanism", nn.Identity()))
    assert not changed(lambda block: setattr(block.cross_attention, "memory_projection", None))
    assert not changed(lambda block: setattr(block.self_attention, "value_dim", 7))
    assert not changed(lambda block: setattr(block.self_attention, "combine", "mean"))
    assert changed(lambda block: setattr(block.self_attention, "mechanism", Scored()))


def test_other_calls_go_to_the_block_it_was_made_of():
    made = model().eval()
    twin = for_inference(made)
    memory = memory_of(made)
    tokens = torch.randint(4, VOCAB, (3, 7), generator=seeded(2))
    torch.testing.assert_close(
        twin.decoder.hidden(tokens, memory, LENS), made.decoder.hidden(tokens, memory, LENS), **EXACT
    )


@on_the_host("layers are rounded on a processor")
@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_a_copy_tells_when_it_is_outdated(monkeypatch, precision):
    for name in ("SMALLEST", "SMALLEST_INT8"):
        monkeypatch.setattr(inference, name, 1)
    made = model(torch.float32).eval()
    twin = for_inference(made, precision)
    assert is_current(twin, made)
    with torch.no_grad():
        made.decoder.blocks[1].feed_forward.outer.weight[3, 5] += 1.0
    assert is_current(twin, made) == (precision == "fp32")
    twin = for_inference(made, precision)
    assert is_current(twin, made)
    made.decoder.blocks[0].feed_forward.inner = nn.Linear(12, 23)
    assert not is_current(twin, made)


def test_dropout_does_not_act():
    made = model(dropout=0.5, attention_dropout=0.5, activation_dropout=0.5)
    twin = for_inference(made.train())
    same(made.eval(), twin, **EXACT)


class Adapted(nn.Linear):
    """As adapters of low rank are: a linear layer of its own class."""

    def forward(self, x):
        return super().forward(x) * 1.5


def test_layers_of_another_kind_are_called():
    made = model(norm_order="pre").eval()
    for block in made.decoder.blocks:
        for residual in (block.self_residual, block.cross_residual, block.feed_forward_residual):
            residual.before = nn.RMSNorm(12).double()
        for owner, name in ((block.self_attention, "projection"), (block.feed_forward, "outer")):
            layer = getattr(owner, name)
            setattr(owner, name, Adapted(layer.in_features, layer.out_features).double())
    twin = for_inference(made)
    assert all(type(block) is DecodingBlock for block in twin.decoder.blocks)
    same(made, twin, **EXACT)
