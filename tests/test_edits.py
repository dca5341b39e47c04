"""Changing a model for a while: what is edited is as asked, and everything else stays bit-identical."""

from contextlib import ExitStack

import pytest
import torch
from devices import seeded
from torch import nn

from headwise.attention.call import Call
from headwise.attention.masks import Causal, Padding, Table, Window
from headwise.attention.mechanisms.gated_linear import GatedLinear
from headwise.attention.mechanisms.linear import Linear
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.scores import Additive
from headwise.caches import AttentionStep, KeyValues
from headwise.errors import ConfigError, ShapeError, Unsupported
from headwise.layers.attention import MultiHeadAttention
from headwise.models.transformer import build_transformer
from headwise.models.transformer_config import TransformerConfig
from headwise.positions.shaw import Shaw
from headwise.records import Force, Hide, Loosen, Mute, Narrow, Replace, Swap, edit, record

LENS = torch.tensor([7, 3, 5])
EXACT = {"rtol": 1e-12, "atol": 1e-12}
NAMES = ["encoder.blocks.0.self_attention", "decoder.blocks.0.cross_attention", "decoder.blocks.1.cross_attention"]


def tokens(*shape, seed=5):
    return torch.randint(4, 17, shape, generator=seeded(seed))


def numbers(*shape, seed=7):
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def transformer():
    torch.manual_seed(3)
    sizes = {"d_model": 18, "d_ff": 23, "num_heads": 3, "encoder_layers": 1, "decoder_layers": 2}
    return build_transformer(TransformerConfig(**sizes), 17, 17, joint=True).double().eval()


def run(model):
    return model(tokens(3, 7), LENS, tokens(3, 5, seed=6))


def layer(mechanism=None, **options):
    torch.manual_seed(3)
    made = MultiHeadAttention(30, 4, mechanism or Scored(), head_dim=10, **options)
    return nn.ModuleDict({"layer": made}).double().eval()


def outputs(model, *edits):
    """Heads' outputs of every layer under these edits, and the result of the model."""
    with edit(model, *edits), record(model) as trace:
        result = run(model)
    return {each.name: each.output for each in trace}, result


EVERY = [
    Mute(NAMES[1], heads=[0, 2]),
    Replace(NAMES[1], torch.full((7,), 1 / 7, dtype=torch.float64), heads=1),
    Replace(NAMES[1], lambda weights: weights.flip(-1)),
    Force(NAMES[1], 2, 1, 3, 0.8),
    Hide(NAMES[1], tokens=[2]),
    Narrow(NAMES[1], Window(1, 1)),
    Swap(NAMES[1], Linear),
]


@pytest.mark.parametrize("each", EVERY, ids=lambda each: type(each).__name__)
def test_what_is_not_edited_stays_bit_identical_and_all_is_undone(each):
    model = transformer()
    keys, modules = list(model.state_dict()), list(model.modules())
    with record(model) as trace:
        before = run(model)
    with edit(model, each):
        edited = run(model)
        assert isinstance(each, Swap) or list(model.state_dict()) == keys
    found, again = outputs(model, each)
    assert torch.equal(edited, again)
    assert not torch.equal(edited, before)
    for upstream in (NAMES[0], "decoder.blocks.0.self_attention"):
        assert torch.equal(found[upstream], trace[upstream].output)
    heads = getattr(each, "heads", getattr(each, "head", None))
    for head in range(3) if isinstance(each, Mute | Replace | Force) else []:
        changed = heads is None or head in ([heads] if isinstance(heads, int) else heads)
        assert torch.equal(found[NAMES[1]][:, head], trace[NAMES[1]].output[:, head]) != changed
    assert torch.equal(run(model), before)
    assert (list(model.state_dict()), list(model.modules())) == (keys, modules)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_muted_heads_are_zero_in_outputs_weights_and_gradients():
    model = layer()
    x = numbers(2, 7, 30)
    with edit(model, Mute("layer", heads=[3, 1])), record(model) as trace:
        model["layer"](x).square().sum().backward()
    seen = trace["layer"]
    assert not seen.output[:, [1, 3]].any()
    assert seen.output[:, [0, 2]].any()
    assert not seen.weights(1).any()
    torch.testing.assert_close(seen.weights() @ seen.value, seen.output, **EXACT)
    query, key, value = model["layer"].projection.weight.grad.unflatten(0, (3, 4, 10))
    for part in (query, key, value):
        assert [bool(head.any()) for head in part] == [True, False, True, False]


@pytest.mark.parametrize(
    "options",
    [{}, {"num_kv_heads": 2}, {"position": Shaw(10, max_distance=3)}, {"mechanism": Scored(Additive(10, 10, 5))}],
    ids=["plain", "grouped", "values by distance", "additive"],
)
def test_weights_replaced_by_themselves_change_nothing_else_in_outputs_and_gradients(options):
    model, x, results = layer(**options), numbers(2, 7, 30), []
    mask = Causal() & Padding(torch.tensor([7, 4]))
    for edits in ([], [Replace("layer", lambda weights: weights, heads=[2, 0])]):
        inputs = x.clone().requires_grad_()
        with edit(model, *edits):
            output = model["layer"](inputs, mask=mask)
        found = torch.autograd.grad(output.square().sum(), [inputs, *model.parameters()])
        results.append([output, *found])
    for one, two in zip(*results, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-10)


def test_replaced_weights_are_those_that_a_record_sees():
    model, x, new = layer(num_kv_heads=2), numbers(2, 7, 30), numbers(2, 2, 7, 7)
    with edit(model, Replace("layer", new, heads=[3, 0]), Mute("layer", 2)), record(model) as trace:
        model["layer"](x)
    seen = trace["layer"]
    assert torch.equal(seen.weights([3, 0]), new)
    assert torch.equal(seen.weights(0, slice(2, 4), slice(3)), new[:, 1:, 2:4, :3])
    torch.testing.assert_close(seen.weights() @ seen.value.repeat_interleave(2, 1), seen.output, **EXACT)


@pytest.mark.parametrize("renormalized", [True, False])
def test_a_forced_weight_is_that_and_the_others_keep_their_ratios(renormalized):
    model, x = layer(num_kv_heads=2), numbers(2, 7, 30)
    with record(model) as trace:
        model["layer"](x, mask=Causal())
    expected = trace["layer"].weights().clone()
    for row in expected[:, 1, 4]:
        others = [key for key in range(7) if key != 2]
        share = 0.25 / sum(row[key] for key in others) if renormalized else 1.0
        for key in others:
            row[key] = row[key] * share
        row[2] = 0.75
    with edit(model, Force("layer", 1, 4, 2, 0.75, renormalized)), record(model) as trace:
        model["layer"](x, mask=Causal())
    torch.testing.assert_close(trace["layer"].weights(), expected, **EXACT)
    torch.testing.assert_close(expected @ trace["layer"].value.repeat_interleave(2, 1), trace["layer"].output, **EXACT)
    # step by step the row is met when it is there
    memory = KeyValues()
    whole = model["layer"]
    with edit(model, Force("layer", 1, 4, 2, 0.75, renormalized)):
        at_once = whole(x, mask=Causal())
        steps = [whole(x[:, i : i + 1], mask=Causal(), cache=AttentionStep(memory, i)) for i in range(7)]
    torch.testing.assert_close(torch.cat(steps, 1), at_once, rtol=1e-9, atol=1e-9)


def test_a_forced_weight_that_is_alone_and_one_beyond_the_end():
    model, x = layer(), numbers(2, 7, 30)
    before = model["layer"](x, mask=Causal())
    with edit(model, Force("layer", 1, 7, 0, 0.5), Force("layer", 1, 0, 7, 0.5)):
        assert torch.equal(model["layer"](x, mask=Causal()), before)
    # the first query has one key: nothing is left to share the rest
    with edit(model, Force("layer", 1, 0, 0, 0.5)), record(model) as trace:
        model["layer"](x, mask=Causal())
    assert trace["layer"].weights(1)[0, 0, 0].tolist() == [0.5, 0, 0, 0, 0, 0, 0]


def test_a_narrowed_mask_is_both_masks():
    model, x = layer(), numbers(2, 7, 30)
    for own in (None, Causal()):
        both = Window(1, 2) if own is None else own & Window(1, 2)
        with edit(model, Narrow("layer", Window(1, 2))):
            assert torch.equal(model["layer"](x, mask=own), model["layer"](x, mask=both))


def test_hidden_tokens_are_as_if_they_were_masked():
    model, x = layer(), numbers(2, 7, 30)
    keep = torch.ones(7, dtype=torch.bool)
    keep[[0, 5]] = False
    expected = model["layer"](x, mask=Causal() & Table(keep.expand(7, 7)))
    with edit(model, Hide("layer", tokens=[0, 5, 9])):
        torch.testing.assert_close(model["layer"](x, mask=Causal()), expected, **EXACT)
    rows = torch.stack((keep, torch.ones(7, dtype=torch.bool)))
    with edit(model, Hide("layer", tokens=~rows)), record(model) as trace:
        output = model["layer"](x, mask=Causal())
    torch.testing.assert_close(output[0], expected[0], **EXACT)
    torch.testing.assert_close(output[1], model["layer"](x, mask=Causal())[1], **EXACT)
    # the first query sees nothing, and what is hidden may hold anything
    assert not trace["layer"].weights(queries=slice(1))[0].any()
    memory = KeyValues()
    with edit(model, Hide("layer", tokens=~rows)):
        # one token after the other: what lies ahead is met later
        steps = [model["layer"](x[:, i : i + 1], mask=Causal(), cache=AttentionStep(memory, i)) for i in range(7)]
    torch.testing.assert_close(torch.cat(steps, 1)[0], expected[0], **EXACT)
    mechanism = nn.ModuleDict({"layer": Scored()})
    q, v = numbers(1, 2, 3, 4), numbers(1, 2, 3, 4, seed=8)
    with edit(mechanism, Hide("layer", tokens=[1])):
        v[:, :, 1] = torch.nan
        assert mechanism["layer"](Call(q, v, v)).isfinite().all()


def test_a_swapped_mechanism_computes_learns_and_is_saved():
    model, x = layer(), numbers(2, 7, 30)
    old = model["layer"].mechanism
    new = GatedLinear.sized(head_dim=10, num_heads=4, max_len=7, dropout=0.0).double().train()
    with record(model) as trace, edit(model, Swap("layer", new)):
        assert model["layer"].mechanism is new
        assert not new.training
        assert set(new.parameters()) <= set(model.parameters())
        model["layer"](x, mask=Causal()).sum().backward()
    assert model["layer"].mechanism is old
    assert [recorded.mechanism for recorded in trace["layer"].calls] == [new]
    torch.testing.assert_close(trace["layer"].weights() @ trace["layer"].value, trace["layer"].output, **EXACT)
    assert all(parameter.grad is not None for parameter in new.parameters())


def test_edits_nest_in_any_order_and_unwind():
    model = transformer()
    before = run(model)
    expected, _ = outputs(model, Swap("decoder.*", lambda: Scored(normalizer="relu")), Mute("decoder.*", 1))
    edits = [Mute("decoder.*", 1), Swap("decoder.*", lambda: Scored(normalizer="relu"))]
    for order in (edits, edits[::-1]):
        with ExitStack() as stack:
            for each in order:
                stack.enter_context(edit(model, each))
            found, _ = outputs(model)
        for name in expected:
            assert torch.equal(found[name], expected[name])
    # the later of two edits of one head is the one that counts, and a record opened first sees what came out
    with record(model) as trace, edit(model, Replace("decoder.*", torch.ones(()).double())), edit(model, edits[0]):
        run(model)
    assert not trace[NAMES[1]].output[:, 1].any()
    assert torch.equal(run(model), before)
    with pytest.raises(KeyError), edit(model, edits[0], *EVERY):
        raise KeyError
    with pytest.raises(ConfigError), edit(model, *EVERY, Mute("nothing", 1)):
        pass
    assert torch.equal(run(model), before)


def test_a_muted_head_stays_mute_where_a_mechanism_goes_on_from_a_state():
    model, x = layer(Linear()), numbers(2, 7, 30)
    own = model["layer"]
    with edit(model, Mute("layer", 2)):
        whole = own(x, mask=Causal())
        memory = own.new_cache()
        steps = [own(x[:, i : i + 1], cache=AttentionStep(memory, i)) for i in range(7)]
    torch.testing.assert_close(torch.cat(steps, 1), whole, rtol=1e-9, atol=1e-9)
    memory = own.new_cache()
    with (
        edit(model, Hide("layer", [2])),
        pytest.raises(Unsupported, match="Hide acts on calls over a whole sequence; steps from a state have no keys"),
    ):
        own(x[:, :1], cache=AttentionStep(memory, 0))
    own(x[:, :1], cache=AttentionStep(memory, 0))


def test_parts_of_a_mask_are_left_out():
    model, x = layer(), numbers(2, 7, 30)
    lens = Padding(torch.tensor([7, 4]))
    with edit(model, Narrow("layer", Causal() & Window(2, 2)), Loosen("layer", (Causal,))), record(model) as trace:
        model["layer"](x, mask=lens)
    with edit(model, Narrow("layer", Window(2, 2))), record(model) as wanted:
        model["layer"](x, mask=lens)
    assert torch.equal(trace["layer"].output, wanted["layer"].output)
    with edit(model, Loosen("layer", (Padding,))), record(model) as trace:
        model["layer"](x, mask=lens)
    with record(model) as wanted:
        model["layer"](x)
    assert trace["layer"].calls[-1].call.mask is None
    torch.testing.assert_close(trace["layer"].output, wanted["layer"].output)


def test_what_cannot_be_edited_is_told(untyped):
    model, x = layer(), numbers(2, 7, 30)
    wrong = [
        (Mute("layr", 1), ConfigError, "unknown attention layer 'layr'; did you mean 'layer'"),
        (Mute("*", [1, 4]), ConfigError, "layer has heads 0 to 3, not 4"),
        (Replace("layer", torch.ones(7, 6), 1), ShapeError, r"new weights of layer are \(7, 6\); they must broadcast"),
        (Replace("layer", lambda w: w[:1], -1), ConfigError, "layer has heads 0 to 3, not -1"),
        (Hide("layer", torch.ones(3, 7, dtype=torch.bool)), ShapeError, "does not fit"),
        (Swap("layer", nn.Linear), TypeError, "missing"),
        (Swap("layer", nn.Identity), ConfigError, r"Swap\('layer'\) changes to a Mechanism, not to Identity"),
        ("layer", ConfigError, "edit takes Mute, Replace, Force, Hide, Narrow, Loosen and Swap, not str"),
    ]
    for each, kind, message in wrong:
        with pytest.raises(kind, match=message), edit(model, each):
            model["layer"](x)
    with pytest.raises(ConfigError, match="tokens are positions from 0 on, not -2"):
        Hide("layer", tokens=[3, -2])
    message = r"5 layers match '\*': pass a function that makes a mechanism for each, such as lambda: Linear\(\)"
    with pytest.raises(ConfigError, match=message), edit(transformer(), Swap("*", Linear())):
        pass
    with pytest.raises(ConfigError, match="changes a mechanism inside the model"), edit(Scored(), Swap("*", Linear())):
        pass


class Twice(Mechanism):
    """A mechanism around another one."""

    facts = Scored.facts

    def __init__(self):
        super().__init__()
        self.inner = Scored()

    def compute(self, call):
        return 2 * self.inner(call)


def test_a_mechanism_around_another_is_one_layer():
    model, x = layer(Twice()), numbers(2, 7, 30)
    with edit(model, Mute("*", 0)), record(model) as trace:
        model["layer"](x)
    assert trace.names() == ["layer"]
    torch.testing.assert_close(trace["layer"].weights(1).sum(-1), torch.full((2, 1, 7), 2.0).double())
    assert not trace["layer"].output[:, 0].any()


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("kinds", [Causal, ("causal",), None, (int,)])
def test_what_is_no_kind_of_mask_cannot_be_loosened(kinds):
    with pytest.raises(ConfigError, match="Loosen: kinds is a tuple"):
        Loosen("a", kinds)
