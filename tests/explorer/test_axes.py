"""What pages are told of rows and columns, and the spectrogram beside times."""

import io

import numpy as np
import pytest
from fastapi.testclient import TestClient
from serving_runs import TEXT, filler_of, folder_of, task_run, writer_of

from headwise.explain.places import Tokens
from headwise.explorer.api import add_explorer
from headwise.explorer.traces import Group, axes_of
from headwise.service.app import create_app
from headwise.service.loaded import load_runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("axes")
    return load_runs(
        [folder_of(place), writer_of(place), filler_of(place), task_run(place, "speech-classify")], files=True
    )


@pytest.fixture(scope="module")
def client(runs):
    with TestClient(create_app(runs, more=[add_explorer]), base_url="http://127.0.0.1:8000") as found:
        yield found


def traced(client, **asked):
    answer = client.post("/api/v1/traces", json=asked)
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_tokens_know_their_words_and_which_are_special(client):
    told = traced(client, model="run", text=TEXT)
    groups = {group["name"]: group for group in told["groups"]}
    keys = told["axes"]["decoder cross"]["keys"]
    assert keys["special"] == [groups["decoder cross"]["keys"].index("<eos>")]
    assert keys["words"] == [0, 1, 2, 3, -1]
    assert told["axes"]["decoder self"]["queries"]["special"] == [0]
    characters = traced(client, model="text", text="a1 b1")["axes"]["decoder self"]["keys"]
    # a word, a space that is a part of none, a word
    assert characters["words"][:5] in ([0, 0, -1, 1, 1], [-1, 0, 0, -1, 1])


def test_masks_are_special(client):
    told = traced(client, model="filler", text="a1 [MASK] c")
    (group,) = told["groups"]
    assert told["axes"][group["name"]]["keys"]["special"] == [group["keys"].index("[MASK]")]


def test_labels_that_nobody_knows_are_tokens():
    group = Group("g", "self", ["a"], 1, ["x", "y"], ["x", "z"], False)
    found = axes_of([group], [Tokens(["x", "z"], [0, 0], [])])["g"]
    assert found == {"queries": {"kind": "tokens"}, "keys": {"kind": "tokens", "words": [0, 0], "special": []}}


def test_times_lie_below_their_spectrogram(client):
    told = traced(client, model="speech-classify", example=0)
    assert told["places"]["kind"] == "sound"
    names = {group["name"]: group for group in told["groups"]}
    assert told["axes"]["encoder self"] == {"queries": {"kind": "frames"}, "keys": {"kind": "frames"}}
    assert told["axes"]["pooling pooled"]["queries"]["kind"] == "tokens"
    assert names["encoder self"]["keys"][0] == "0.00 s"
    answer = client.get(f"/api/v1/traces/{told['trace_id']}/sound")
    found = np.load(io.BytesIO(answer.content), allow_pickle=False)
    assert found.dtype == np.uint8
    assert (found.min(), found.max(), found.shape[0]) == (0, 255, 6)


def test_a_text_has_no_spectrogram(client):
    told = traced(client, model="run", text=TEXT)
    answer = client.get(f"/api/v1/traces/{told['trace_id']}/sound")
    assert (answer.status_code, "no recordings" in answer.text) == (422, True)


def test_rollout_is_of_self_attention_alone(client):
    told = traced(client, model="run", text=TEXT)
    at = f"/api/v1/traces/{told['trace_id']}/rollout"
    found = np.load(io.BytesIO(client.get(at, params={"group": "encoder self"}).content), allow_pickle=False)
    np.testing.assert_allclose(found.astype(float).sum(-1), 1, atol=2e-3)
    refused = client.get(at, params={"group": "decoder cross"})
    assert (refused.status_code, "decoder cross has none" in refused.text) == (422, True)
