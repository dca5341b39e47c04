"""The steps of a mechanism end in its weights, and those of the definition are the definition's own numbers."""

import math
from dataclasses import replace

import pytest
import torch

from headwise import positions
from headwise.attention import mechanisms
from headwise.attention.call import Call
from headwise.attention.kernels import plain
from headwise.attention.masks import Causal, Padding
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.scores import Additive, Custom


def call_of(kv_heads=4, mask=None, length=8, **given):
    torch.manual_seed(0)
    query = torch.randn(2, 4, length, 8)
    key, value = torch.randn(2, kv_heads, length, 8), torch.randn(2, kv_heads, length, 8)
    return Call(query, key, value, mask=mask, **given)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", mechanisms.names())
def test_the_last_step_of_every_mechanism_is_its_weights(name, padded):
    kind = mechanisms.mechanism_type(name)
    built = kind.sized(head_dim=8, num_heads=4, max_len=8, dropout=0.0).eval()
    padding = Padding(torch.tensor([3, 8])) if padded and built.facts.honours != "none" else None
    causal = None if built.facts.bidirectional else Causal()
    call = call_of(mask=padding if causal is None else causal if padding is None else causal & padding)
    if (gates := built.gate_module(32, 4)) is not None:
        call = replace(call, gates=gates(call.key.transpose(1, 2).flatten(2)))
    last = built.stages(call)[-1]
    assert last.name == "weights"
    assert last.axes == ("queries", "keys")
    torch.testing.assert_close(last.values, built.weights(call))


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("normalizer", ["softmax", "sparsemax", "entmax:1.3", "sigmoid", "top_k:3"])
def test_the_definition_step_by_step_is_the_plain_kernel(kv_heads, normalizer):
    call = call_of(kv_heads, Causal() & Padding(torch.tensor([8, 3])), normalizer=normalizer)
    steps = {step.name: step.values for step in Scored().stages(call)}
    assert list(steps) == ["products", "scaled", "masked", "weights"]
    torch.testing.assert_close(steps["weights"], plain.weights(call), rtol=0, atol=0)
    torch.testing.assert_close(steps["products"] / math.sqrt(8), steps["scaled"])
    assert steps["masked"][0, :, 0, 1:].eq(-math.inf).all()
    assert steps["masked"][1, :, :, 3:].eq(-math.inf).all()


@pytest.mark.parametrize("name", ["alibi", "t5", "shaw", "deberta", "transformer_xl"])
def test_what_distances_add_is_a_step_of_its_own(name):
    torch.manual_seed(1)
    scheme = positions.build(name, d_model=32, head_dim=8, num_heads=4, max_len=16)
    call = call_of()
    relative = scheme.relative(call.query, call.key, -7, 7)
    bias = scheme.bias(call.query, call.key, 0)
    call = call_of(relative=relative, bias=bias)
    steps = {step.name: step.values for step in Scored().stages(call)}
    assert {"bias", "relative"} & steps.keys()
    added = sum(steps[key] for key in ("bias", "relative") if key in steps)
    torch.testing.assert_close(steps["scaled"] + added, steps["biased"])
    torch.testing.assert_close(steps["weights"], plain.weights(call), rtol=0, atol=0)


def test_formulas_name_what_they_are_made_of():
    scheme = positions.build("shaw", d_model=32, head_dim=8, num_heads=4, max_len=16)
    call = call_of()
    relative, bias = scheme.relative(call.query, call.key, -7, 7), torch.zeros(1, 4, 8, 8)
    for given, formula in (
        ({}, None),
        ({"bias": bias}, "S' = S + B"),
        ({"relative": relative}, "S' = S + R"),
        ({"bias": bias, "relative": relative}, "S' = S + B + R"),
    ):
        steps = {step.name: step for step in Scored().stages(call_of(mask=Causal(), **given))}
        assert (steps["biased"].formula if "biased" in steps else None) == formula
        assert steps["masked"].formula.startswith("M_{ij} = S'_{ij} " if formula else "M_{ij} = S_{ij} ")
        assert "(M)" in steps["weights"].formula


def test_a_score_that_is_no_product_is_one_step():
    steps = Scored(Custom(lambda query, key: -torch.cdist(query, key))).stages(call_of())
    assert [step.name for step in steps] == ["scores", "weights"]
    assert "Custom" in steps[0].formula
    steps = Scored(Additive(8, 8, 5)).stages(call_of())
    assert [step.name for step in steps] == ["query part", "key part", "scores", "weights"]


def test_features_of_a_linear_mechanism_multiply_to_its_weights():
    kind = mechanisms.mechanism_type("linear")
    call = call_of(mask=Causal())
    steps = {step.name: step.values for step in kind().stages(call)}
    products = (steps["query features"] @ steps["key features"].mT).tril()
    torch.testing.assert_close(products / products.sum(-1, keepdim=True), steps["weights"])


def test_a_mechanism_of_ones_own_has_its_weights():
    class Mean(Mechanism):
        def compute(self, call):
            return call.value.mean(2, keepdim=True).expand(-1, -1, call.query.shape[2], -1)

    (step,) = Mean().stages(call_of())
    assert step.values.eq(1 / 8).all()
