"""What the explorer's pages ask for: numbers equal to the model's own, in NumPy's format, and refusals by name."""

import io
import json
import logging
import warnings

import numpy as np
import pytest
from fastapi.testclient import TestClient
from serving_runs import TEXT, filler_of, folder_of

from headwise.explain import heads
from headwise.explorer import api, traces
from headwise.explorer.api import add_explorer
from headwise.explorer.explorer import Store
from headwise.explorer.pages import add_pages
from headwise.explorer.traces import Traced, traced
from headwise.explorer.wire import npy
from headwise.service.app import create_app
from headwise.service.loaded import load_runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return load_runs([folder_of(tmp_path_factory.mktemp("explored"))])


@pytest.fixture
def client(runs):
    app = create_app(runs, more=[add_explorer])
    with TestClient(app, base_url="http://127.0.0.1:8000") as found:
        yield found


@pytest.fixture
def told(client):
    answer = client.post("/api/v1/traces", json={"text": TEXT})
    assert answer.status_code == 201, answer.text
    return answer.json()


def part(client, told, name, **asked):
    answer = client.get(f"/api/v1/traces/{told['trace_id']}/{name}", params=asked)
    assert answer.status_code == 200, answer.text
    assert "immutable" in answer.headers["cache-control"]
    if answer.headers["content-type"] == "application/json":
        return answer.json()
    return np.load(io.BytesIO(answer.content), allow_pickle=False)


def test_a_trace_tells_its_groups(told, runs):
    explained = runs["run"].predictor.explain(TEXT)
    assert (told["source"], told["output"]) == (explained.source, explained.output)
    names = [group["name"] for group in told["groups"]]
    assert names == ["encoder self", "decoder self", "decoder cross"]
    cross = told["groups"][2]
    assert (cross["heads"], cross["layers"]) == (2, ["decoder.blocks.0.cross_attention"])
    assert cross["keys"] == explained.layers["decoder.blocks.0.cross_attention"].keys


def test_matrices_rows_and_steps_are_the_weights_of_the_model(client, told, runs):
    explained = runs["run"].predictor.explain(TEXT)
    for group in told["groups"]:
        for layer in group["layers"]:
            exact = explained.layers[layer].weights
            for head in range(group["heads"]):
                found = part(client, told, "matrix", layer=layer, head=head)
                # as many digits as the steps have
                assert found.dtype == np.float32
                np.testing.assert_allclose(found, exact[head], atol=1e-6)
                steps = part(client, told, "steps", layer=layer, head=head)
                (weights,) = [step["values"] for step in steps["steps"] if step["name"] == "weights"]
                np.testing.assert_allclose(np.array(weights), exact[head], atol=1e-6)
        rows = part(client, told, "row", group=group["name"], q=1)
        assert rows.shape == (len(group["layers"]), group["heads"], len(group["keys"]))
        np.testing.assert_allclose(rows[0], explained.layers[group["layers"][0]].weights[:, 1], atol=1e-6)
        columns = part(client, told, "row", group=group["name"], k=0)
        np.testing.assert_allclose(columns[0], explained.layers[group["layers"][0]].weights[:, :, 0], atol=1e-6)


def test_scores_keep_what_is_forbidden_as_minus_infinity(client, told):
    layer = told["groups"][1]["layers"][0]
    masked = part(client, told, "matrix", layer=layer, head=0, stage="masked")
    assert np.isneginf(masked[0, 1:]).all()
    assert np.isfinite(masked[-1]).all()
    scores = part(client, told, "matrix", layer=layer, head=0, stage="scores")
    assert np.isfinite(scores).all()


def test_heads_are_described_and_drawn_small(client, told):
    for group in told["groups"]:
        summary = part(client, told, "summary", group=group["name"])
        weights = part(client, told, "matrix", layer=group["layers"][0], head=1).astype(float)
        found = summary["heads"][0][1]
        # target and source have no positions in common
        assert ("diagonal" in found) == ("previous" in found) == ("distance" in found) == ("cross" not in group["name"])
        assert found["largest"] == pytest.approx(weights.max(-1).mean(), rel=1e-3)
        assert found["first"] == pytest.approx(weights[:, 0].mean(), rel=1e-2)
        small = part(client, told, "thumbs", group=group["name"], size=3)
        assert small.dtype == np.uint8
        assert small.shape[:2] == (len(group["layers"]), group["heads"])
        assert small.max(axis=(2, 3)).min() == 255
        same = part(client, told, "alike", layer=group["layers"][0])
        assert np.diagonal(same).min() == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("nothing/summary?group=x", 404),
        ("ID/summary", 422),
        ("ID/summary?group=x", 422),
        ("ID/matrix?layer=x&head=0", 422),
        ("ID/matrix?layer=decoder.blocks.0.cross_attention&head=2", 422),
        ("ID/matrix?layer=decoder.blocks.0.cross_attention&head=2&stage=scores", 422),
        ("ID/matrix?layer=decoder.blocks.0.cross_attention&head=-1", 422),
        ("ID/matrix?layer=decoder.blocks.0.cross_attention&head=0&stage=secret", 422),
        ("ID/row?group=decoder+cross", 422),
        ("ID/row?group=decoder+cross&q=1&k=1", 422),
        ("ID/row?group=decoder+cross&q=99", 422),
        ("ID/thumbs?group=decoder+cross&size=65", 422),
        ("ID/thumbs?group=decoder+cross&first=7", 422),
        ("ID/nothing", 404),
        ("../../../etc/passwd", 404),
    ],
)
def test_what_is_not_there_is_refused(client, told, path, status):
    answer = client.get(f"/api/v1/traces/{path.replace('ID', told['trace_id'])}")
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert len(answer.json()["detail"]) < 400


def test_what_fails_is_told_without_its_inside(runs, monkeypatch):
    logged = []
    monkeypatch.setattr(logging.getLogger("headwise.service"), "exception", lambda *told: logged.append(told))

    def broken(*_):
        raise RuntimeError("secret")

    with TestClient(create_app(runs, more=[add_explorer]), base_url="http://127.0.0.1:8000") as client:
        name = client.post("/api/v1/traces", json={"text": TEXT}).json()["trace_id"]
        monkeypatch.setattr(Traced, "alike", broken)
        answer = client.get(f"/api/v1/traces/{name}/alike?layer=x")
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert "secret" not in answer.text
    assert answer.json()["detail"].split()[-1] == logged[0][1]


def test_rows_have_the_names_of_what_they_show(tmp_path):
    # its explanation shows the rows of masks alone, a trace shows all
    (run,) = load_runs([filler_of(tmp_path)]).values()
    found = traced(run, "a1 [MASK] c", None)
    (group,) = found.groups
    assert group.queries == group.keys == run.predictor.explain("a1 [MASK] c").layers[group.layers[0]].keys
    for layer in group.layers:
        assert found.weights(layer).shape == (group.heads, len(group.queries), len(group.keys))


def test_the_same_input_is_the_same_trace(client, told):
    assert client.post("/api/v1/traces", json={"text": TEXT}).json()["trace_id"] == told["trace_id"]
    other = client.post("/api/v1/traces", json={"text": TEXT, "target": "b und g ."}).json()
    assert other["trace_id"] != told["trace_id"]
    assert other["output"] == "b und g ."
    assert client.post("/api/v1/traces", json={"text": "a " * 8193}).status_code == 422
    assert client.post("/api/v1/traces", json={"text": ""}).status_code == 422


def test_a_trace_that_is_kept_is_not_made_again(client, monkeypatch):
    made = api.traced

    def warned(*given):
        warnings.warn("a word is not known", stacklevel=1)
        return made(*given)

    monkeypatch.setattr(api, "traced", warned)
    first = client.post("/api/v1/traces", json={"text": "unseen and g ."}).json()
    assert first["warnings"] == ["a word is not known"]
    monkeypatch.setattr(api, "traced", None)
    assert client.post("/api/v1/traces", json={"text": "unseen and g ."}).json() == first


def test_being_traced_changes_no_answer(runs):
    predictor = runs["run"].predictor
    texts = ["a and g .", "b and h .", "zebra ."]
    before = [json.loads(predictor.write(text, predictor.predict([text])[0], "json")[0]) for text in texts]
    for text in texts:
        traced(runs["run"], text, None)
    assert before == [json.loads(predictor.write(text, predictor.predict([text])[0], "json")[0]) for text in texts]


def test_the_store_keeps_within_its_bytes(runs):
    one = traced(runs["run"], "a and g .", None)
    store = Store(int(2.5 * one.bytes))
    for word in "abcdef":
        store.put(traced(runs["run"], f"{word} and g .", None))
    assert len(store) == 2
    assert store.bytes <= 2.5 * one.bytes
    assert store.get(one.id) is None


def test_the_store_keeps_so_many_small_traces(runs):
    found = [traced(runs["run"], f"{word} and g .", None) for word in "abc"]
    store = Store(1 << 40, most=2)
    for one in found:
        store.put(one)
    assert [store.get(one.id) for one in found] == [None, *found[1:]]


def test_stages_and_steps_of_too_many_pairs_are_refused_before_they_are_made(client, told, monkeypatch):
    (layer,) = told["groups"][2]["layers"]
    monkeypatch.setattr(traces, "_MOST_PAIRS", 1)
    for name, asked in (("matrix", {"stage": "masked"}), ("matrix", {}), ("steps", {})):
        answer = client.get(f"/api/v1/traces/{told['trace_id']}/{name}", params={"layer": layer, "head": 0, **asked})
        assert answer.status_code == 422
        assert "too many to be shown at once" in answer.json()["detail"]


def test_numbers_survive_the_wire():
    for values, kind in (
        (np.array([0.0, -np.inf, 65504 / 2]), np.float32),
        (np.resize([0.0, -np.inf, 65504 / 2], 20_000), np.float16),
        (np.resize([1e6, -np.inf], 20_000), np.float32),
        (np.zeros((0, 3)), np.float32),
        (np.arange(4, dtype=np.uint8), np.uint8),
    ):
        found = np.load(io.BytesIO(npy(values)), allow_pickle=False)
        assert found.dtype == kind
        np.testing.assert_allclose(found, values)


def test_thumbnails_lose_no_strong_weight():
    weights = np.zeros((1, 101, 77))
    weights[0, 93, 5] = 1
    small = heads.thumbnails(weights, 32)
    assert small.shape == (1, 32, 32)
    assert small.max() == 255
    assert (small > 0).sum() == 1


def test_scripts_are_sent_packed_to_whoever_takes_them(runs):
    with TestClient(create_app(runs, more=[add_pages]), base_url="http://127.0.0.1:8000") as client:
        plain, packed = (
            client.get("/static/js/app.js", headers={"Accept-Encoding": taken}) for taken in ("identity", "gzip")
        )
        again = client.get("/static/js/app.js", headers={"If-None-Match": plain.headers["ETag"]})
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert int(packed.headers["Content-Length"]) < len(plain.content) / 2
    assert packed.content == plain.content
    assert (again.status_code, again.content) == (304, b"")
