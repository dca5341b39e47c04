"""PaTH: a product of reflections in loops, its limits, hidden tokens, a layer step by step, traced."""

import math

import mechanism_checks as checks
import pytest
import torch
from torch.nn import functional as F

from headwise.attention import attend
from headwise.attention.call import Call
from headwise.attention.masks import Causal, Padding, Table
from headwise.attention.mechanisms.path import Path, reflected_products
from headwise.caches import AttentionStep
from headwise.errors import ConfigError, ShapeError, Unsupported
from headwise.explain.layer_trace import layer_trace
from headwise.layers.attention import MultiHeadAttention

CASES = [
    (Causal(), 7, 7, 0),
    (Causal(), 3, 7, 2),
    (Causal(), 2, 3, 5),
    (Causal() & Padding(torch.tensor([4, 7, 1])), 7, 7, 0),
    (Causal() & Table((torch.arange(7) != 2).expand(1, 7)), 7, 7, 0),
]


def path(heads=4, dim=6, **options):
    torch.manual_seed(0)
    mechanism = Path(dim, heads, **options).double()
    torch.nn.init.normal_(mechanism.shift)
    return mechanism


def gates_of(inputs, heads=4):
    key = inputs[1]
    return torch.randn(key.shape[0], heads, key.shape[2], 1 + key.shape[3]).double().requires_grad_()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_definition_in_loops(case):
    """Yang et al. 2025, eq. 3: one reflection after another, forward and backward."""
    (mask, query_len, key_len, start), mechanism = case, path()
    query, key, value = inputs = checks.tensors(query_len, key_len)
    gates = gates_of(inputs)
    keep = mask.dense(3, 4, query_len, key_len, query_start=start).expand(3, 4, query_len, key_len)
    rows = []
    for n in range(3):
        for h in range(4):
            turns = []
            shown = [bool(keep[n, h, :, j].any()) for j in range(key_len)]
            for j in range(key_len):
                taps = [mechanism.taps[h, :, t] * gates[n, h, j + t - 2, 1:] for t in range(3) if shown_at(shown, j, t)]
                w = F.silu(sum(taps)) if taps else torch.zeros(6).double()
                w = w / (w @ w + 1e-6).sqrt()
                b = 2 * torch.sigmoid(gates[n, h, j, 0] + mechanism.shift[h]) if shown[j] else 0.0
                turns.append(torch.eye(6).double() - b * torch.outer(w, w))
            for i in range(query_len):
                scores, seen = [], [j for j in range(key_len) if keep[n, h, i, j]]
                for j in seen:
                    turned = key[n, h // 2, j]
                    for m in range(j + 1, min(i + start, key_len - 1) + 1):
                        turned = turns[m] @ turned
                    scores.append(query[n, h, i] @ turned / math.sqrt(6))
                row = torch.stack(scores).softmax(0) @ value[n, h // 2, seen] if seen else torch.zeros(5).double()
                rows.append(row)
    expected = torch.stack(rows).unflatten(0, (3, 4, query_len))
    output = mechanism(Call(*inputs, mask=mask, query_start=start, gates=gates))
    checks.same_with_gradients(output, expected, [*inputs, gates, *mechanism.parameters()])


def shown_at(shown, j, t):
    return j + t - 2 >= 0 and shown[j + t - 2]


@pytest.mark.parametrize("length", [64, 131])
def test_chunks_are_one_reflection_after_another(length):
    torch.manual_seed(0)
    query, key, w = (torch.randn(1, 2, length, 4).double() for _ in range(3))
    w, b = F.normalize(w, dim=-1), 2 * torch.rand(1, 2, length, 1).double()
    inputs = [x.requires_grad_() for x in (query, key, w, b)]
    rows, turned = [], torch.zeros(1, 2, 0, 4).double()
    for i in range(length):
        turned = turned - (turned @ w[:, :, i, :, None]) * b[:, :, i, None] * w[:, :, i, None, :]
        turned = torch.cat((turned, key[:, :, i : i + 1]), 2)
        rows.append(F.pad((turned @ query[:, :, i, :, None]).squeeze(-1), (0, length - i - 1)))
    actual = reflected_products(query, key, w, b, 0)
    checks.same_with_gradients(actual.tril(), torch.stack(rows, 2), inputs)
    last = reflected_products(query[:, :, -3:], key, w, b, length - 3)
    checks.near(last.tril(length - 3), actual[:, :, -3:].tril(length - 3))


def test_without_strength_it_is_softmax_attention():
    inputs, mechanism = [t.detach() for t in checks.tensors(7, 7)], path()
    gates = gates_of(inputs).detach()
    gates[..., 0] = -1e3
    checks.near(mechanism(Call(*inputs, mask=Causal(), gates=gates)), attend(*inputs, mask=Causal()))


def test_a_layer_step_by_step_in_a_padded_batch_and_in_a_trace():
    layer, x = MultiHeadAttention(12, 3, path(3, 4)).double(), torch.randn(2, 70, 12).double()
    whole, memory = layer(x, mask=Causal()), layer.new_cache()
    steps = [layer(x[:, t : t + 1], mask=Causal(), cache=AttentionStep(memory, position=t)) for t in range(70)]
    checks.near(torch.cat(steps, 1), whole)
    padded = layer(x, mask=Causal() & Padding(torch.tensor([67, 3])))
    checks.near(padded[:1, :67], whole[:1, :67])
    checks.near(padded[1:, :3], whole[1:, :3])
    layer = layer.float()
    trace = layer_trace(layer, lambda: layer(x[:1, :5].float(), mask=Causal()), head=2)
    steps = {step.name: step for step in trace.steps}
    assert trace.difference < 1e-5
    assert {"directions", "strengths", "scores"} <= steps.keys()
    checks.near(torch.from_numpy(steps["weights"].values @ steps["value"].values), steps_output(steps), 1e-6)


def steps_output(steps):
    return torch.from_numpy(steps["output"].values)


def test_what_it_needs():
    x, gates = torch.ones(1, 2, 3, 4), torch.zeros(1, 2, 3, 5)
    with pytest.raises(ConfigError, match=r"path needs taps, conv \(0\), and a rank \(32\) of 1 or more"):
        Path(4, 2, conv=0)
    with pytest.raises(Unsupported, match="Path got no mask"):
        Path(4, 2)(Call(x, x, x, gates=gates))
    with pytest.raises(Unsupported, match="Path cannot honour the mask Table"):
        Path(4, 2)(Call(x, x, x, mask=Causal() & Table(torch.eye(3).bool()), gates=gates))
    with pytest.raises(ShapeError, match="was built for heads 3, got 2"):
        Path(4, 3)(Call(x, x, x, mask=Causal(), gates=gates))
    with pytest.raises(ShapeError, match="was built for head_dim 5, got 4"):
        Path(5, 2)(Call(x, x, x, mask=Causal(), gates=gates))
