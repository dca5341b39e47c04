"""The copy of a model that decodes: made once, and anew when there is another model, weight or precision."""

import copy

import pytest
import torch
from devices import on_the_host
from test_continuer import continuer
from torch import nn

from headwise.attention.mechanisms.scored import Scored
from headwise.layers import inference
from headwise.predictors import twins
from headwise.predictors.twins import Choice, Twin
from headwise.records import record


@pytest.fixture
def copies(monkeypatch):
    """The copies of models that were made so far."""
    made, make = [], twins.for_inference
    for name in ("SMALLEST", "SMALLEST_INT8"):
        monkeypatch.setattr(inference, name, 1)
    monkeypatch.setattr(twins, "for_inference", lambda *inputs: made.append(1) or make(*inputs))
    return made


def test_a_language_model_is_copied_once(copies):
    writer = continuer()
    writer.model.float()
    first = writer.predict("the cat")
    assert copies
    count = len(copies)
    assert writer.predict("the cat") == first
    assert len(copies) == count


@on_the_host("layers are rounded on a processor")
@pytest.mark.parametrize(("precision", "packs"), [("bf16", "bfloat16_product"), ("int8", "int8_product")])
def test_a_second_call_packs_nothing(monkeypatch, copies, precision, packs):
    packed, pack = [], getattr(inference, packs)
    monkeypatch.setattr(inference, packs, lambda layer: packed.append(layer) or pack(layer))
    writer = continuer()
    writer.model.float()
    options = writer.options({"precision": precision, "max_len": 3})
    first = writer.predict("the cat", options)
    count = len(packed)
    assert count == sum(type(layer) is nn.Linear for layer in writer.model.modules())
    assert writer.predict("the cat", options) == first
    # another precision does not push it out
    writer.predict("the cat")
    assert writer.predict(["the cat", "a dog"], options)[0] == first[0] or precision == "int8"
    assert len(packed) == count
    # a watched weight is packed anew
    with torch.no_grad():
        writer.model.output.weight[0, 1] += 1
    writer.predict("the cat", options)
    assert len(packed) == 2 * count


@on_the_host("layers are rounded on a processor")
@pytest.mark.parametrize(
    "change",
    ["in place", "data", "pointer", "replaced", "optimizer", "precision", "copied", "mechanism", "exchanged", "buffer"],
)
def test_what_changes_is_copied_anew(copies, change):
    model, twin = continuer().model.float(), Twin()
    # without rounding, a copy shows what changes in place
    precision = "bf16" if change in ("in place", "data", "pointer", "optimizer") else "fp32"
    first = twin.of(model, precision)
    assert twin.of(model, precision) is first
    weight = model.output.weight
    if change == "in place":
        with torch.no_grad():
            weight[0, 1] += 1
    elif change == "data":
        weight.data.mul_(2)
    elif change == "pointer":
        weight.data = weight.data.clone()
    elif change == "replaced":
        model.output.weight = nn.Parameter(weight.detach().clone())
    elif change == "optimizer":
        weight.grad = torch.ones_like(weight)
        torch.optim.AdamW([weight], fused=True).step()
    elif change == "mechanism":
        # without parameters, as the one before
        model.decoder.blocks[0].self_attention.mechanism = Scored(normalizer="sparsemax")
    elif change == "exchanged":
        inner, outer = (model.decoder.blocks[number].feed_forward for number in (0, 1))
        inner.inner.weight, outer.inner.weight = outer.inner.weight, inner.inner.weight
    elif change == "buffer":
        model.register_buffer("more", torch.ones(()))
    elif change == "precision":
        precision = "bf16"
    else:
        twin = copy.deepcopy(twin)
    found = twin.of(model, precision)
    assert found is not first
    assert twin.of(model, precision) is found


@on_the_host("layers are rounded on a processor")
def test_a_language_model_is_scored_in_its_precision(copies):
    writer = continuer()
    writer.model.float()
    exact = writer.evaluate(["the cat"])["loss"]
    rounded = writer.evaluate(["the cat"], options=writer.options({"precision": "int8"}))["loss"]
    assert rounded != exact
    assert rounded == pytest.approx(exact, abs=0.1)


def test_without_a_check_auto_is_float32_and_8_bits_are_as_requested(copies):
    model, twin = continuer().model.float(), Twin()
    assert twin.choice(model, "auto").precision == "fp32"
    assert twin.choice(model, "int8") == Choice("int8", "as requested; nothing to check 8 bits by")
    assert twin.choice(model, "bf16") == Choice("bf16", "as requested")


def test_small_layers_and_other_builds_of_pytorch_stay_in_float32(monkeypatch):
    model = continuer().model.float()
    assert "no layer is large enough" in Twin().choice(model, "int8").reason
    monkeypatch.setattr(twins, "has_int8", lambda: False)
    assert str(Twin().choice(model, "int8")) == "fp32: this PyTorch has no products of 8 bits here"


def test_a_decision_is_made_once_and_sees_both_precisions(copies):
    model, twin, asked = continuer().model.float(), Twin(), []

    def decide(requested):
        # while it is made, each precision is the one that is asked for
        asked.append((requested, twin.choice(model, "fp32").precision, twin.choice(model, "int8").precision))
        return Choice("fp32", "worse")

    twin.decide, twin.instead = decide, "int8"
    for _ in range(2):
        assert twin.choice(model, "fp32") == Choice("fp32", "worse")
    assert asked == [("int8", "fp32", "int8")]
    assert twin.choices == [Choice("fp32", "worse")]


def test_a_model_that_is_watched_decodes_itself():
    model, twin = continuer().model, Twin()
    with record(model):
        assert twin.of(model, "fp32") is model
    assert twin.of(model, "fp32") is not model
