"""Seeing attention: looking changes no number and no kernel, and what is seen is what was computed."""

import gc
import weakref

import pytest
import torch
from devices import seeded
from torch import nn
from torch.utils.checkpoint import checkpoint

from headwise.attention import kernels
from headwise.attention.call import Call
from headwise.attention.masks import Causal, Padding, Table
from headwise.attention.mechanisms.linformer import Linformer
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.scores import Additive, as_score
from headwise.caches import AttentionStep, KeyValues
from headwise.errors import ConfigError
from headwise.layers.attention import MultiHeadAttention
from headwise.models.transformer import build_transformer
from headwise.models.transformer_config import TransformerConfig
from headwise.positions.rotary import Rotary
from headwise.positions.shaw import Shaw
from headwise.positions.t5 import T5
from headwise.records import record

LENS = torch.tensor([7, 3, 5])
EXACT = {"rtol": 1e-12, "atol": 1e-12}


def tokens(*shape, seed=5):
    return torch.randint(4, 17, shape, generator=seeded(seed))


def transformer(dtype=torch.float64, **options):
    torch.manual_seed(3)
    sizes = {"d_model": 18, "d_ff": 23, "num_heads": 3, "encoder_layers": 1, "decoder_layers": 2}
    return build_transformer(TransformerConfig(**(sizes | options)), 17, 17, joint=True).to(dtype).eval()


def attention(kv_heads=None, mechanism=None, **options):
    torch.manual_seed(3)
    layer = MultiHeadAttention(30, 4, mechanism or Scored(), num_kv_heads=kv_heads, head_dim=10, **options)
    nn.init.normal_(layer.projection.weight, std=0.4)
    return nn.ModuleDict({"self_attention": layer}).double().eval()


def numbers(*shape, seed=7):
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def full_weights(call, keep=None):
    """softmax of the scores of all heads and rows, by the definition."""
    scores = call.query @ call.key.repeat_interleave(call.group, 1).mT / call.query.shape[-1] ** 0.5
    if call.bias is not None:
        scores = scores + call.bias
    if keep is not None:
        scores = scores.masked_fill(~keep, float("-inf"))
    return torch.nan_to_num(scores.softmax(-1))


def times_values(weights, value):
    return weights @ value.repeat_interleave(weights.shape[1] // value.shape[1], 1)


def test_looking_changes_no_number_no_kernel_and_no_gradient(monkeypatch):
    ran = []
    for name in list(kernels.KERNELS):
        module = kernels.KERNELS[name]
        monkeypatch.setattr(module, "compute", lambda call, n=name, c=module.compute: ran.append(n) or c(call))
    model, src, tgt = transformer(torch.float32).train(), tokens(3, 7), tokens(3, 5, seed=6)
    results = []
    for watched in (False, True):
        ran.clear()
        torch.manual_seed(1)
        model.zero_grad()
        if watched:
            with record(model, kind="all") as trace:
                output = model(src, LENS, tgt)
                trace["encoder.blocks.0.self_attention"].weights()
                output.square().sum().backward()
            asked = list(ran)
            trace["decoder.blocks.1.cross_attention"].weights()
            assert ran == asked
        else:
            output = model(src, LENS, tgt)
            output.square().sum().backward()
        results.append((list(ran), [output, *(parameter.grad for parameter in model.parameters())]))
    (plain_kernels, plain_numbers), (watched_kernels, watched_numbers) = results
    assert len(plain_kernels) == 5
    assert plain_kernels == watched_kernels
    assert all(torch.equal(one, two) for one, two in zip(plain_numbers, watched_numbers, strict=True))


@pytest.mark.parametrize("kv_heads", [None, 2])
@pytest.mark.parametrize("kind", ["none", "padding", "causal", "heads"])
def test_weights_of_some_heads_and_rows(kind, kv_heads):
    generator = seeded(2)
    masks = {
        "none": None,
        "padding": Padding(torch.tensor([4, 0])),
        "causal": Causal(),
        "heads": Table(torch.rand(2, 4, 7, 7, generator=generator) < 0.6),
    }
    mask, model, x = masks[kind], attention(kv_heads), numbers(2, 7, 30)
    with record(model) as trace:
        model["self_attention"](x, mask=mask)
    layer = trace["self_attention"]
    keep = None if mask is None else mask.dense(2, 4, 7, 7)
    whole = full_weights(layer.calls[0].call, keep)
    torch.testing.assert_close(layer.weights(), whole, **EXACT)
    assert layer.weights().masked_select(~keep if keep is not None else torch.tensor(False)).abs().sum() == 0
    for heads in ([0], [2, 0], [0, 1, 2, 3]):
        for rows in (slice(None), slice(2, 5), slice(-1, None)):
            torch.testing.assert_close(layer.weights(heads, rows), whole[:, heads][:, :, rows], **EXACT)
    torch.testing.assert_close(layer.weights(3), whole[:, 3:], **EXACT)
    torch.testing.assert_close(times_values(layer.weights(), layer.value), layer.output, **EXACT)


class Twice(nn.Module):
    """A score whose only matrix has two names: queries and keys are mapped alike."""

    def __init__(self):
        super().__init__()
        self.query = self.key = nn.Linear(4, 4)

    def forward(self, query, key):
        return self.query(query) @ self.key(key).mT


def test_looking_leaves_a_matrix_of_two_names_where_it_is():
    layer, x = MultiHeadAttention(8, 2, Scored(as_score(Twice()))), torch.randn(2, 5, 8)
    before = list(layer.parameters())
    with record(layer) as seen:
        layer(x)
    expected = next(iter(seen)).weights()
    assert all(one is two for one, two in zip(layer.parameters(), before, strict=True))
    with torch.no_grad():
        layer.mechanism.score.function.key.weight.mul_(2.0)
    torch.testing.assert_close(next(iter(seen)).weights(), expected, rtol=0, atol=0)


def test_strips_made_again_leave_a_matrix_of_two_names_where_it_is():
    module, x = Scored(as_score(Twice()), kernel="strips"), torch.randn(2, 3, 5, 4)
    own = module.score.function.key.weight
    given = {name: torch.randn_like(p).requires_grad_() for name, p in module.named_parameters()}
    output = torch.func.functional_call(module, given, (Call(x, x, x),), tie_weights=False)
    found = torch.autograd.grad(output.square().sum(), list(given.values()))
    assert module.score.function.key.weight is own
    module.load_state_dict({name: p.detach() for name, p in given.items()}, strict=False)
    expected = torch.autograd.grad(module(Call(x, x, x)).square().sum(), list(module.parameters()))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("options", [{"num_kv_heads": 1}, {"position": "rotary"}, {"score": "additive"}])
def test_in_every_layer_of_a_model_weights_times_values_are_the_output(options):
    model = transformer(**options)
    with record(model) as trace:
        model(tokens(3, 7), LENS, tokens(3, 5, seed=6))
    assert [layer.kind for layer in trace] == ["self", "self", "cross", "self", "cross"]
    for layer in trace:
        torch.testing.assert_close(times_values(layer.weights(), layer.value), layer.output, **EXACT)
        torch.testing.assert_close(layer.weights().sum(-1), torch.ones(3, 3, layer.output.shape[2]).double())


def test_a_call_is_seen_whatever_the_module_is_called_and_however_the_call_is_passed():
    model = nn.ModuleDict({"block": nn.ModuleDict({"attention": Scored()}), "cross": Scored()})
    query, key, value = numbers(2, 3, 3, 4), numbers(2, 3, 7, 4, seed=8), numbers(2, 3, 7, 11, seed=9)
    call = Call(query, key, value, mask=Causal(), bias=numbers(2, 1, 1, 7, seed=10), query_start=4)
    with record(model) as trace:
        model["block"]["attention"](call=call)
        model["cross"](Call(query, key, value, cross=True))
        model["cross"](Call(query, key, value))
    layer = trace["block.attention"]
    assert (layer.kind, trace["cross"].kind) == ("self", "self")
    assert trace["cross"].calls[0].call.cross
    keep = torch.ones(7, 7, dtype=torch.bool).tril()[4:]
    torch.testing.assert_close(layer.weights(), full_weights(call, keep), **EXACT)
    torch.testing.assert_close(layer.weights([2, 1], slice(1, 2)), full_weights(call, keep)[:, [2, 1], 1:2], **EXACT)


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
    for part in ({}, {"head": 1, "queries": slice(3, 8)}):
        torch.testing.assert_close(
            steps["self_attention"].weights(**part), whole["self_attention"].weights(**part), **EXACT
        )
    torch.testing.assert_close(steps["self_attention"].output, whole["self_attention"].output, **EXACT)


def test_steps_over_a_cache_that_drops_old_keys_keep_their_columns():
    model, x = nn.ModuleDict({"layer": Scored()}), numbers(1, 2, 9, 4)
    window = Table(torch.ones(9, 9, dtype=torch.bool).tril().triu(-2))
    with record(model) as whole:
        model["layer"](Call(x, x, x, mask=window))
    with record(model) as steps:
        model["layer"](Call(x[:, :, :5], x[:, :, :5], x[:, :, :5], mask=Table(window.allowed[:5, :5])))
        for row in range(5, 9):
            last = x[:, :, row - 2 : row + 1]
            model["layer"](Call(x[:, :, row : row + 1], last, last, mask=Causal(), query_start=2))
    torch.testing.assert_close(steps["layer"].weights(), whole["layer"].weights(), **EXACT)


@torch.no_grad()
def test_beams_that_change_places_leave_the_record_as_it_was():
    model, beams = transformer(), 3
    memory = model.encoder(tokens(2, 7), LENS[:2])
    cache = model.decoder.start(memory, LENS[:2])
    cache.expand(beams)
    generator = seeded(4)
    seen = []
    with record(model, "decoder.*") as trace:
        for _ in range(4):
            model.decoder.step(torch.randint(4, 17, (6,), generator=generator), cache)
            seen.append([layer.calls[-1].weights() for layer in trace])
            cache.reorder((torch.arange(2)[:, None] * 3 + torch.randint(3, (2, 3), generator=generator)).flatten())
    for step, then in enumerate(seen):
        for layer, weights in zip(trace, then, strict=True):
            recorded = layer.calls[step]
            torch.testing.assert_close(recorded.weights(), weights, **EXACT)
            torch.testing.assert_close(times_values(weights, recorded.call.value), recorded.output, **EXACT)


def test_steps_of_a_recurrent_decoder_follow_each_other():
    from headwise.tasks.translation.recurrent import RecurrentConfig, build_recurrent

    torch.manual_seed(3)
    config = RecurrentConfig(embed_dim=7, hidden_dim=11, num_layers=2)
    model = build_recurrent(config, 17, 17).double().eval()
    src, tgt = tokens(3, 7), tokens(3, 5, seed=6)
    before = model(src, LENS, tgt)
    with record(model) as trace:
        during = model(src, LENS, tgt)
    torch.testing.assert_close(during, before, **EXACT)
    (layer,) = trace
    assert (layer.name, layer.kind, len(layer.calls)) == ("decoder.attention", "cross", 5)
    weights = layer.weights()
    assert weights.shape == (3, 1, 5, 7)
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 1, 5).double(), **EXACT)
    assert not weights[(torch.arange(7) >= LENS[:, None])[:, None, None].expand_as(weights)].any()
    torch.testing.assert_close(times_values(weights, layer.value), layer.output, **EXACT)
    torch.testing.assert_close(layer.weights(0, slice(1, 3)), weights[:, :, 1:3], **EXACT)


class Learned(nn.Module):
    """softmax(t s) with a learned t."""

    def __init__(self):
        super().__init__()
        self.temperature = nn.Parameter(torch.tensor(0.7))

    def forward(self, scores, keep):
        return (scores * self.temperature).softmax(-1)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("part", ["score", "normalizer", "relative", "bias"])
def test_weights_after_an_optimizer_step_are_those_of_the_call(part, fused):
    parts = {"score": Scored(Additive(10, 10, 5)), "normalizer": Scored(normalizer=Learned())}
    model = attention(
        mechanism=parts.get(part), position=T5(4, num_buckets=8, max_distance=16) if part == "relative" else None
    )
    bias = nn.Parameter(numbers(1, 4, 7, 7)) if part == "bias" else None
    x = numbers(2, 7, 30)

    def run():
        if part != "bias":
            return model["self_attention"](x)
        heads = x.view(2, 7, 3, 10).transpose(1, 2)[:, [0, 1, 2, 0]]
        return model["self_attention"].mechanism(Call(heads, heads, heads, bias=bias))

    with record(model) as trace:
        output = run()
    recorded = trace["self_attention"].calls[0]
    before = recorded.weights()
    optimizer = torch.optim.Adam([*model.parameters(), *([] if bias is None else [bias])], lr=0.5, fused=fused)
    output.square().sum().backward()
    assert not recorded.changed
    optimizer.step()
    torch.testing.assert_close(recorded.weights(), before, rtol=0, atol=0)
    torch.testing.assert_close(times_values(before, recorded.call.value), recorded.output, **EXACT)
    if part in ("score", "normalizer"):
        assert recorded.changed
        with record(model) as after:
            run()
        assert (after["self_attention"].weights() - before).abs().max() > 1e-3


@pytest.mark.parametrize("kind", ["reentrant", "not reentrant", "reversible"])
def test_what_is_computed_again_for_its_gradient_is_recorded_once(kind):
    model = transformer(reversible=True, norm_order="pre", dropout=0.0).train() if kind == "reversible" else attention()
    with record(model) as trace:
        if kind == "reversible":
            model(tokens(3, 7), LENS, tokens(3, 5)).sum().backward()
        else:
            x = numbers(2, 7, 30).requires_grad_()
            checkpoint(model["self_attention"], x, use_reentrant=kind == "reentrant").sum().backward()
    assert {len(layer.calls) for layer in trace} == {1}


class Mean(Mechanism):
    """Every query takes the mean of all values; its weights are found by running it."""

    def compute(self, call):
        return call.value.mean(2, keepdim=True).expand(-1, -1, call.query.shape[2], -1)


def test_a_mechanism_that_runs_to_show_its_weights_is_not_recorded_for_that():
    model = attention(mechanism=Mean())
    with record(model) as trace:
        model["self_attention"](numbers(2, 7, 30))
        weights = trace["self_attention"].weights(1, slice(2))
    assert len(trace["self_attention"].calls) == 1
    torch.testing.assert_close(weights, torch.full((2, 1, 2, 7), 1 / 7).double())


def test_weights_of_a_mechanism_that_learns_are_before_dropout():
    model = attention(mechanism=Linformer(7, rank=3, dropout=0.5)).train()
    with record(model) as trace:
        model["self_attention"](numbers(2, 7, 30))
    before = torch.get_rng_state()
    weights = trace["self_attention"].weights()
    assert torch.equal(torch.get_rng_state(), before)
    assert model["self_attention"].mechanism.training
    with record(model.eval()) as trace:
        model["self_attention"](numbers(2, 7, 30))
    torch.testing.assert_close(times_values(weights, trace["self_attention"].value), trace["self_attention"].output)


def test_everything_that_flows_has_a_name_and_a_shape(untyped):
    model = transformer(encoder_layers=2, decoder_layers=1)
    with record(model, "encoder.*", kind="all") as trace:
        logits = model(tokens(3, 7), LENS, tokens(3, 5))
    rows = [line.split(maxsplit=3) for line in trace.table().splitlines()]
    names = [row[0] for row in rows]
    order = ["encoder.embedding", "encoder.blocks.0.self_attention", "encoder.blocks.0", "encoder.blocks.1", "encoder"]
    order += ["decoder.embedding", "decoder.blocks.0", "decoder", "Seq2Seq"]
    assert [name for name in names if name in order] == order
    shown = {row[0]: row[1:] for row in rows}
    assert shown["encoder.blocks.1"] == ["EncoderBlock", "1", "(3, 7, 18)"]
    assert shown["encoder.blocks.1.self_attention"] == [
        "self-attention", "1", "weights (3, 3, 7, 7), output (3, 3, 7, 6)"
    ]  # fmt: skip
    assert torch.equal(trace["Seq2Seq"].output, logits)
    assert shown["Seq2Seq"][0] == "Seq2Seq"
    # attention that no pattern chose is left out
    assert "decoder.blocks.0.cross_attention" not in trace.names()
    with pytest.raises(ConfigError, match="unknown kind of record 'al'; did you mean 'all'"), record(model, kind="al"):
        pass


def test_calls_of_different_batches_are_asked_one_by_one():
    model = attention()
    with record(model) as trace:
        for batch in (2, 3):
            model["self_attention"](numbers(batch, 7, 30))
    layer = trace["self_attention"]
    with pytest.raises(ConfigError, match=r"self_attention was called for 2 sequences, one after another: read its"):
        layer.weights()
    with pytest.raises(ConfigError, match="self_attention was called for different batches; read its `calls` one by"):
        layer.rows()
    assert [call.weights([1], slice(2)).shape for call in layer.calls] == [(2, 1, 2, 7), (3, 1, 2, 7)]


def test_patterns_choose_layers_and_wrong_names_are_told():
    model = transformer()
    with record(model, "decoder.*.cross_attention") as trace:
        pass
    assert trace.names() == ["decoder.blocks.0.cross_attention", "decoder.blocks.1.cross_attention"]
    with record(model, "encoder.*", "decoder.blocks.?.self_attention") as trace:
        assert len(trace.names()) == 3
    name = "encoder.blocks.0.self_attention"
    with pytest.raises(ConfigError, match=f"{name} was not called while the record was open"):
        trace[name].weights()
    with pytest.raises(ConfigError, match=f"unknown attention layer '{name}s'; did you mean '{name}'"):
        trace[f"{name}s"]
    with (
        pytest.raises(ConfigError, match=r"unknown attention layer 'decoder.9.\*'; known: decoder"),
        record(model, "encoder.*", "decoder.9.*"),
    ):
        pass
    with pytest.raises(ConfigError, match="Linear has no attention layer"), record(nn.Linear(2, 3)):
        pass


def test_heads_that_there_are_not():
    model = attention()
    with record(model) as trace:
        model["self_attention"](numbers(2, 7, 30))
    for head in (4, -1, [0, 4]):
        with pytest.raises(ConfigError, match=r"self_attention has heads 0 to 3, not (4|-1)"):
            trace["self_attention"].weights(head)


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
    assert (counted, hooks()) == ([5], 0)
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


def test_a_record_copies_no_activation_and_lets_go():
    model, x = attention(), numbers(2, 7, 30)
    with record(model) as trace:
        output = model["self_attention"](x.requires_grad_())
    recorded = trace["self_attention"].calls[0]
    call = recorded.call
    assert not any(tensor.requires_grad for tensor in (call.query, call.key, call.value, recorded.output))
    assert not trace["self_attention"].weights().requires_grad
    # queries and keys are parts of one product still
    assert call.query.untyped_storage().data_ptr() == call.key.untyped_storage().data_ptr()
    alive = weakref.ref(call.query)
    del recorded, call, output
    trace.clear()
    gc.collect()
    assert alive() is None
    assert trace.names() == ["self_attention"]


def test_under_autocast_weights_are_exact_for_what_the_layer_got():
    model = transformer(torch.float32)
    with record(model) as trace, torch.autocast("cpu", dtype=torch.bfloat16):
        model(tokens(3, 7), LENS, tokens(3, 5))
        weights = trace["decoder.blocks.0.cross_attention"].weights()
    recorded = trace["decoder.blocks.0.cross_attention"].calls[0]
    assert recorded.call.query.dtype == torch.bfloat16
    assert weights.dtype == torch.float32
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 3, 5))
    expected = times_values(weights, recorded.call.value.float())
    torch.testing.assert_close(expected, recorded.output.float(), rtol=2e-2, atol=1e-2)


def test_calls_of_a_layer_that_a_model_runs_twice_are_kept_apart():
    """As in ALBERT: they are no steps of a decoder, though they have as many rows."""
    model, x = attention(), numbers(2, 7, 30)
    layer = model["self_attention"]
    with record(model) as trace:
        first = layer(x)
        layer(first)
    shared = trace["self_attention"]
    for value in (shared.weights, lambda: shared.output):
        with pytest.raises(
            ConfigError, match=r"was called for 2 sequences, one after another: read its `sequences\(\)`"
        ):
            value()
    apart = shared.sequences()
    assert [len(one.calls) for one in apart] == [1, 1]
    for one, entering in zip(apart, (x, first), strict=True):
        with record(model) as alone:
            layer(entering)
        torch.testing.assert_close(one.weights(), alone["self_attention"].weights(), **EXACT)
    torch.testing.assert_close(shared.rows(), torch.cat([one.weights() for one in apart], 2), **EXACT)


def test_sequences_of_steps_that_follow_each_other_are_told_apart():
    model, x = attention(), numbers(2, 5, 30)
    with record(model) as trace:
        for _ in range(2):
            memory = KeyValues()
            for row in range(5):
                model["self_attention"](x[:, row : row + 1], cache=AttentionStep(memory, row))
    assert [len(one.calls) for one in trace[0].sequences()] == [5, 5]


def test_a_trace_is_a_list_of_records_with_names():
    model = transformer()
    with record(model) as trace:
        model(tokens(3, 7), LENS, tokens(3, 5, seed=6))
    assert [one.name for one in trace] == trace.names()
    assert len(trace) == len(trace.names())
    assert trace[0] is trace[trace.names()[0]]
    assert trace[-1] is list(trace)[-1]
    assert trace.names()[0] in trace
    assert 0 not in trace
    with pytest.raises(ConfigError, match=f"there is no layer 99: {len(trace)} were recorded, from 0 on"):
        trace[99]


@pytest.mark.parametrize("name", ["random_synthesizer", "dense_synthesizer"])
def test_weights_beside_values_that_distances_add_to(name):
    """`shaw` adds vectors as wide as the values, which are not as wide as what a synthesizer compares."""
    layer = MultiHeadAttention(15, 3, mechanism=name, position=Shaw(5, max_distance=3)).double().eval()
    model, x = nn.ModuleDict({"layer": layer}), numbers(2, 7, 15)
    with record(model) as trace:
        layer(x)
    weights = trace["layer"].weights()
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    torch.testing.assert_close(
        trace["layer"].weights([1], slice(2, 4), slice(1, 3)), weights[:, 1:2, 2:4, 1:3], **EXACT
    )
