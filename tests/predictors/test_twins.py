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
from headwise.predictors.twins import Twin
from headwise.records import record


@pytest.fixture
def copies(monkeypatch):
    """The copies of models that were made so far."""
    made, make = [], twins.for_inference
    monkeypatch.setattr(inference, "SMALLEST", 1)
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


def test_a_model_that_is_watched_decodes_itself():
    model, twin = continuer().model, Twin()
    with record(model):
        assert twin.of(model, "fp32") is model
    assert twin.of(model, "fp32") is not model
