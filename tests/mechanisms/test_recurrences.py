"""Mechanisms over the one recurrence: each is a loop of its paper's formula, whole, in pieces, padded and alone."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import mechanism_checks as checks
import pytest
import torch
from devices import seeded
from torch.nn import functional as F

from headwise.attention.call import Call
from headwise.attention.masks import Causal, Padding, Table
from headwise.attention.mechanisms._recurrence import FADING, Recurrence
from headwise.attention.mechanisms._scan import Terms
from headwise.attention.mechanisms.based import Based, taylor
from headwise.attention.mechanisms.cosformer import Cosformer
from headwise.attention.mechanisms.delta_rule import DeltaRule
from headwise.attention.mechanisms.gated_delta import GatedDelta
from headwise.attention.mechanisms.hedgehog import Hedgehog
from headwise.attention.mechanisms.hgrn2 import Hgrn2
from headwise.attention.mechanisms.kimi_delta import KimiDelta
from headwise.attention.mechanisms.log_linear import LogLinear
from headwise.attention.mechanisms.mamba2 import Mamba2
from headwise.attention.mechanisms.mlstm import Mlstm
from headwise.attention.mechanisms.rwkv6 import Rwkv6
from headwise.attention.mechanisms.rwkv7 import Rwkv7
from headwise.errors import ConfigError, ShapeError, Unsupported
from headwise.explain.layer_trace import layer_trace
from headwise.layers.around import Around
from headwise.layers.attention import MultiHeadAttention

BATCH, HEADS, DIM, VALUES = 2, 4, 6, 5


def unit(x):
    return x / (x.square().sum() + 1e-6).sqrt()


# one head of one sentence: (mechanism, head, query, key, value, gates (length, width)) -> rows of VALUES
def delta_rule(m, h, q, k, v, gates):
    state, outputs = k.new_zeros(VALUES, DIM), []
    for i in range(len(q)):
        key, share = unit(k[i]), gates[i, 0].sigmoid() * (2 if m.negative else 1)
        state = state + share * torch.outer(v[i] - state @ key, key)
        outputs.append(state @ unit(q[i]) / math.sqrt(DIM))
    return outputs


def gated_delta(m, h, q, k, v, gates):
    state, outputs = k.new_zeros(v.shape[1], DIM), []
    for i in range(len(q)):
        key, share = unit(k[i]), gates[i, 1].sigmoid()
        state = state * torch.exp(-m.log_rate[h].exp() * F.softplus(gates[i, 0] + m.shift[h]))
        state = state + share * torch.outer(v[i] - state @ key, key)
        outputs.append(state @ unit(q[i]) / math.sqrt(DIM))
    return outputs


def kimi_delta(m, h, q, k, v, gates):
    state, outputs = k.new_zeros(VALUES, DIM), []
    for i in range(len(q)):
        key, share = unit(k[i]), gates[i, 0].sigmoid()
        state = state * torch.exp(-m.log_rate[h].exp() * F.softplus(gates[i, 1:] + m.shift[h]))
        state = state + share * torch.outer(v[i] - state @ key, key)
        outputs.append(state @ unit(q[i]) / math.sqrt(DIM))
    return outputs


def mamba2(m, h, q, k, v, gates):
    state, outputs = k.new_zeros(v.shape[1], DIM), []
    for i in range(len(q)):
        step = F.softplus(gates[i, 0] + m.shift[h])
        state = torch.exp(-m.log_rate[h].exp() * step) * state + step * torch.outer(v[i], k[i])
        outputs.append(state @ q[i] + m.skip[h] * v[i])
    return outputs


def hgrn2(m, h, q, k, v, gates):
    state, outputs = k.new_zeros(VALUES, DIM), []
    for i in range(len(q)):
        kept = m.lower + (1 - m.lower) * k[i].sigmoid()
        state = state * kept + torch.outer(v[i], 1 - kept)
        outputs.append(state @ (q[i] * q[i].sigmoid()))
    return outputs


def mlstm(m, h, q, k, v, gates):
    state, norm, top, outputs = k.new_zeros(VALUES, DIM), k.new_zeros(DIM), k.new_zeros(()), []
    for i in range(len(q)):
        write, keep = gates[i, 0] + m.input_shift[h], F.logsigmoid(gates[i, 1] + m.forget_shift[h])
        new = torch.maximum(keep + top, write)
        kept, size, top = (keep + top - new).exp(), (write - new).exp(), new
        state, norm = kept * state + size * torch.outer(v[i], k[i]), kept * norm + size * k[i]
        query = q[i] / math.sqrt(DIM)
        outputs.append(state @ query / (torch.maximum((norm @ query).abs(), (-top).exp()) + 1e-6))
    return outputs


def rwkv6(m, h, q, k, v, gates):
    state, outputs = k.new_zeros(VALUES, DIM), []
    for i in range(len(q)):
        outputs.append((state + torch.outer(v[i], m.bonus[h] * k[i])) @ q[i])
        state = state * torch.exp(-(gates[i] + m.shift[h]).exp()) + torch.outer(v[i], k[i])
    return outputs


def rwkv7(m, h, q, k, v, gates):
    state, outputs = k.new_zeros(VALUES, DIM), []
    for i in range(len(q)):
        decay = torch.exp(-math.exp(-0.5) * (gates[i, :DIM] + m.decay_shift[h]).sigmoid())
        rate = (gates[i, DIM:] + m.rate_shift[h]).sigmoid()
        erased = k[i] * m.erased[h]
        erased = erased / erased.norm()
        key = k[i] * (1 + (rate - 1) * m.replaced[h])
        # equation 16: both act on the state before
        state = state @ (torch.diag(decay) - torch.outer(erased, rate * erased)) + torch.outer(v[i], key)
        outputs.append(state @ q[i] + (q[i] * m.bonus[h] * key).sum() * v[i])
    return outputs


def log_linear(m, h, q, k, v, gates):
    """The base's weights, each times what the query makes of the level at which it meets the key."""
    own, levels = gates[:, : m.width], F.softplus(gates[:, m.width :] + m.level_shift[h])
    skip = m.base.skip[h] if m.width == 1 else 0.0
    weights = torch.stack((mamba2 if m.width == 1 else gated_delta)(m.base, h, q, k, torch.eye(len(q)).double(), own))
    weights = weights - skip * torch.eye(len(q)).double()
    apart = [
        [levels[i, (i ^ j).bit_length()] if j <= i else v.new_zeros(()) for j in range(len(q))] for i in range(len(q))
    ]
    return (weights * torch.stack([torch.stack(row) for row in apart])) @ v + skip * v


def shares(weight: Callable):
    """Causal normalised attention with these weights of pairs."""

    def outputs(m, h, q, k, v, gates):
        rows = []
        for i in range(len(q)):
            weights = torch.stack([weight(m, h, i, j, q[i], k[j]) for j in range(i + 1)])
            # a query whose features are all zero gives zero
            rows.append(weights @ v[: i + 1] / weights.sum().clamp(min=1e-300))
        return rows

    return outputs


def series(m, h, i, j, q, k):
    score = q @ k / math.sqrt(DIM)
    return 1 + score + score**2 / 2


def hedgehog(m, h, i, j, q, k):
    q, k = (own.weight[h] @ x + own.bias[h] for own, x in ((m.query_map, q), (m.key_map, k)))
    return torch.cat((q, -q)).softmax(0) @ torch.cat((k, -k)).softmax(0)


def cosine(m, h, i, j, q, k):
    return q.relu() @ k.relu() * math.cos(math.pi * (i - j) / (2 * m.max_len))


class Case(NamedTuple):
    build: Callable
    gates: int
    loop: Callable


CASES = {
    "delta_rule": Case(DeltaRule, 1, delta_rule),
    "delta_rule, negative": Case(lambda: DeltaRule(negative=True), 1, delta_rule),
    "gated_delta": Case(lambda: GatedDelta(HEADS), 2, gated_delta),
    "kimi_delta": Case(lambda: KimiDelta(DIM, HEADS), 1 + DIM, kimi_delta),
    "mamba2": Case(lambda: Mamba2(HEADS), 1, mamba2),
    "log_linear": Case(lambda: LogLinear(HEADS, 200), 1 + 9, log_linear),
    "log_linear, gated_delta": Case(lambda: LogLinear(HEADS, 75, "gated_delta"), 2 + 8, log_linear),
    "hgrn2": Case(Hgrn2, 0, hgrn2),
    "hgrn2, lower": Case(lambda: Hgrn2(0.3), 0, hgrn2),
    "mlstm": Case(lambda: Mlstm(HEADS), 2, mlstm),
    "rwkv6": Case(lambda: Rwkv6(DIM, HEADS), DIM, rwkv6),
    "rwkv7": Case(lambda: Rwkv7(DIM, HEADS), 2 * DIM, rwkv7),
    "based": Case(Based, 0, shares(series)),
    "hedgehog": Case(lambda: Hedgehog(DIM, HEADS), 0, shares(hedgehog)),
    "cosformer": Case(lambda: Cosformer(75), 0, shares(cosine)),
}
each = pytest.mark.parametrize("name", CASES)
BIDIRECTIONAL = ("based", "hedgehog", "cosformer")


def built(name, dtype=torch.float64):
    """With parameters away from where they start."""
    torch.manual_seed(0)
    mechanism = CASES[name].build().to(dtype)
    with torch.no_grad():
        for own, parameter in mechanism.named_parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
            if own == "input_shift":
                parameter.add_(9.0)
    return mechanism


def drawn(name, length, *, kv_heads=2, batch=BATCH, dtype=torch.float64):
    """Query, key, value and gates, which ask for gradients."""
    generator = seeded(1)
    shapes = [(HEADS, DIM), (kv_heads, DIM), (kv_heads, VALUES), (HEADS, CASES[name].gates)]
    shapes = shapes if CASES[name].gates else shapes[:3]
    # the same tokens whatever the length
    tensors = [
        torch.randn(batch, heads, 80, width, generator=generator, dtype=torch.float64) for heads, width in shapes
    ]
    return [tensor[:, :, :length].to(dtype).clone().requires_grad_() for tensor in tensors]


def called(inputs, mask=None, **options):
    return Call(*inputs[:3], mask=mask or Causal(), gates=inputs[3] if len(inputs) > 3 else None, **options)


def by_loop(name, mechanism, inputs):
    query, key, value, gates = [*inputs, None][:4]
    heads = []
    for b in range(query.shape[0]):
        for h in range(HEADS):
            group = h * key.shape[1] // HEADS
            own = None if gates is None else gates[b, h]
            rows = CASES[name].loop(mechanism, h, query[b, h], key[b, group], value[b, group], own)
            heads.append(rows if isinstance(rows, torch.Tensor) else torch.stack(rows))
    return torch.stack(heads).unflatten(0, (-1, HEADS))


# a sum of many features by a loop takes seconds at more than one chunk
WIDE = ("based", "cosformer", "hedgehog")


@pytest.mark.parametrize(
    ("name", "length"),
    [
        pytest.param(name, length, marks=[pytest.mark.slow] if length == 70 and name in WIDE else [])
        for name in CASES
        for length in (1, 3, 70)
    ],
)
def test_it_is_the_loop_of_its_formula_with_gradients(name, length):
    mechanism, inputs = built(name), drawn(name, length)
    wanted = [*inputs, *mechanism.parameters()]
    checks.same_with_gradients(mechanism(called(inputs)), by_loop(name, mechanism, inputs), wanted)


@each
@torch.no_grad()
def test_pieces_from_a_state_are_the_whole(name):
    for dtype, tolerance in ((torch.float64, 1e-11), (torch.float32, 2e-5), (torch.bfloat16, 1e-2)):
        mechanism, inputs = built(name, dtype), drawn(name, 75, dtype=dtype)
        whole, state, pieces = mechanism(called(inputs)), None, []
        cuts = [0, 1, 2, 66, 67, 74, 75]
        for start, end in pairwise(cuts):
            piece, state = mechanism.resume(called([x[:, :, start:end] for x in inputs]), state)
            assert all(part.shape[0] == BATCH and part.dtype.itemsize >= 4 for part in state)
            pieces.append(piece)
        actual = torch.cat(pieces, 2)
        assert actual.dtype == whole.dtype == dtype
        size = max(1.0, whole.abs().max().item())
        checks.near(actual / size, whole / size, tolerance)


@each
def test_a_padded_sentence_is_the_sentence_alone(name):
    mechanism, inputs = built(name), drawn(name, 7)
    poisoned = [x.detach().clone() for x in inputs]
    for x in poisoned[1:]:
        x[0, :, 5:] = float("nan")
    mask = Causal() & Padding(torch.tensor([5, 7]))
    output = mechanism(called(poisoned, mask))
    checks.near(output[:1, :, :5], mechanism(called([x[:1, :, :5] for x in inputs])))
    checks.near(output[1:], mechanism(called([x[1:] for x in inputs])))


@each
def test_hidden_tokens_in_front_and_between_neither_add_nor_fade(name):
    if name == "cosformer" or name.startswith("log_linear"):
        pytest.skip("distances count positions, those of hidden keys included")
    mechanism, inputs = built(name), drawn(name, 9)
    shown = torch.tensor([False, False, True, True, False, True, True, False, True])
    output = mechanism(called(inputs, Causal() & Table(shown.view(1, 1, 1, 9))))
    checks.near(output[:, :, shown], mechanism(called([x[:, :, shown] for x in inputs])))


@each
@torch.no_grad()
def test_weights_are_the_function_and_queries_may_be_the_last(name):
    mechanism, inputs = built(name), drawn(name, 9)
    whole, weights = mechanism(called(inputs)), mechanism.weights(called(inputs))
    checks.near(weights @ checks.spread(inputs[2], HEADS), whole)
    assert not weights.triu(1).any()
    part = mechanism.weights(called(inputs), [2, 0], slice(1, 4), slice(2, None))
    checks.near(part, weights[:, [2, 0], 1:4, 2:])
    last = [inputs[0][:, :, 6:], *inputs[1:]]
    checks.near(mechanism(called(last, query_start=6)), whole[:, :, 6:])


@each
@torch.no_grad()
def test_it_is_traced_by_its_terms(name):
    mechanism, inputs = built(name), drawn(name, 5)
    stages = {stage.name: stage for stage in mechanism.stages(called(inputs))}
    checks.near(stages["weights"].values, mechanism.weights(called(inputs)))
    if name in BIDIRECTIONAL:
        assert list(stages) == ["query features", "key features", "products", "weights"]
        products = stages["products"].values.tril()
        checks.near(products / products.sum(-1, keepdim=True).clamp(min=1e-300), stages["weights"].values)
    else:
        start = int(name.startswith("log_linear"))
        assert list(stages)[start : start + 2] == ["query vectors", "key vectors"]
        assert ("log decays" in stages) == (not name.startswith("delta_rule"))
        assert ("read vectors" in stages) == ("delta" in name or name == "rwkv7")
        assert ("erase vectors" in stages) == (name == "rwkv7")
    assert all(stage.values.shape[:2] == (BATCH, HEADS) for stage in stages.values())


@pytest.mark.parametrize("name", BIDIRECTIONAL)
@pytest.mark.parametrize("mask", [None, Padding(torch.tensor([4, 7]))])
def test_every_query_may_see_every_key(name, mask):
    mechanism, inputs = built(name), drawn(name, 7, kv_heads=4)
    actual = mechanism(replace(called(inputs), mask=mask))
    for b, length in enumerate((4, 7) if mask else (7, 7)):
        for h in range(HEADS):
            query, key, value = (x[b, h] for x in inputs)
            weight = {"based": series, "hedgehog": hedgehog, "cosformer": cosine}[name]
            for i in range(7):
                row = torch.stack([weight(mechanism, h, i, j, query[i], key[j]) for j in range(length)])
                checks.near(actual[b, h, i], row @ value[:length] / row.sum().clamp(min=1e-300))


@each
@torch.no_grad()
def test_autocast_changes_no_number_and_half_precision_sums_wide(name):
    mechanism, inputs = built(name, torch.float32), drawn(name, 70, dtype=torch.float32)
    alone = mechanism(called(inputs))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(mechanism(called(inputs)), alone)
    rounded = [x.bfloat16() for x in inputs]
    actual = mechanism(called(rounded))
    assert actual.dtype == torch.bfloat16
    exact = mechanism(called([x.float() for x in rounded]))
    torch.testing.assert_close(actual.float(), exact, rtol=2e-2, atol=2e-2 * max(1.0, exact.abs().max().item()))


@each
def test_what_it_cannot_do_is_refused(name):
    mechanism, inputs = built(name), drawn(name, 5)
    call = called(inputs)
    with pytest.raises(Unsupported, match="no scores that a bias could be added to"):
        mechanism(replace(call, bias=torch.zeros(1, 1, 5, 5)))
    if name not in BIDIRECTIONAL:
        with pytest.raises(Unsupported, match="its memory runs from a key to later queries"):
            mechanism(replace(call, mask=None))
    if CASES[name].gates:
        with pytest.raises(Unsupported, match="takes gates from the input of its layer"):
            mechanism(replace(call, gates=None))
        with pytest.raises(ShapeError, match=rf"takes {CASES[name].gates} gates of each head, got"):
            mechanism(replace(call, gates=torch.zeros(BATCH, HEADS, 5, CASES[name].gates + 1).double()))


def test_a_tree_of_one_weight_is_its_base_and_has_a_longest_sequence():
    """Across 300 tokens, in chunks and by the digits of the state that is kept."""
    tree = LogLinear(HEADS, 300, "gated_delta").double()
    torch.nn.init.constant_(tree.level_shift, math.log(math.expm1(1.0)))
    query, key, value = (x.detach() for x in checks.tensors(300, 300, batch=2))
    gates = torch.cat((torch.randn(2, HEADS, 300, 2), torch.zeros(2, HEADS, 300, 10)), -1).double()
    call = Call(query, key, value, mask=Causal(), gates=gates)
    expected = tree.base(replace(call, gates=gates[..., :2]))
    checks.near(tree(call), expected)
    state = tree.resume(called([x[:, :, :299] for x in (query, key, value, gates)]), None)[1]
    last, _ = tree.resume(called([x[:, :, 299:] for x in (query, key, value, gates)]), state)
    checks.near(last, expected[:, :, 299:])
    with pytest.raises(ShapeError, match=r"built for max_len \(200\) positions, got 300"):
        LogLinear(HEADS, 200, "gated_delta").double()(replace(call, gates=gates[..., :-1]))
    with pytest.raises(ConfigError, match=r"max_len \(0\) of 1 or more and base mamba2 or gated_delta: mamba2"):
        LogLinear(HEADS, 0)


@pytest.mark.parametrize("name", ["gated_delta", "kimi_delta", "mamba2", "mlstm", "rwkv6", "rwkv7", "hedgehog"])
def test_other_heads_and_widths_are_refused(name):
    mechanism, inputs = built(name), drawn(name, 5, kv_heads=4)
    with pytest.raises(ShapeError, match="was built for heads 4, got 2"):
        mechanism(called([x[:, :2] for x in inputs]))
    if name in ("kimi_delta", "rwkv6", "rwkv7", "hedgehog"):
        with pytest.raises(ShapeError, match="was built for head_dim 6, got 5"):
            mechanism(called([inputs[0][..., :5], inputs[1][..., :5], *inputs[2:]]))


def test_wrong_arguments_are_refused():
    with pytest.raises(ConfigError, match=r"lower \(1\.0\) must be from 0 to below 1"):
        Hgrn2(1.0)
    with pytest.raises(ConfigError, match=r"max_len \(0\) must be at least 1"):
        Cosformer(0)
    inputs = drawn("cosformer", 76)
    with pytest.raises(ShapeError, match=r"Cosformer was built for max_len \(75\) positions, got 76"):
        built("cosformer")(called(inputs))


def test_features_of_based_are_its_series():
    x, y = torch.randn(2, 1, 1, 3, 7, generator=seeded(4), dtype=torch.float64)
    score = (x * y).sum(-1) / math.sqrt(7)
    checks.near((taylor(x) * taylor(y)).sum(-1), 1 + score + score**2 / 2, 1e-14)
    assert taylor(x).shape[-1] == 1 + 7 + 7 * 8 // 2


def test_a_memory_that_replaces_recalls_where_one_that_adds_mixes():
    """Two values under one key: the delta rule with b = 1 gives the last, a sum gives both."""
    key, value = torch.ones(1, 1, 2, 1), torch.tensor([[[[1.0], [5.0]]]])
    gates = torch.full((1, 1, 2, 1), 30.0)
    call = Call(key, key, value, mask=Causal(), gates=gates)
    torch.testing.assert_close(DeltaRule()(call).flatten(), torch.tensor([1.0, 5.0]), rtol=0, atol=1e-5)


class Wiping(Recurrence):
    """S_i = (I - e r_i^T) S_(i-1) + k_i v_i^T, where e is the same for every token."""

    facts = FADING

    def terms(self, call, past, keys):
        read = F.normalize(call.key + 1.0, dim=-1).repeat_interleave(call.group, 1)
        return Terms(call.query, call.key, call.value, read=read, erase=torch.full_like(read, 0.3)), ()


def test_a_hidden_key_erases_nothing_even_where_the_erasure_is_not_its_own():
    inputs = drawn("hgrn2", 5)
    shown = torch.tensor([True, False, True, False, True])
    output = Wiping()(called(inputs, Causal() & Table(shown.view(1, 1, 1, 5))))
    checks.near(output[:, :, shown], Wiping()(called([x[:, :, shown] for x in inputs])))


@pytest.mark.parametrize("name", ["rwkv7", "mamba2", "mlstm", "based", "gated_delta"])
def test_a_layer_with_all_around_its_heads_is_traced_to_its_output(name):
    torch.manual_seed(0)
    around = Around(conv=3, gate="element", head_norm=torch.nn.RMSNorm)
    layer, x = MultiHeadAttention(12, 3, name, num_kv_heads=1, around=around), torch.randn(1, 5, 12)
    trace = layer_trace(layer, lambda: layer(x, mask=Causal()), head=2)
    steps = {step.name: step for step in trace.steps}
    assert trace.difference < 1e-5
    shown = torch.from_numpy(steps["weights"].values @ steps["value"].values)
    torch.testing.assert_close(shown, torch.from_numpy(steps["output"].values), rtol=0, atol=1e-6)
    expected = layer(x, mask=Causal())[0].detach().double()
    torch.testing.assert_close(torch.from_numpy(steps["layer output"].values), expected, rtol=0, atol=1e-6)
