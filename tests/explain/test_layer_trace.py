"""The steps of a layer multiply out to what it returns, whichever kernel ran; worked examples and text forms."""

import csv
import io
import json
import math

import numpy as np
import pytest
import torch
from torch import nn

from headwise.attention.masks import Causal
from headwise.attention.mechanisms.linear import Linear
from headwise.attention.mechanisms.scored import Scored
from headwise.errors import ConfigError, Unsupported
from headwise.explain.layer_trace import EXAMPLES, example_trace, layer_trace
from headwise.explain.trace_formats import FORMS, format_trace
from headwise.layers.attention import MultiHeadAttention
from headwise.positions.rotary import Rotary
from headwise.records import Mute, edit

# the worked example of three inputs, softmax of [2, 4, 4] and so on, in float64
WEIGHTS = [
    [0.06337894, 0.46831053, 0.46831053],
    [6.0337e-6, 0.98200786, 0.01798610],
    [2.9539e-4, 0.8805369, 0.11916771],
]
OUTPUT = [
    [1.93662106, 6.68310531, 1.59506841],
    [1.99999397, 7.9639916, 0.05397641],
    [1.99970461, 7.75989225, 0.35838929],
]
SCALED = [[1.8638742, 6.31937101, 1.7041887], [1.99910955, 7.8141235, 0.27347206], [1.99255511, 7.47963559, 0.73587726]]


def traced(layer, length=5, memory=None, head=1, **labels):
    torch.manual_seed(3)
    x = torch.randn(2, length, 12)
    given = () if memory is None else (torch.randn(2, memory, 12),)
    return layer_trace(nn.ModuleDict({"own": layer}), lambda: layer(x, *given), head=head, **labels), x, given


@pytest.mark.parametrize("mechanism", [Scored, lambda: Scored("distance"), Linear, lambda: Scored(kernel="plain")])
@pytest.mark.parametrize("kv_heads", [1, 3])
def test_the_steps_multiply_out_to_the_output_of_the_layer(mechanism, kv_heads):
    layer = MultiHeadAttention(12, 3, mechanism(), num_kv_heads=kv_heads).eval()
    found, x, _ = traced(layer)
    step = {one.name: one.values for one in found.steps}
    assert np.allclose(step["input"], x[0])
    assert step["query"].shape == (5, 4)
    assert np.allclose(step["weights"] @ step["value"], step["output"], atol=1e-5)
    assert np.allclose(step["weighted values"].sum(1), step["output"], atol=1e-5)
    assert np.allclose(step["joined"][:, 4:8], step["output"], atol=1e-6)
    with torch.no_grad():
        assert np.allclose(step["layer output"], layer(x)[0], atol=1e-6)


def test_cross_attention_shows_its_memory():
    layer = MultiHeadAttention(12, 3, memory_dim=12).eval()
    found, _, (memory,) = traced(layer, memory=7)
    assert np.allclose(found["memory"].values, memory[0])
    assert found["weights"].values.shape == (5, 7)
    assert found["key"].formula == "K = C W_K + b_K"
    assert found["query"].formula == "Q = X W_Q + b_Q"


def test_a_position_that_turns_shows_the_query_before_it():
    layer = MultiHeadAttention(12, 3, position=Rotary(4), bias=False).eval()
    found, x, _ = traced(layer)
    with torch.no_grad():
        plain = layer.projection(x)[0, :, 4:8].numpy()
    assert np.allclose(found["plain query"].values, plain, atol=1e-6)
    assert not np.allclose(found["query"].values, plain)
    assert found["query"].formula == "Q = r(Q_0)"


def test_changes_show_beside_what_they_change():
    layer = MultiHeadAttention(12, 3).eval()
    model = nn.ModuleDict({"own": layer})
    x = torch.randn(1, 4, 12)

    def muted():
        with edit(model, Mute("own", 0)):
            layer(x)

    found = layer_trace(model, muted, "own", 0)
    assert found["weights"].values.sum() > 3
    assert not found["changed weights"].values.any()
    assert not found["output"].values.any()


def test_looking_changes_no_number():
    layer = MultiHeadAttention(12, 3).eval()
    _found, x, _ = traced(layer)
    with torch.no_grad():
        before = layer(x)
        layer_trace(nn.ModuleDict({"own": layer}), lambda: layer(x))
        assert torch.equal(before, layer(x))
        assert not layer._forward_pre_hooks
        assert not layer.output._forward_hooks


def test_what_is_not_there_is_refused():
    layer = MultiHeadAttention(12, 3)
    with pytest.raises(ConfigError, match=r"head 3 .* 0 to 2"):
        traced(layer, head=3)
    with pytest.raises(ConfigError, match="unknown attention layer 'two'"):
        layer_trace(nn.ModuleDict({"own": layer}), lambda: None, "two")
    with pytest.raises(Unsupported, match="own was not called"):
        layer_trace(nn.ModuleDict({"own": layer}), lambda: None)
    with pytest.raises(ConfigError, match="unknown step 'scores'"):
        traced(layer)[0]["scores"]


def test_the_worked_example_has_the_numbers_of_its_source():
    found = example_trace("illustrated")
    assert found["key"].values.tolist() == [[0, 1, 1], [4, 4, 0], [2, 3, 1]]
    assert found["value"].values.tolist() == [[1, 2, 3], [2, 8, 0], [2, 6, 3]]
    assert found["scores"].values.tolist() == [[2, 4, 4], [4, 16, 12], [4, 12, 10]]
    assert np.allclose(found["weights"].values, WEIGHTS, atol=5e-9)
    assert np.allclose(found["output"].values, OUTPUT, atol=5e-9)
    assert found["weighted values"].values.shape == (3, 3, 3)
    assert np.allclose(example_trace("illustrated-scaled")["output"].values, SCALED, atol=5e-9)
    with pytest.raises(ConfigError, match="unknown example 'illustrate'"):
        example_trace("illustrate")


def masked():
    layer = MultiHeadAttention(12, 3).eval()
    x = torch.randn(1, 3, 12)
    names = ["a|b", "<c>", "$d$"]
    return layer_trace(nn.ModuleDict({"own": layer}), lambda: layer(x, mask=Causal()), queries=names, keys=names)


def test_json_and_csv_have_every_number():
    found = masked()
    told = json.loads(format_trace(found, "json"))
    assert told["queries"] == ["a|b", "<c>", "$d$"]
    assert told["head"] == 0
    for step, one in zip(told["steps"], found.steps, strict=True):
        assert step["name"] == one.name
        assert tuple(step["shape"]) == one.values.shape
        numbers = np.array(step["values"], dtype=float)
        assert np.array_equal(np.where(np.isfinite(one.values), one.values, np.nan), numbers, equal_nan=True)
    rows = list(csv.DictReader(io.StringIO(format_trace(found, "csv"))))
    assert len(rows) == sum(one.values.size for one in found.steps)
    (one,) = [row for row in rows if row["step"] == "weights" and (row["row"], row["column"]) == ("2", "1")]
    assert one["row_label"] == "$d$"
    assert float(one["value"]) == found["weights"].values[2, 1]
    (hidden,) = [row for row in rows if row["step"] == "masked" and (row["row"], row["column"]) == ("0", "1")]
    assert float(hidden["value"]) == -math.inf


def test_markdown_and_latex_show_labels_as_they_are():
    text = format_trace(masked(), "markdown")
    assert r"a\|b" in text
    assert "&lt;c>" in text
    assert "−∞" in text
    assert all(line.count(" | ") or not line.startswith("| **") for line in text.splitlines())
    tex = format_trace(masked(), "latex")
    assert r"-\infty" in tex
    assert tex.count(r"\begin{align*}") == tex.count(r"\end{align*}") == len(masked().steps)


@pytest.mark.parametrize("form", ["markdown", "latex"])
def test_large_matrices_are_cut_and_marked(form):
    layer = MultiHeadAttention(12, 3).eval()
    found, _, _ = traced(layer, length=40)
    text = format_trace(found, form)
    assert ("…" if form == "markdown" else r"\cdots") in text
    assert len(text) < 60_000


def test_an_unknown_form_is_refused():
    with pytest.raises(ConfigError, match="--trace: unknown form 'tex'"):
        format_trace(example_trace(next(iter(EXAMPLES))), "tex")
    assert set(FORMS) == {"json", "csv", "latex", "markdown"}
