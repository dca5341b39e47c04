"""Workings of steps: each holds, and its terms, multiplied and added in loops here, are those of the parameters."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from headwise.attention.masks import Causal
from headwise.attention.mechanisms.linear import Linear
from headwise.attention.mechanisms.performer import Performer
from headwise.attention.mechanisms.retention import Retention
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.scores import GAT, Additive, Bilinear, Custom, GATv2
from headwise.explain.layer_trace import layer_trace
from headwise.explain.workings import holds, worked
from headwise.layers.attention import MultiHeadAttention
from headwise.positions.alibi import Alibi
from headwise.positions.rotary import Rotary
from headwise.positions.shaw import Shaw

D, HEADS, DIM = 12, 3, 4


def traced(mechanism=None, *, mask=None, memory=None, head=1, **options):
    torch.manual_seed(3)
    layer = MultiHeadAttention(D, HEADS, mechanism, **options).eval()
    x, given = torch.randn(1, 5, D), () if memory is None else (torch.randn(1, memory, D),)
    trace = layer_trace(nn.ModuleDict({"own": layer}), lambda: layer(x, *given, mask=mask), head=head)
    return layer, x[0].double().numpy(), [one[0].double().numpy() for one in given], trace


def by_name(trace):
    return {step.name: step.values for step in trace.steps}


def rules(trace):
    return {step.name: step.working.rule for step in trace.steps if step.working}


PLAIN = {"query": "linear", "key": "linear", "value": "linear"}
SCALED = {"products": "dot", "scaled": "quotient"}
REST = {"weights": "normalizer", "output": "mix", "joined": "join", "layer output": "linear"}
TURNED = {"plain query": "linear", "plain key": "linear", "query": "rotation", "key": "rotation", "value": "linear"}
CASES = {
    "plain": ({}, {**PLAIN, **SCALED, **REST}),
    "without biases": ({"bias": False}, {**PLAIN, **SCALED, **REST}),
    "causal": ({"mask": Causal()}, {**PLAIN, **SCALED, "masked": "mask", **REST}),
    "grouped": ({"num_kv_heads": 1, "head": 2}, {**PLAIN, **SCALED, **REST}),
    "shared": ({"shared": "qkv"}, {**PLAIN, **SCALED, **REST}),
    "cross": ({"memory": 7, "memory_dim": D}, {**PLAIN, **SCALED, **REST}),
    "one matrix for both": ({"memory": 7}, {**PLAIN, **SCALED, **REST}),
    "rotary": ({"position": Rotary(DIM), "num_kv_heads": 1}, {**TURNED, **SCALED, **REST}),
    "rotary half": ({"position": Rotary(DIM, layout="half", columns=2)}, {**TURNED, **SCALED, **REST}),
    "normed": (
        {"norm": nn.RMSNorm, "position": Rotary(DIM)},
        {**TURNED, "normed query": "norm", "normed key": "norm", **SCALED, **REST},
    ),
    "layer norm": (
        {"norm": nn.LayerNorm},
        {**PLAIN, "plain query": "linear", "plain key": "linear", "query": "norm", "key": "norm", **SCALED, **REST},
    ),
    "alibi": ({"position": Alibi(HEADS)}, {**PLAIN, **SCALED, "biased": "sum", **REST}),
    "shaw": (
        {"position": Shaw(DIM, max_distance=3)},
        {**PLAIN, **SCALED, "biased": "sum", **REST, "output": "formula", "joined": "join"},
    ),
    "mean": ({"combine": "mean", "head_dim": D}, {**PLAIN, **SCALED, **REST, "joined": "formula"}),
    "dot": ({"mechanism": Scored("dot")}, {**PLAIN, "scores": "dot", **REST}),
    "bilinear": ({"mechanism": Scored(Bilinear(DIM, DIM))}, {**PLAIN, "scores": "dot", **REST}),
    "distance": ({"mechanism": Scored("distance")}, {**PLAIN, "scores": "dot", **REST}),
    "additive": (
        {"mechanism": Scored(Additive(DIM, DIM, 6))},
        {**PLAIN, "query part": "linear", "key part": "linear", "scores": "additive", **REST},
    ),
    "gat": (
        {"mechanism": Scored(GAT(HEADS, DIM)), "head": 2},
        {**PLAIN, "query part": "linear", "key part": "linear", "scores": "additive", **REST},
    ),
    "gatv2": ({"mechanism": Scored(GATv2(HEADS, DIM)), "head": 2}, {**PLAIN, "scores": "additive", **REST}),
    "own score": (
        {"mechanism": Scored(Custom(lambda query, key: -torch.cdist(query, key)))},
        {**PLAIN, "scores": "formula", **REST},
    ),
    "linear": (
        {"mechanism": Linear(), "mask": Causal()},
        {
            **PLAIN,
            "query features": "formula",
            "key features": "formula",
            "products": "dot",
            **REST,
            "weights": "share",
        },
    ),
    "performer": (
        {"mechanism": Performer(DIM, 16)},
        {
            **PLAIN,
            "query features": "formula",
            "key features": "formula",
            "products": "dot",
            **REST,
            "weights": "share",
        },
    ),
    "retention": (
        {"mechanism": Retention(torch.tensor([0.5, 0.7, 0.9])), "mask": Causal()},
        {**PLAIN, **SCALED, **REST, "weights": "product"},
    ),
    "scalable": ({"mechanism": Scored(normalizer="scalable:0.43")}, {**PLAIN, **SCALED, **REST, "weights": "formula"}),
}
for normalizer in ("sparsemax", "sigmoid", "relu", "relu2", "identity", "softmax1", "hard", "top_k:2"):
    options = {"mechanism": Scored(normalizer=normalizer), "mask": Causal()}
    CASES[normalizer] = (options, {**PLAIN, **SCALED, "masked": "mask", **REST})


@pytest.mark.parametrize("case", CASES)
def test_every_step_is_made_of_those_before_it(case):
    options, expected = CASES[case]
    _, _, _, trace = traced(**options)
    assert rules(trace) == expected
    steps = by_name(trace)
    for step in trace.steps:
        if step.working and step.working.rule != "formula":
            assert holds(step.working, step.values, steps, trace.parameters)
    assert trace.difference < 1e-5


def test_the_terms_of_a_head_are_those_of_the_parameters():
    layer, x, (memory,), trace = traced(memory=7, memory_dim=D, num_kv_heads=1, head=2)
    steps = by_name(trace)
    # the third head of the queries, and the one that all heads have of the keys and values
    weight, bias = layer.projection.weight.detach().double(), layer.projection.bias.detach().double()
    both, of_both = layer.memory_projection.weight.detach().double(), layer.memory_projection.bias.detach().double()
    for c in range(DIM):
        query = sum(x[3, m] * weight[8 + c, m].item() for m in range(D)) + bias[8 + c].item()
        key = sum(memory[6, m] * both[c, m].item() for m in range(D)) + of_both[c].item()
        value = sum(memory[6, m] * both[DIM + c, m].item() for m in range(D)) + of_both[DIM + c].item()
        found = steps["query"][3, c], steps["key"][6, c], steps["value"][6, c]
        assert found == pytest.approx((query, key, value), abs=1e-12)
    np.testing.assert_array_equal(trace.parameters["wv"], layer.memory_projection.weight.detach().numpy()[DIM:])
    score = sum(steps["query"][3, c] * steps["key"][6, c] for c in range(DIM)) / math.sqrt(DIM)
    assert steps["scaled"][3, 6] == pytest.approx(score, abs=1e-12)
    output = sum(steps["weights"][3, k] * steps["value"][k, 1] for k in range(7))
    assert steps["output"][3, 1] == pytest.approx(output, abs=1e-12)
    mixed = layer.output.weight.detach().double()[5].numpy() @ steps["joined"][3] + layer.output.bias[5].item()
    assert steps["layer output"][3, 5] == pytest.approx(mixed, abs=1e-12)


def test_a_turn_takes_each_column_and_its_partner():
    _, _, _, trace = traced(position=Rotary(DIM, base=100.0))
    steps = by_name(trace)
    angle = 3 * 100.0 ** (-2 / DIM)
    plain = steps["plain key"][3]
    assert steps["key"][3, 2] == pytest.approx(plain[2] * math.cos(angle) - plain[3] * math.sin(angle), abs=1e-12)
    assert steps["key"][3, 3] == pytest.approx(plain[3] * math.cos(angle) + plain[2] * math.sin(angle), abs=1e-12)


def test_what_a_layer_does_besides_is_shown_as_it_was_recorded():
    torch.manual_seed(3)
    layer = MultiHeadAttention(D, HEADS).eval()
    adapted = nn.Sequential(layer.projection, nn.Tanh())
    layer.projection = adapted
    x = torch.randn(1, 5, D)
    trace = layer_trace(nn.ModuleDict({"own": layer}), lambda: layer(x), head=1)
    assert "query" not in rules(trace)
    assert rules(trace)["products"] == "dot"
    assert set(trace.parameters) == {"wo", "bo"}
    np.testing.assert_allclose(trace["query"].values, adapted(x)[0, :, DIM : 2 * DIM].detach().numpy(), atol=1e-6)


def test_half_precision_is_shown_from_what_was_recorded():
    torch.manual_seed(3)
    layer = MultiHeadAttention(D, HEADS).eval().bfloat16()
    x = torch.randn(1, 5, D, dtype=torch.bfloat16)
    trace = layer_trace(nn.ModuleDict({"own": layer}), lambda: layer(x))
    assert "query" not in rules(trace)
    assert (rules(trace)["weights"], rules(trace)["output"]) == ("normalizer", "formula")


def test_too_many_parameters_are_left_out():
    layer = MultiHeadAttention(600, 2).eval()
    x = torch.randn(1, 3, 600)
    trace = layer_trace(nn.ModuleDict({"own": layer}), lambda: layer(x))
    assert trace.parameters == {}
    assert rules(trace)["query"] == "formula"


def test_a_working_that_does_not_hold_is_no_working():
    _, _, _, trace = traced()
    steps = by_name(trace)
    working = trace["products"].working
    assert holds(working, steps["products"], steps, {})
    assert not holds(working, steps["products"] + 1e-6, steps, {})
    assert worked(trace["query"].working, steps, {}) is None
