"""What is written about pictures and sounds, step by step; the tokens of a vocabulary that begin with a text."""

import base64
import io
import json

import numpy as np
import pytest
from fastapi.testclient import TestClient
from serving_runs import TEXT, folder_of, task_run

from headwise.explorer.api import add_explorer
from headwise.predictors.predictor import Predictor
from headwise.service.app import create_app
from headwise.service.loaded import load_runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("captioned")
    folders = {name: place / name.partition(",")[0] for name in ("caption", "transcribe, a decoder with attention")}
    made = []
    for name, folder in folders.items():
        folder.mkdir()
        made.append(task_run(folder, name))
    folder = place / "translator"
    folder.mkdir()
    return load_runs([*made, folder_of(folder)], files=True)


@pytest.fixture(scope="module")
def client(runs):
    with TestClient(create_app(runs, more=[add_explorer]), base_url="http://127.0.0.1:8000") as found:
        yield found


def written(client, model, **asked):
    answer = client.post("/api/v1/generate", json={"model": model, "example": 0, **asked})
    assert answer.status_code == 200, answer.text
    lines = [json.loads(line) for line in answer.text.splitlines()]
    return lines[0]["start"], [line["step"] for line in lines[1:-1]], lines[-1]["end"]


def numbers(told):
    return np.frombuffer(base64.b64decode(told["b64"]), told["dtype"]).reshape(told["shape"])


SPEECH = "transcribe-a-decoder-with-attention"


@pytest.mark.parametrize("model", ["caption", SPEECH])
def test_a_step_looks_where_the_explanation_does(client, runs, model):
    start, steps, end = written(client, model)
    predictor = runs[model].predictor
    told = client.post("/api/v1/traces", json={"model": model, "example": 0}).json()
    assert told["output"] == end["output"]
    assert told["trace_id"] != end["trace_id"], "one was made to give what the other gave"
    layers = {one["name"]: one for one in told["groups"]}
    assert start["axes"]["src"] == layers["decoder cross"]["keys"]
    assert start["kind"] == "cross"
    assert start["layers"] == layers["decoder cross"]["layers"]
    path = f"/api/v1/traces/{told['trace_id']}/row"
    looks = [numbers(step["cross"])[0].astype(float) for step in steps]
    rows = [client.get(path, params={"group": "decoder cross", "q": at}) for at in range(len(steps))]
    exact = [np.load(io.BytesIO(row.content)).astype(float) for row in rows]
    # by greedy search there is one hypothesis
    np.testing.assert_allclose(looks, exact, atol=2e-3)
    assert predictor.writes().decode(end["hypotheses"][0]["tokens"]) == end["output"]


def test_a_picture_is_told_with_its_places(client):
    start, *_ = written(client, "caption")
    name = client.post("/api/v1/traces", json={"model": "caption", "example": 0}).json()["trace_id"]
    image = client.get(f"/api/v1/traces/{name}/image")
    np.testing.assert_array_equal(numbers(start["image"]["pixels"]), np.load(io.BytesIO(image.content)))
    rows, columns = start["axis"]["grid"]
    assert start["axis"]["kind"] == "patches"
    assert len(start["axes"]["src"]) == rows * columns
    start, *_ = written(client, SPEECH)
    assert "image" not in start
    assert start["axes"]["src"][0].endswith(" s")


@pytest.mark.parametrize("model", ["caption", SPEECH])
def test_what_is_forced_begins_it(client, runs, model):
    _, steps, end = written(client, model)
    first = end["hypotheses"][0]["tokens"][:1]
    ids = runs[model].predictor.writes()
    other = next(token for token in range(4, ids.vocab_size) if [token] != first)
    _, steps, end = written(client, model, force=[other])
    assert end["hypotheses"][0]["tokens"][0] == other
    assert [beam["token"] for beam in steps[0]["beams"]] == [other]
    refused = client.post("/api/v1/generate", json={"model": model, "example": 0, "force": [ids.vocab_size]})
    assert (refused.status_code, "outside the vocabulary" in refused.json()["detail"]) == (422, True)


@pytest.mark.parametrize(
    ("asked", "told"),
    [({"text": "a path"}, "no path is taken"), ({}, "one of text, example and file"), ({"example": 999}, "no example")],
)
def test_what_is_no_input_is_refused(client, asked, told):
    answer = client.post("/api/v1/generate", json={"model": "caption", **asked})
    assert answer.status_code in (404, 422)
    assert told in answer.json()["detail"]


def test_tokens_that_begin_so(client, runs):
    def found(begins, **more):
        answer = client.get("/api/v1/tokens", params={"model": "run", "begins": begins, **more})
        assert answer.status_code == 200
        return answer.json()

    ids = runs["run"].predictor.writes()
    assert found("und")["exact"] == ids.encode("und")
    told = found("un")
    assert (told["exact"], told["tokens"]) == ([], [{"token": ids.encode("und")[0], "text": "und"}])
    assert found("unheard of") == {"model": "run", "exact": [], "tokens": [], "count": 0}
    # what nothing that is written holds
    assert found("<")["count"] == 0
    every = [ids.shown(token) for token in range(4, ids.vocab_size)]
    wanted = every[0][0]
    one = found(wanted, most=1)
    assert one["count"] == sum(text.startswith(wanted) for text in every)
    assert len(one["tokens"]) == 1
    assert client.get("/api/v1/tokens", params={"model": "run", "begins": ""}).status_code == 422


def test_a_run_that_writes_nothing_has_no_tokens_to_force(client, runs, monkeypatch):
    monkeypatch.setattr(type(runs["run"].predictor), "writes", Predictor.writes)
    answer = client.get("/api/v1/tokens", params={"model": "run", "begins": "a"})
    assert (answer.status_code, "no token can be forced" in answer.json()["detail"]) == (422, True)
    monkeypatch.setattr(type(runs["run"].predictor), "draft", Predictor.draft)
    answer = client.post("/api/v1/generate", json={"model": "run", "text": TEXT})
    assert (answer.status_code, "does not write token by token" in answer.json()["detail"]) == (422, True)


def test_layers_are_named_by_what_they_attend_to(tmp_path):
    # places of the future are shown beside those of the past, but all are of one sequence
    runs = load_runs([task_run(tmp_path, "forecast, step by step")], files=True)
    with TestClient(create_app(runs, more=[add_explorer]), base_url="http://127.0.0.1:8000") as client:
        told = client.post("/api/v1/traces", json={"example": 0}).json()
    assert [(one["name"], one["kind"]) for one in told["groups"]] == [("decoder self", "self")]
