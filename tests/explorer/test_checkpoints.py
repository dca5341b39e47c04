"""Checkpoints as models of their own: RUN@STEP is traced with the weights of that step, and other steps are refused."""

import io

import numpy as np
import pytest
from fastapi.testclient import TestClient
from serving_runs import TEXT, filmed_of

from headwise.explorer.api import add_explorer
from headwise.service.app import create_app
from headwise.service.loaded import load_runs
from headwise.training.loading import checkpoint_steps, load_step

LAYER = "decoder.blocks.0.cross_attention"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return filmed_of(tmp_path_factory.mktemp("kept"))


@pytest.fixture(scope="module")
def client(folder):
    with TestClient(create_app(load_runs([folder]), more=[add_explorer]), base_url="http://127.0.0.1:8000") as found:
        yield found


def test_a_step_is_traced_with_the_weights_of_its_checkpoint(client, folder):
    steps = checkpoint_steps(folder)
    assert client.get("/api/v1/checkpoints", params={"model": "film-run"}).json()["steps"] == steps
    for step in steps:
        traced = client.post("/api/v1/traces", json={"model": f"film-run@{step}", "text": TEXT}).json()
        assert traced["model"] == f"film-run@{step}"
        asked = {"layer": LAYER, "head": 0}
        answer = client.get(f"/api/v1/traces/{traced['trace_id']}/matrix", params=asked)
        shown = np.load(io.BytesIO(answer.content), allow_pickle=False).astype(float)
        exact = load_step(folder, step).explain(TEXT).layers[LAYER].weights[0]
        np.testing.assert_allclose(shown, exact, atol=1e-3)
    # checkpoints are not listed among the runs
    assert [run["name"] for run in client.get("/api/v1/meta").json()["models"]] == ["film-run"]


@pytest.mark.parametrize("name", ["film-run@99", "film-run@", "film-run@x", "other@1"])
def test_a_step_without_a_checkpoint_is_refused(client, name):
    answer = client.post("/api/v1/traces", json={"model": name, "text": TEXT})
    assert answer.status_code == 404
    assert ("keeps no checkpoint" in answer.text) == name.startswith("film-run")
