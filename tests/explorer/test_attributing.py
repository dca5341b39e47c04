"""Attribution over HTTP: the maps of each method are those of `headwise.attribute`; refusals by name."""

import io

import numpy as np
import pytest
from fastapi.testclient import TestClient
from serving_runs import TEXT, folder_of

from headwise.explain.methods import METHODS
from headwise.explorer import attributing
from headwise.explorer.api import add_explorer
from headwise.explorer.attributing import OFFERED
from headwise.predictors.attribution.attribute import attribute
from headwise.service.app import create_app
from headwise.service.loaded import load_runs
from headwise.service.worker import Expired


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return load_runs([folder_of(tmp_path_factory.mktemp("attributed"))])


@pytest.fixture
def client(runs):
    with TestClient(create_app(runs, more=[add_explorer]), base_url="http://127.0.0.1:8000") as client:
        yield client


def trace_of(client, **asked):
    answer = client.post("/api/v1/traces", json={"text": TEXT, **asked})
    assert answer.status_code == 201, answer.text
    return f"/api/v1/traces/{answer.json()['trace_id']}/attribution"


@pytest.mark.parametrize(
    "method", [pytest.param(name, marks=pytest.mark.slow if name == "integrated" else []) for name in OFFERED]
)
def test_maps_are_those_of_the_method(client, runs, method):
    at, expected = trace_of(client), attribute(runs["run"].predictor, TEXT, method)
    answer = client.get(at, params={"by": method})
    assert "immutable" in answer.headers["cache-control"]
    described = answer.json()
    for part in ("title", "formula", "source", "limit"):
        assert described[part] == getattr(METHODS[method], part)
    assert [row["name"] for row in described["maps"]] == list(expected.layers)
    for row in described["maps"]:
        layer = expected.layers[row["name"]]
        assert (row["queries"], row["keys"], row["heads"]) == (layer.queries, layer.keys, len(layer.weights))
        for head in (None, len(layer.weights) - 1):
            params = {"by": method, "layer": row["name"]} | ({} if head is None else {"head": head})
            numbers = np.load(io.BytesIO(client.get(f"{at}/map", params=params).content), allow_pickle=False)
            np.testing.assert_allclose(numbers, expected.values(row["name"], head), atol=1e-3, rtol=1e-3)


def test_an_attribution_is_made_once(client, monkeypatch):
    at, made = trace_of(client), []
    monkeypatch.setattr(attributing, "attribute", lambda *how: made.append(how) or attribute(*how))
    for _ in range(2):
        for row in client.get(at, params={"by": "rollout"}).json()["maps"]:
            assert client.get(f"{at}/map", params={"by": "rollout", "layer": row["name"]}).status_code == 200
    assert len(made) == 1


def test_one_that_was_given_up_is_not_kept(client, monkeypatch):
    def given_up(*how):
        raise Expired

    at = trace_of(client)
    monkeypatch.setattr(attributing, "attribute", given_up)
    assert client.get(at, params={"by": "norms"}).status_code == 503
    monkeypatch.undo()
    assert client.get(at, params={"by": "norms"}).status_code == 200


@pytest.mark.parametrize(
    ("path", "params", "message"),
    [
        ("", {"by": "rolout"}, "did you mean 'rollout'"),
        ("", {"by": "patching"}, "unknown attribution 'patching'"),
        ("/map", {"by": "rollout", "layer": "elsewhere"}, "unknown layer"),
        ("/map", {"by": "rollout", "layer": "rollout from encoder", "head": 7}, "head 7"),
    ],
)
def test_what_is_not_there_is_refused(client, path, params, message):
    answer = client.get(trace_of(client) + path, params=params)
    assert answer.status_code == 422
    assert message in answer.text


def test_a_trace_under_edits_is_refused(client):
    edits = [{"kind": "mute", "layer": "decoder.blocks.0.cross_attention", "heads": [0]}]
    answer = client.get(trace_of(client, options={"edits": edits}), params={"by": "rollout"})
    assert answer.status_code == 422
    assert "without edits" in answer.text
