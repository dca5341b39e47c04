"""Traces under edits: what is asked for is what the library does; the unedited trace stays what it was."""

import io
import json

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from serving_runs import TEXT, folder_of

from headwise.attention.mechanisms.scored import Scored
from headwise.explorer.api import add_explorer
from headwise.predictors.looking import passes
from headwise.records import Force, Hide, Mute, Swap, edit, record
from headwise.service.app import create_app
from headwise.service.loaded import load_runs

ENCODER, CROSS = "encoder.blocks.0.self_attention", "decoder.blocks.0.cross_attention"
OWN = "decoder.blocks.0.self_attention"
MUTE = {"kind": "mute", "layer": CROSS, "heads": [1]}
FORCE = {"kind": "force", "layer": CROSS, "head": 0, "query": 1, "key": 2, "weight": 0.75}
HIDE = {"kind": "hide", "group": "decoder cross", "tokens": [1]}
NARROW = {"kind": "narrow", "layer": ENCODER, "mask": "window", "width": 1}
SWAP = {"kind": "swap", "layer": ENCODER, "normalizer": "sparsemax"}
LINEAR = {"kind": "swap", "layer": ENCODER, "mechanism": "linear"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return load_runs([folder_of(tmp_path_factory.mktemp("edited"))])


@pytest.fixture
def client(runs):
    with TestClient(create_app(runs, more=[add_explorer]), base_url="http://127.0.0.1:8000") as found:
        yield found


def traced(client, *edits, status=201):
    answer = client.post("/api/v1/traces", json={"text": TEXT, "options": {"edits": list(edits)}})
    assert answer.status_code == status, answer.text
    return answer.json()


def matrix(client, told, layer, head):
    answer = client.get(f"/api/v1/traces/{told['trace_id']}/matrix", params={"layer": layer, "head": head})
    assert "immutable" in answer.headers["cache-control"]
    return np.load(io.BytesIO(answer.content), allow_pickle=False).astype(float)


def seen_of(runs):
    predictor = runs["run"].predictor
    with passes() as made:
        predictor.explain(TEXT)
    return made[-1].model_pass


LIBRARY = [
    (MUTE, [Mute(CROSS, [1])]),
    (FORCE, [Force(CROSS, 0, 1, 2, 0.75)]),
    (HIDE, [Hide(name, [1]) for name in (ENCODER, "encoder.blocks.1.self_attention", CROSS)]),
    (SWAP, [Swap(ENCODER, lambda: Scored(normalizer="sparsemax"))]),
]


@pytest.mark.parametrize(("asked", "edits"), LIBRARY, ids=["mute", "force", "hide", "swap"])
def test_a_trace_under_an_edit_is_the_library_s(client, runs, asked, edits):
    told, seen = traced(client, asked), seen_of(runs)
    before = seen.run().log_softmax(-1)[0].double()
    with edit(seen.model, *edits), record(seen.model) as trace:
        after = seen.run().log_softmax(-1)[0].double()
    for layer in (ENCODER, CROSS, OWN):
        for head in range(2):
            exact = trace[layer].weights(head)[0, 0].numpy().astype(np.float32)
            np.testing.assert_array_equal(matrix(client, told, layer, head), exact)
    change = told["change"]
    written = [*seen.inputs[-1][0, 1:].tolist(), int(before[-1].argmax())]
    for place, (one, two, choice) in zip(change["places"], zip(before, after, written, strict=True), strict=True):
        assert place["before"] == pytest.approx(float(one[choice]), abs=1e-5)
        assert place["after"] == pytest.approx(float(two[choice]), abs=1e-5)
        divergence = sum(float(p.exp() * (p - q)) for p, q in zip(one, two, strict=True))
        assert place["divergence"] == pytest.approx(divergence, abs=1e-5)
    drop = sum(place["after"] - place["before"] for place in change["places"])
    assert change["effect"]["log_prob"] == pytest.approx(drop)
    assert drop != 0


def test_the_unedited_run_stays_bit_identical(client, runs):
    predictor, seen = runs["run"].predictor, seen_of(runs)
    logits, answer, plain = seen.run(), predictor.predict([TEXT])[0], traced(client)
    numbers = {layer: matrix(client, plain, layer, 0) for layer in (ENCODER, CROSS, OWN)}
    keys = list(seen.model.state_dict())
    told = traced(client, MUTE, FORCE, HIDE, NARROW, SWAP)
    assert told["trace_id"] != plain["trace_id"] == told["change"]["unedited"]
    assert torch.equal(seen.run(), logits)
    again = predictor.predict([TEXT])[0]
    assert [(one.tokens, one.log_prob) for one in again] == [(one.tokens, one.log_prob) for one in answer]
    assert list(seen.model.state_dict()) == keys
    assert traced(client) == plain
    for layer, found in numbers.items():
        np.testing.assert_array_equal(matrix(client, plain, layer, 0), found)


def test_the_same_edits_are_the_same_trace_and_their_order_counts(client):
    one, two = traced(client, MUTE, FORCE), traced(client, FORCE, MUTE)
    assert traced(client, MUTE, FORCE) == one
    assert one["trace_id"] != two["trace_id"]
    assert traced(client)["change"] is None


def test_a_new_answer_is_looked_for_where_that_means_something(client, runs):
    answer = traced(client, MUTE)["change"]["answer"]
    predictor = runs["run"].predictor
    assert answer["before"] == predictor.predict([TEXT])[0][0].text
    with edit(predictor.model, Mute(CROSS, [1])):
        assert answer["after"] == predictor.predict([TEXT])[0][0].text
    # a place of this output is none of another one
    assert traced(client, FORCE)["change"]["answer"] is None
    assert traced(client, {"kind": "hide", "group": "decoder self", "tokens": [1]})["change"]["answer"] is None
    # hypotheses of a search lie side by side, where masks by place and states mean something else
    for asked in ({**NARROW, "layer": OWN}, {**LINEAR, "layer": OWN}, {**LINEAR, "layer": CROSS}):
        assert traced(client, asked)["change"]["answer"] is None
    for asked in (HIDE, NARROW, LINEAR, {**SWAP, "layer": OWN}):
        assert traced(client, asked)["change"]["answer"] is not None


def test_steps_tell_what_was_changed(client):
    told = traced(client, FORCE)
    answer = client.get(f"/api/v1/traces/{told['trace_id']}/steps", params={"layer": CROSS, "head": 0})
    (changed,) = [step for step in answer.json()["steps"] if step["name"] == "changed weights"]
    assert changed["values"][1][2] == pytest.approx(0.75)
    told = traced(client, LINEAR)
    answer = client.get(f"/api/v1/traces/{told['trace_id']}/steps", params={"layer": ENCODER, "head": 0})
    assert answer.status_code == 200


def test_an_edit_that_changes_nothing_says_so(client):
    same = {"kind": "swap", "layer": ENCODER, "normalizer": "softmax"}
    change = traced(client, same)["change"]
    assert change["effect"] == {"divergence": 0.0, "log_prob": 0.0}
    assert change["answer"]["before"] == change["answer"]["after"]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({**MUTE, "layer": "x"}, "unknown layer 'x'"),
        ({**MUTE, "layer": "*"}, "unknown layer '*'"),
        ({**MUTE, "heads": [2]}, "heads 0 to 1, not 2"),
        ({**MUTE, "heads": [-1]}, "greater than or equal to 0"),
        ({**MUTE, "heads": []}, "at least 1 item"),
        ({**FORCE, "query": 99}, "99 is none of them"),
        ({**FORCE, "key": 99}, "99 is none of them"),
        ({**FORCE, "weight": 1.5}, "less than or equal to 1"),
        ({**HIDE, "tokens": [99]}, "not 99"),
        ({**HIDE, "group": "x"}, "unknown group"),
        ({**NARROW, "mask": "padding"}, "'causal' or 'window'"),
        ({**SWAP, "normalizer": "softmox"}, "did you mean 'softmax'"),
        ({**SWAP, "score": "additive"}, "has parameters"),
        ({**LINEAR, "mechanism": "linformer"}, "untrained parameters"),
        # a request names no module of the server's
        ({**LINEAR, "mechanism": "os:system"}, "unknown mechanism"),
        ({**LINEAR, "score": "dot"}, "has its own"),
        ({"kind": "explode"}, "'mute', 'force', 'hide', 'narrow', 'swap'"),
        ({**MUTE, "more": 1}, "Extra inputs"),
    ],
    ids=str,
)
def test_what_cannot_be_edited_is_refused(client, asked, told):
    found = traced(client, asked, status=422)
    assert told in found["detail"]
    assert traced(client)["change"] is None


def test_edits_are_bounded(client):
    assert "at most 16" in traced(client, *[MUTE] * 17, status=422)["detail"]
    assert json.dumps(traced(client, *[MUTE] * 16)["change"])
