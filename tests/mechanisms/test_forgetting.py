"""Forgetting attention: the definition in loops, its limits, hidden keys, a layer step by step."""

import math

import mechanism_checks as checks
import pytest
import torch
from mechanism_checks import CAUSAL_CASES

from headwise.attention import attend
from headwise.attention.call import Call
from headwise.attention.masks import Causal, Padding, Table
from headwise.attention.mechanisms.forgetting import Forgetting
from headwise.caches import AttentionStep
from headwise.errors import ShapeError, Unsupported
from headwise.layers.attention import MultiHeadAttention
from headwise.positions.alibi import Alibi


def forgetting(heads=4):
    mechanism = Forgetting(heads).double()
    torch.nn.init.normal_(mechanism.shift)
    return mechanism


def gates_of(inputs):
    """One for each of four heads and each key."""
    key = inputs[1]
    return torch.randn(key.shape[0], 4, key.shape[2], 1).double().requires_grad_()


@pytest.mark.parametrize(("mask", "query_len", "key_len", "start"), CAUSAL_CASES[:-1])
def test_the_definition_in_loops(mask, query_len, key_len, start):
    """Lin et al. 2025, eq. 3: a product of gates between key and query, forward and backward."""
    batch, mechanism = 2 if "Padding" in repr(mask) else 3, forgetting()
    inputs = [tensor[:batch].detach().requires_grad_() for tensor in checks.tensors(query_len, key_len)]
    query, key, value = inputs
    gates = gates_of(inputs)
    keep = mask.dense(batch, 4, query_len, key_len, query_start=start).expand(batch, 4, query_len, key_len)
    seen_by_some = keep.any(2)
    rows = []
    for n in range(batch):
        for h in range(4):
            shares = torch.sigmoid(gates[n, h, :, 0] + mechanism.shift[h])
            shares = torch.where(seen_by_some[n, h], shares, 1.0)
            for i in range(query_len):
                seen = [j for j in range(key_len) if keep[n, h, i, j]]
                powers = [
                    torch.exp(query[n, h, i] @ key[n, h // 2, j] / math.sqrt(6)) * shares[j + 1 : i + start + 1].prod()
                    for j in seen
                ]
                weighted = [power * value[n, h // 2, j] for power, j in zip(powers, seen, strict=True)]
                rows.append(sum(weighted) / sum(powers) if seen else torch.zeros(5).double())
    expected = torch.stack(rows).unflatten(0, (batch, 4, query_len))
    output = mechanism(Call(*inputs, mask=mask, query_start=start, gates=gates))
    checks.same_with_gradients(output, expected, [*inputs, gates, mechanism.shift])


def test_open_gates_are_softmax_attention_and_fixed_ones_are_alibi():
    inputs = [tensor.detach() for tensor in checks.tensors(7, 7)]
    call, slopes = Call(*inputs, mask=Causal()), torch.tensor(Alibi(4).slopes).double()
    for logs, alibi in ((torch.zeros(4).double(), False), (slopes, True)):
        # sigmoid(g) = exp(-slope)
        raw = torch.full((3, 4, 7, 1), 50.0).double() if not alibi else -torch.expm1(logs).log().view(1, 4, 1, 1)
        gates = raw.expand(3, 4, 7, 1)
        relative = Alibi(4).relative(inputs[0], inputs[1], -6, 6) if alibi else None
        bias = None if relative is None else relative.bias(7, 7)
        output = Forgetting(4).double()(Call(*inputs, mask=Causal(), gates=gates))
        checks.near(output, attend(*inputs, mask=call.mask, bias=bias), 1e-10)


def test_a_hidden_key_fades_nothing():
    """A key that no query sees, in the middle, is as if it were not there."""
    inputs = [tensor.detach() for tensor in checks.tensors(7, 7)]
    gates, mechanism = gates_of(inputs).detach(), forgetting()
    shown = torch.ones(7).bool()
    shown[3] = False
    output = mechanism(Call(*inputs, mask=Causal() & Table(shown.expand(1, 7)), gates=gates))
    fewer = Call(*(tensor[:, :, shown] for tensor in inputs), mask=Causal(), gates=gates[:, :, shown])
    checks.near(output[:, :, shown], mechanism(fewer))


def test_long_sums_lose_nothing():
    """c reaches -7,000: in float32 a difference of neighbours would be off by 2e-4."""
    x, mechanism = torch.randn(1, 1, 10_000, 4), Forgetting(1)
    gates = torch.zeros(1, 1, 10_000, 1)
    call = Call(x[:, :, -3:], x, x, mask=Causal(), query_start=9_997, gates=gates)
    bias = mechanism.as_scored(call, 0.0).bias
    torch.testing.assert_close(bias[0, 0, 2, -3:], torch.tensor([2.0, 1.0, 0.0]) * math.log(0.5), rtol=1e-6, atol=0)


def test_a_layer_step_by_step_and_in_a_padded_batch():
    layer, x = MultiHeadAttention(12, 3, forgetting(3)).double(), torch.randn(2, 6, 12).double()
    whole, memory = layer(x, mask=Causal()), layer.new_cache()
    steps = [layer(x[:, t : t + 1], mask=Causal(), cache=AttentionStep(memory, position=t)) for t in range(6)]
    checks.near(torch.cat(steps, 1), whole)
    padded = layer(x, mask=Causal() & Padding(torch.tensor([4, 4])))
    checks.near(padded[:, :4], whole[:, :4])
    names = [
        stage.name
        for stage in layer.mechanism.stages(
            Call(*checks.tensors(4, 4, heads=3, kv_heads=3), mask=Causal(), gates=torch.zeros(3, 3, 4, 1).double())
        )
    ]
    assert names == ["log gates", "products", "scaled", "bias", "biased", "masked", "weights"]


def test_what_it_needs():
    x = torch.ones(1, 2, 3, 4)
    with pytest.raises(Unsupported, match="Forgetting takes gates from the input of its layer"):
        Forgetting(2)(Call(x, x, x, mask=Causal()))
    with pytest.raises(Unsupported, match="Forgetting got no mask"):
        Forgetting(2)(Call(x, x, x, gates=x[..., :1]))
    with pytest.raises(ShapeError, match="the mechanism takes 1 gates of each head, got 4"):
        Forgetting(2)(Call(x, x, x, mask=Causal(), gates=x))
