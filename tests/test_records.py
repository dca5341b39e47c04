"""Seeing attention: looking changes no number and no kernel, and what is seen is what was computed."""

import gc
import weakref

import pytest
import torch
from torch import nn

from headwise.attention import kernels, planner
from headwise.attention.masks import Causal, Padding, Table
from headwise.attention.mechanisms.scored import Scored
from headwise.caches import AttentionStep, KeyValues
from headwise.errors import ConfigError
from headwise.layers.attention import MultiHeadAttention
from headwise.models.recurrent import RecurrentConfig, build_recurrent
from headwise.models.transformer import TransformerConfig, build_transformer
from headwise.positions.rotary import Rotary
from headwise.records import record

LENS = torch.tensor([7, 3, 5])
EXACT = {"rtol": 1e-12, "atol": 1e-12}


def tokens(*shape, seed=5):
    return torch.randint(4, 17, shape, generator=torch.Generator().manual_seed(seed))


def transformer(dtype=torch.float64, **options):
    torch.manual_seed(3)
    sizes = {"d_model": 18, "d_ff": 23, "num_heads": 3, "encoder_layers": 1, "decoder_layers": 2}
    return build_transformer(TransformerConfig(**(sizes | options)), 17, 17, joint=True).to(dtype).eval()


def attention(kv_heads=None, **options):
    torch.manual_seed(3)
    layer = MultiHeadAttention(30, 4, Scored(), num_kv_heads=kv_heads, head_dim=10, **options)
    nn.init.normal_(layer.projection.weight, std=0.4)
    return nn.ModuleDict({"self_attention": layer}).double().eval()


def numbers(*shape, seed=7):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def full_weights(call, keep=None, bias=None):
    """softmax of the scores of all heads and rows, by the definition."""
    group = call.query.shape[1] // call.key.shape[1]
    scores = call.query @ call.key.repeat_interleave(group, 1).mT / call.query.shape[-1] ** 0.5
    if bias is not None:
        scores = scores + bias
    if keep is not None:
        scores = scores.masked_fill(~keep, float("-inf"))
    return torch.nan_to_num(scores.softmax(-1))


def times_values(weights, value):
    return weights @ value.repeat_interleave(weights.shape[1] // value.shape[1], 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("options", [{}, {"num_kv_heads": 1}, {"position": "rotary"}, {"score": "additive"}])
def test_looking_changes_no_number(options, dtype):
    model, src, tgt = transformer(dtype, **options), tokens(3, 7), tokens(3, 5, seed=6)
    before = model(src, LENS, tgt)
    with record(model) as trace:
        during = model(src, LENS, tgt)
        trace["encoder.blocks.0.self_attention"].weights()
    assert torch.equal(before, during)
    assert torch.equal(before, model(src, LENS, tgt))


def test_looking_changes_no_kernel_and_no_gradient(monkeypatch):
    ran = []
    for name in kernels.names():
        module = kernels.kernel(name)
        compute = module.compute
        monkeypatch.setattr(module, "compute", lambda call, n=name, c=compute: ran.append(n) or c(call))
    # choices made before would still hold the functions that are not watched
    planner._chosen.clear()
    model, src, tgt = transformer(torch.float32).train(), tokens(3, 7), tokens(3, 5, seed=6)
    results = []
    for watched in (False, True):
        ran.clear()
        torch.manual_seed(1)
        model.zero_grad()
        if watched:
            with record(model) as trace:
                model(src, LENS, tgt).square().sum().backward()
            asked = list(ran)
            trace["decoder.blocks.1.cross_attention"].weights()
            assert ran == asked
        else:
            model(src, LENS, tgt).square().sum().backward()
        results.append((list(ran), [parameter.grad for parameter in model.parameters()]))
    planner._chosen.clear()
    (plain_kernels, plain_gradients), (watched_kernels, watched_gradients) = results
    assert len(plain_kernels) == 5
    assert plain_kernels == watched_kernels
    assert all(torch.equal(one, two) for one, two in zip(plain_gradients, watched_gradients, strict=True))


@pytest.mark.parametrize("kv_heads", [None, 2, 1])
@pytest.mark.parametrize("kind", ["none", "padding", "causal", "table", "heads", "per_query"])
def test_weights_of_some_heads_and_rows(kind, kv_heads):
    generator = torch.Generator().manual_seed(2)
    allowed = {"table": (7, 7), "heads": (2, 4, 7, 7)}
    masks = {
        "none": None,
        "padding": Padding(torch.tensor([4, 0])),
        "causal": Causal(),
        "per_query": Padding(torch.randint(0, 8, (2, 7), generator=generator)),
        **{name: Table(torch.rand(*shape, generator=generator) < 0.6) for name, shape in allowed.items()},
    }
    mask, model, x = masks[kind], attention(kv_heads), numbers(2, 7, 30)
    with record(model) as trace:
        model["self_attention"](x, mask=mask)
    layer = trace["self_attention"]
    keep = None if mask is None else mask.dense(2, 4, 7, 7)
    whole = full_weights(layer.calls[0], keep)
    torch.testing.assert_close(layer.weights(), whole, **EXACT)
    assert layer.weights().masked_select(~keep if keep is not None else torch.tensor(False)).abs().sum() == 0
    for head in (0, 3, [1], [2, 0], [1, 3], [0, 1, 2, 3]):
        heads = [head] if isinstance(head, int) else head
        for rows in (slice(None), slice(2, 5), slice(-1, None), slice(0, 1)):
            torch.testing.assert_close(layer.weights(head, rows), whole[:, heads][:, :, rows], **EXACT)
    torch.testing.assert_close(times_values(layer.weights(), layer.value), layer.output, **EXACT)


def test_every_layer_of_a_model_rows_times_values_is_the_output():
    for options in ({}, {"num_kv_heads": 1}, {"position": "rotary"}, {"score": "additive"}, {"normalizer": "sigmoid"}):
        model = transformer(**options)
        with record(model) as trace:
            model(tokens(3, 7), LENS, tokens(3, 5, seed=6))
        for layer in trace:
            torch.testing.assert_close(times_values(layer.weights(), layer.value), layer.output, **EXACT)
            if "normalizer" not in options:
                torch.testing.assert_close(layer.weights().sum(-1), torch.ones(3, 3, layer.output.shape[2]).double())


@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (1, 1, 5, 7), (2, 1, 1, 7), (1, 3, 5, 7)])
def test_a_bias_is_part_of_the_weights(shape):
    mechanism = nn.ModuleDict({"attention": Scored()})
    query, key, value = numbers(2, 3, 5, 4), numbers(2, 3, 7, 4, seed=8), numbers(2, 3, 7, 11, seed=9)
    bias = numbers(*shape, seed=10)
    with record(mechanism) as trace:
        mechanism["attention"](query, key, value, bias=bias)
    layer = trace["attention"]
    whole = full_weights(layer.calls[0], bias=bias)
    torch.testing.assert_close(layer.weights(), whole, **EXACT)
    torch.testing.assert_close(layer.weights([2, 1], slice(1, 4)), whole[:, [2, 1], 1:4], **EXACT)
    torch.testing.assert_close(layer.weights() @ value, layer.output, **EXACT)


def test_position_of_the_first_query():
    mechanism = nn.ModuleDict({"attention": Scored()})
    query, key = numbers(2, 3, 3, 4), numbers(2, 3, 7, 4, seed=8)
    with record(mechanism) as trace:
        mechanism["attention"](query, key, key, mask=Causal(), query_start=4)
    keep = torch.ones(7, 7, dtype=torch.bool).tril()[4:]
    whole = full_weights(trace["attention"].calls[0], keep)
    torch.testing.assert_close(trace["attention"].weights(), whole, **EXACT)
    torch.testing.assert_close(trace["attention"].weights(1, slice(1, 2)), whole[:, [1], 1:2], **EXACT)


@pytest.mark.parametrize("position", [None, Rotary(10)])
def test_cached_calls_are_rows_of_the_whole(position):
    model, x = attention(position=position), numbers(2, 19, 30)
    layer = model["self_attention"]
    with record(model) as whole:
        layer(x, mask=Causal())
    memory = KeyValues()
    with record(model) as steps:
        for row in range(19):
            layer(x[:, row : row + 1], cache=AttentionStep(memory, row))
    torch.testing.assert_close(steps["self_attention"].weights(), whole["self_attention"].weights(), **EXACT)
    torch.testing.assert_close(
        steps["self_attention"].weights(1, slice(3, 8)), whole["self_attention"].weights(1, slice(3, 8)), **EXACT
    )
    torch.testing.assert_close(steps["self_attention"].output, whole["self_attention"].output, **EXACT)


@torch.no_grad()
def test_beams_that_change_places_leave_the_record_as_it_was():
    model, beams = transformer(), 3
    memory = model.encoder(tokens(2, 7), LENS[:2])
    cache = model.decoder.start(memory, LENS[:2])
    cache.expand(beams)
    generator = torch.Generator().manual_seed(4)
    seen = []
    with record(model, "decoder.*") as trace:
        for _ in range(5):
            model.decoder.step(torch.randint(4, 17, (6,), generator=generator), cache)
            layers = [layer.calls[-1] for layer in trace]
            seen.append([call.weights(range(3), slice(None)) for call in layers])
            cache.reorder((torch.arange(2)[:, None] * 3 + torch.randint(3, (2, 3), generator=generator)).flatten())
    for step in range(5):
        for layer, then in zip(trace, seen[step], strict=True):
            call = layer.calls[step]
            torch.testing.assert_close(call.weights(range(3), slice(None)), then, **EXACT)
            torch.testing.assert_close(times_values(then, call.value), call.output, **EXACT)


def test_steps_of_a_recurrent_decoder_follow_each_other():
    torch.manual_seed(3)
    config = RecurrentConfig(embed_dim=7, hidden_dim=11, num_layers=2)
    model = build_recurrent(config, 17, 17).double().eval()
    src, tgt = tokens(3, 7), tokens(3, 5, seed=6)
    before = model(src, LENS, tgt)
    with record(model) as trace:
        during = model(src, LENS, tgt)
    torch.testing.assert_close(during, before, **EXACT)
    assert trace.names() == ["decoder.attention"]
    layer = trace["decoder.attention"]
    assert layer.kind == "cross"
    assert len(layer.calls) == 5
    weights = layer.weights()
    assert weights.shape == (3, 1, 5, 7)
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 1, 5).double(), **EXACT)
    assert not weights[(torch.arange(7) >= LENS[:, None])[:, None, None].expand_as(weights)].any()
    torch.testing.assert_close(times_values(weights, layer.value), layer.output, **EXACT)
    torch.testing.assert_close(layer.weights(0, slice(1, 3)), weights[:, :, 1:3], **EXACT)


def test_calls_of_different_batches_are_asked_one_by_one():
    model = attention()
    with record(model) as trace:
        for batch in (2, 3):
            model["self_attention"](numbers(batch, 7, 30))
    layer = trace["self_attention"]
    with pytest.raises(
        ConfigError, match="self_attention was called for different batches; read its `calls` one by one"
    ):
        layer.weights()
    assert [call.weights([1], slice(2)).shape for call in layer.calls] == [(2, 1, 2, 7), (3, 1, 2, 7)]


def test_kind_of_a_layer():
    with record(transformer()) as trace:
        pass
    assert [layer.kind for layer in trace] == ["self", "self", "cross", "self", "cross"]


def test_patterns_choose_layers():
    model = transformer()
    with record(model, "decoder.*.cross_attention") as trace:
        model(tokens(3, 7), LENS, tokens(3, 5))
    assert trace.names() == ["decoder.blocks.0.cross_attention", "decoder.blocks.1.cross_attention"]
    with record(model, "encoder.*", "decoder.blocks.?.self_attention") as trace:
        assert len(trace.names()) == 3


def test_a_pattern_without_a_layer_names_those_there_are():
    with (
        pytest.raises(
            ConfigError, match=r"no attention layer matches decoder.9.*; there are: encoder.blocks.0.self_att"
        ),
        record(transformer(), "decoder.9.*"),
    ):
        pass
    with pytest.raises(ConfigError, match="no attention layer matches any; there are: none"), record(nn.Linear(2, 3)):
        pass


def test_unknown_names_and_heads():
    model = transformer()
    with record(model) as trace:
        with pytest.raises(
            ConfigError, match=r"encoder.blocks.0.self_attention was not called while the record was open"
        ):
            trace["encoder.blocks.0.self_attention"].weights()
        model(tokens(3, 7), LENS, tokens(3, 5))
    with pytest.raises(
        ConfigError,
        match=r"unknown attention layer 'decoder.blocks.0.cross'; did you mean 'decoder.blocks.0.cross_attention'\?",
    ):
        trace["decoder.blocks.0.cross"]
    for head in (3, -1, [0, 3]):
        with pytest.raises(ConfigError, match=r"self_attention has heads 0 to 2, not (3|-1)"):
            trace["encoder.blocks.0.self_attention"].weights(head)


def test_hooks_are_gone_afterwards_whatever_happens():
    model = transformer()

    def hooks():
        return sum(len(module._forward_hooks) for module in model.modules())

    counted = []

    def fail():
        counted.append(hooks())
        raise KeyError("on purpose")

    with pytest.raises(KeyError, match="on purpose"), record(model) as trace:
        fail()
    assert counted == [5]
    assert hooks() == 0
    model(tokens(3, 7), LENS, tokens(3, 5))
    assert all(not layer.calls for layer in trace)


def test_records_inside_records():
    model = transformer()
    with record(model) as outer:
        with record(model, "encoder.*") as inner:
            model(tokens(3, 7), LENS, tokens(3, 5))
        model(tokens(3, 7), LENS, tokens(3, 5))
    name = "encoder.blocks.0.self_attention"
    assert (len(outer[name].calls), len(inner[name].calls)) == (2, 1)


def test_a_record_copies_nothing_and_lets_go():
    model, x = attention(), numbers(2, 7, 30)
    with record(model) as trace:
        output = model["self_attention"](x.requires_grad_())
    call = trace["self_attention"].calls[0]
    assert not any(tensor.requires_grad for tensor in (call.query, call.key, call.value, call.output))
    assert not trace["self_attention"].weights().requires_grad
    assert call.query.untyped_storage().data_ptr() == call.key.untyped_storage().data_ptr()
    alive = weakref.ref(call.query)
    del call, output
    trace.clear()
    gc.collect()
    assert alive() is None
    assert trace.names() == ["self_attention"]


def test_under_autocast_weights_are_exact_for_what_the_layer_got():
    model = transformer(torch.float32)
    with record(model) as trace, torch.autocast("cpu", dtype=torch.bfloat16):
        model(tokens(3, 7), LENS, tokens(3, 5))
        weights = trace["decoder.blocks.0.cross_attention"].weights()
    call = trace["decoder.blocks.0.cross_attention"].calls[0]
    assert call.query.dtype == torch.bfloat16
    assert weights.dtype == torch.float32
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 3, 5))
    torch.testing.assert_close(times_values(weights, call.value.float()), call.output.float(), rtol=2e-2, atol=1e-2)
