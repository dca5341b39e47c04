"""Steps at another temperature or without a part of the mask: the model's own way, changed where it was asked for."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from serving_runs import TEXT, folder_of

from headwise.attention.call import Call
from headwise.attention.masks import Padding
from headwise.attention.mechanisms.scored import Scored
from headwise.explorer import supposing
from headwise.explorer.api import add_explorer
from headwise.service.app import create_app
from headwise.service.loaded import load_runs

OWN, CROSS = "decoder.blocks.0.self_attention", "decoder.blocks.0.cross_attention"
ENCODER = "encoder.blocks.0.self_attention"


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    runs = load_runs([folder_of(tmp_path_factory.mktemp("supposed"))])
    with TestClient(create_app(runs, more=[add_explorer]), base_url="http://127.0.0.1:8000") as found:
        yield found


@pytest.fixture(scope="module")
def at(client):
    return f"/api/v1/traces/{client.post('/api/v1/traces', json={'text': TEXT}).json()['trace_id']}"


def steps(client, at, layer, **asked):
    answer = client.get(f"{at}/steps", params={"layer": layer, "head": 1, **asked})
    assert answer.status_code == 200, answer.text
    found = {one["name"]: one["values"] for one in answer.json()["steps"]}
    return {name: np.array(values, dtype=float) for name, values in found.items()}


def softmax(scores):
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)


def test_scores_are_divided_by_the_temperature(client, at):
    own, cold = steps(client, at, CROSS), steps(client, at, CROSS, temperature=0.25)
    assert "tempered" not in own
    np.testing.assert_allclose(cold["tempered"], own["scaled"] / 0.25, rtol=1e-5)
    np.testing.assert_allclose(cold["weights"], softmax(own["scaled"] / 0.25), atol=1e-5)
    np.testing.assert_allclose(cold["output"], cold["weights"] @ own["value"], atol=1e-5)
    assert np.abs(cold["weights"] - own["weights"]).max() > 1e-3


def test_a_part_of_the_mask_is_left_out(client, at):
    own, free = steps(client, at, OWN), steps(client, at, OWN, causal=False)
    assert np.isnan(own["masked"]).sum() + np.isinf(own["masked"]).sum() > 0
    assert "masked" not in free
    np.testing.assert_allclose(free["weights"], softmax(own["scaled"]), atol=1e-5)
    np.testing.assert_array_equal(steps(client, at, OWN, padding=False)["weights"], own["weights"])


def test_nothing_is_changed_for_who_asks_for_the_steps_of_the_model(client, at):
    before = steps(client, at, OWN)
    steps(client, at, OWN, temperature=3, causal=False)
    after = steps(client, at, OWN, temperature=1, causal=True, padding=True)
    assert before.keys() == after.keys()
    for name, values in before.items():
        np.testing.assert_array_equal(values, after[name])


def test_it_is_told_what_can_be_changed(client, at):
    length = len(steps(client, at, OWN)["weights"])
    told = client.get(f"{at}/changeable", params={"layer": OWN}).json()
    masks = {"causal": length * (length - 1) // 2}
    assert told == {"temperature": True, "scaled": True, "masks": masks, "causal": False}
    assert client.get(f"{at}/changeable", params={"layer": CROSS}).json()["masks"] == {"padding": 0}


def test_a_scale_is_left_out_and_a_causal_mask_put_in(client, at):
    own = steps(client, at, ENCODER)
    assert client.get(f"{at}/changeable", params={"layer": ENCODER}).json()["causal"] is True
    raw = steps(client, at, ENCODER, scaled=False, temperature=2)
    assert "scaled" not in raw
    np.testing.assert_allclose(raw["weights"], softmax(own["products"] / 2), atol=1e-12)
    hidden = steps(client, at, ENCODER, causal=True)["weights"]
    np.testing.assert_array_equal(np.triu(hidden, 1), np.zeros_like(hidden))
    np.testing.assert_allclose(hidden.sum(1), 1)
    # the model has this one itself
    np.testing.assert_array_equal(steps(client, at, OWN, causal=True)["weights"], steps(client, at, OWN)["weights"])
    assert client.get(f"{at}/steps", params={"layer": OWN, "head": 0, "scaled": "2"}).status_code == 422


def test_the_textbook_needs_no_run():
    with TestClient(create_app({}, more=[add_explorer]), base_url="http://127.0.0.1:8000") as client:

        def weights(**asked):
            answer = client.get("/api/v1/textbook", params=asked).json()
            found = {step["name"]: step["values"] for step in answer["steps"]}
            assert answer["queries"] == ["x1", "x2", "x3"]
            return np.array(found["weights"])

        scores = np.array([[2, 4, 4], [4, 16, 12], [4, 12, 10]])
        np.testing.assert_allclose(weights(), softmax(scores), atol=1e-12)
        np.testing.assert_allclose(weights(scaled=True), softmax(scores / 3**0.5), atol=1e-12)
        hidden = np.where(np.tri(3, dtype=bool), scores / 0.5, -np.inf)
        np.testing.assert_allclose(weights(causal=True, temperature=0.5), softmax(hidden), atol=1e-12)


def test_a_layer_without_scores_has_no_temperature(client, at):
    edits = [{"kind": "swap", "layer": OWN, "mechanism": "linear"}]
    told = client.post("/api/v1/traces", json={"text": TEXT, "options": {"edits": edits}}).json()
    swapped = f"/api/v1/traces/{told['trace_id']}"
    assert client.get(f"{swapped}/changeable", params={"layer": OWN}).json()["temperature"] is False
    answer = client.get(f"{swapped}/steps", params={"layer": OWN, "head": 0, "temperature": 2})
    assert answer.status_code == 422
    assert "has no temperature" in answer.text


@pytest.mark.parametrize("asked", [{"temperature": 0}, {"temperature": "nan"}, {"temperature": 101}, {"without": "x"}])
def test_what_is_no_temperature_is_refused(client, at, asked):
    assert client.get(f"{at}/steps", params={"layer": OWN, "head": 0, **asked}).status_code == 422


@pytest.mark.usefixtures("untyped")
def test_parts_of_one_kind_are_counted_together(monkeypatch):
    inputs = torch.zeros(2, 1, 4, 2)
    mask = Padding(torch.tensor([2, 4])) & Padding(torch.tensor([3, 1]))
    last = SimpleNamespace(call=Call(inputs, inputs, inputs, mask=mask), mechanism=Scored("scaled_dot"))
    monkeypatch.setattr(supposing, "_last", lambda *_: last)
    # two keys of the first example, three of the second, each for four queries
    assert supposing.changeable(None, "a layer")["masks"] == {"padding": 4 * 2 + 4 * 3}
