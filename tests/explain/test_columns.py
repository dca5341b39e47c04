"""Traces with vectors as columns: the numbers of the other order of products, computed here with columns throughout."""

import re

import numpy as np
import pytest
import torch
from torch import nn

from headwise.attention.masks import Causal
from headwise.attention.mechanisms import build as build_mechanism
from headwise.attention.mechanisms.scored import Scored
from headwise.explain.columns import as_columns
from headwise.explain.layer_trace import EXAMPLES, example_trace, layer_trace
from headwise.explain.trace_formats import FORMS, format_trace
from headwise.layers.attention import MultiHeadAttention
from headwise.positions import build as build_position

# what formulas of rows have
ROWS = r"\^\\top$|A V|= \S+ W_|_\{i[jk]\}"


def column_softmax(scores):
    powers = np.exp(scores - scores.max(0, keepdims=True))
    return powers / powers.sum(0, keepdims=True)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_the_value_times_the_softmax_of_columns(name):
    rows, trace = example_trace(name), as_columns(example_trace(name))
    query, key, value = (trace[part].values for part in ("query", "key", "value"))
    scale = np.sqrt(3) if name.endswith("scaled") else 1.0
    weights = column_softmax(key.T @ query / scale)
    np.testing.assert_allclose(trace["weights"].values, weights, atol=1e-12)
    np.testing.assert_allclose(trace["output"].values, value @ weights, atol=1e-12)
    np.testing.assert_allclose(trace["weighted values"].values.sum(-1).T, value @ weights, atol=1e-12)
    for step in rows.steps:
        assert sorted(trace[step.name].values.shape) == sorted(step.values.shape)
        np.testing.assert_array_equal(trace[step.name].values.swapaxes(-1, -2), step.values)


def layer_with(position=None, mechanism=None, **options):
    # 3 heads of 4, 5 tokens: no two axes are equally long
    acting = None if position is None else build_position(position, 12, 4, 3, 16)
    return MultiHeadAttention(12, 3, mechanism or Scored(), position=acting, **options)


LAYERS = {
    "rotary and causal": (layer_with("rotary"), Causal()),
    "a bias by distance": (layer_with("alibi"), Causal()),
    "distance score": (layer_with(mechanism=Scored("distance")), None),
    "linear": (layer_with(mechanism=build_mechanism("linear", head_dim=4, num_heads=3, max_len=9, dropout=0.0)), None),
    "mean of heads": (layer_with(combine="mean"), None),
}


@pytest.mark.parametrize("name", LAYERS)
def test_every_formula_with_a_product_has_it_in_the_order_of_columns(name):
    layer, mask = LAYERS[name]
    x = torch.randn(1, 5, 12)
    trace = as_columns(layer_trace(layer, lambda: layer(x, mask=mask), head=1))
    by_symbol = {step.symbol: step.values for step in trace.steps}
    products = 0
    for step in trace.steps:
        if match := re.fullmatch(r"(\S+) = (\S+)\^\\top(?: |\\,)(\S+)", step.formula):
            names = [re.sub(r"^\\phi\((.)\)$", r"\\phi(\1)", part) for part in match.groups()]
            if all(part in by_symbol for part in names):
                products += 1
                expected = by_symbol[names[1]].T @ by_symbol[names[2]]
                np.testing.assert_allclose(step.values, expected, atol=1e-9)
        assert not re.search(ROWS, step.formula), step.formula
    assert products or name == "distance score"
    if "layer output" in {step.name for step in trace.steps}:
        output = layer.output
        expected = output.weight.detach().double().numpy() @ trace["joined"].values
        expected += output.bias.detach().double().numpy()[:, None]
        np.testing.assert_allclose(trace["layer output"].values, expected, atol=1e-9)
        assert trace["layer output"].formula == r"Y = W_O^\top H + b_O"


@pytest.mark.parametrize("length", [1, 2])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_prints_them(form, length):
    layer = nn.ModuleDict({"only": layer_with()})
    x = torch.randn(1, length, 12)
    text = format_trace(as_columns(layer_trace(layer, lambda: layer["only"](x))), form)
    assert "nan" not in text
    assert text
