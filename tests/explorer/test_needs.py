"""How alike heads are and what each alone does: a copy is the same head; effects are those of muting by hand."""

import asyncio
import io
import json

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from serving_runs import TEXT, filler_of, folder_of

from headwise.cancellation import cancelled_by
from headwise.explorer import needs
from headwise.explorer.api import add_explorer
from headwise.predictors.ablating import ablated, examples
from headwise.predictors.looking import passes
from headwise.records import Mute, edit
from headwise.service.app import Service, create_app
from headwise.service.limits import Limits
from headwise.service.loaded import load_runs
from headwise.service.worker import Expired

CROSS = "decoder.blocks.0.cross_attention"
TEXTS = [TEXT, "c and k ."]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    found = load_runs([folder_of(tmp_path_factory.mktemp("needed"))])
    own = found["run"].predictor.model.get_submodule("encoder.blocks.0.self_attention")
    with torch.no_grad():
        # the second head is a copy of the first: queries, keys and values, 4 columns each
        for start in range(0, own.projection.weight.shape[0], 8):
            own.projection.weight[start + 4 : start + 8] = own.projection.weight[start : start + 4]
            if own.projection.bias is not None:
                own.projection.bias[start + 4 : start + 8] = own.projection.bias[start : start + 4]
    return found


@pytest.fixture
def client(runs):
    with TestClient(create_app(runs, more=[add_explorer]), base_url="http://127.0.0.1:8000") as found:
        yield found


def test_a_copied_head_is_the_same_and_others_are_not(client):
    told = client.post("/api/v1/traces", json={"text": TEXT}).json()
    answer = client.get(f"/api/v1/traces/{told['trace_id']}/similar", params={"group": "encoder self"})
    found = np.load(io.BytesIO(answer.content), allow_pickle=False)
    assert found.shape == (4, 4)
    assert found[0, 1] == found[1, 0] == 1
    np.testing.assert_array_equal(np.diagonal(found), 1)
    others = [found[one, two] for one, two in ((0, 2), (0, 3), (2, 3))]
    assert max(others) < 0.9999
    assert client.get(f"/api/v1/traces/{told['trace_id']}/similar?group=x").status_code == 422


def shares(weights):
    """Rows as shares of their sums."""
    return weights / weights.sum(-1, keepdims=True)


def test_over_several_inputs_each_row_counts_once(client, runs):
    texts = [TEXT, "b and h and c and k .", "c and g ."]
    ids = [client.post("/api/v1/traces", json={"text": text}).json()["trace_id"] for text in texts]
    asked = {"group": "encoder self", "beside": ids[1:]}
    answer = client.get(f"/api/v1/traces/{ids[0]}/similar", params=asked)
    found = np.load(io.BytesIO(answer.content), allow_pickle=False)
    explained = [runs["run"].predictor.explain(text).layers for text in texts]
    exact = np.zeros((4, 4))
    for one in range(4):
        for two in range(4):
            distances = []
            for layers in explained:
                heads = [shares(w) for n in range(2) for w in layers[f"encoder.blocks.{n}.self_attention"].weights]
                for p, q in zip(heads[one], heads[two], strict=True):
                    middle = (p + q) / 2
                    apart = (p * np.log2(p / middle) + q * np.log2(q / middle)).sum() / 2
                    distances.append(np.sqrt(max(0.0, apart)))
            exact[one, two] = 1 - np.mean(distances)
    np.testing.assert_allclose(found, exact, atol=1e-3)
    alone = client.get(f"/api/v1/traces/{ids[0]}/similar", params={"group": "encoder self"})
    assert alone.content != answer.content


def test_heads_of_another_run_are_not_compared(client, runs, tmp_path):
    both = {**runs, **load_runs([filler_of(tmp_path)])}
    with TestClient(create_app(both, more=[add_explorer]), base_url="http://127.0.0.1:8000") as other:
        one = other.post("/api/v1/traces", json={"model": "run", "text": TEXT}).json()["trace_id"]
        two = other.post("/api/v1/traces", json={"model": "filler", "text": "a1 [MASK] c"}).json()["trace_id"]
        answer = other.get(f"/api/v1/traces/{one}/similar", params={"group": "encoder self", "beside": [two]})
        assert (answer.status_code, answer.json()["hint"]) == (422, "give traces of one model, edited alike")
        edits = [{"kind": "mute", "layer": "encoder.blocks.0.self_attention", "heads": [0]}]
        muted = other.post("/api/v1/traces", json={"model": "run", "text": TEXT, "options": {"edits": edits}}).json()
        asked = {"group": "encoder self", "beside": [muted["trace_id"]]}
        assert other.get(f"/api/v1/traces/{one}/similar", params=asked).status_code == 422
        told = other.post("/api/v1/traces", json={"model": "run", "text": TEXTS[1], "options": {"edits": edits}}).json()
        alike = other.get(f"/api/v1/traces/{told['trace_id']}/similar", params=asked)
        assert alike.status_code == 200
        # the head that is muted is like no other
        assert np.load(io.BytesIO(alike.content))[0, 1] < 0.9


def test_too_many_heads_are_refused(client, monkeypatch):
    monkeypatch.setattr(needs, "_MOST_COMPARED", 10)
    told = client.post("/api/v1/traces", json={"text": TEXT}).json()
    answer = client.get(f"/api/v1/traces/{told['trace_id']}/similar", params={"group": "encoder self"})
    assert answer.status_code == 413
    assert "layer=NAME" in answer.json()["hint"]
    assert {group["compared"] for group in told["groups"]} == {""}


def test_heads_of_one_layer_are_compared_where_all_are_too_many(client, monkeypatch):
    told = client.post("/api/v1/traces", json={"text": TEXT}).json()
    at = f"/api/v1/traces/{told['trace_id']}/similar"
    group = next(group for group in told["groups"] if group["name"] == "encoder self")
    assert (group["compared"], group["whole"]) == ("group", True)
    every = np.load(io.BytesIO(client.get(at, params={"group": "encoder self"}).content))
    # two heads a layer, of two layers
    pairs = len(group["queries"]) * len(group["keys"])
    monkeypatch.setattr(needs, "_MOST_COMPARED", 2 * 2 * pairs)
    again = client.post("/api/v1/traces", json={"text": TEXT}).json()
    assert {group["name"]: group["compared"] for group in again["groups"]}["encoder self"] == "layer"
    assert client.get(at, params={"group": "encoder self"}).status_code == 413
    asked = {"group": "encoder self", "layer": group["layers"][1]}
    alone = np.load(io.BytesIO(client.get(at, params=asked).content))
    np.testing.assert_allclose(alone, every[2:, 2:], atol=1e-6)
    answer = client.get(at, params=asked | {"layer": "encoder.blocks.0.self_attentio"})
    assert answer.status_code == 422
    assert "did you mean 'encoder.blocks.0.self_attention'" in answer.json()["detail"]


def test_each_head_is_muted_alone(client, runs):
    answer = client.post("/api/v1/ablations", json={"texts": TEXTS})
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert lines[0]["heads"] == 8
    assert lines[-1] == {"done": True}
    found = {(line["layer"], line["head"]): line for line in lines[1:-1]}
    assert len(found) == 8
    predictor = runs["run"].predictor
    changes = []
    for text in TEXTS:
        with passes() as made:
            predictor.explain(text)
        seen = made[-1].model_pass
        before = seen.run().log_softmax(-1)[0].double()
        with edit(seen.model, Mute(CROSS, 1)):
            after = seen.run().log_softmax(-1)[0].double()
        written = [*seen.inputs[-1][0, 1:].tolist(), int(before[-1].argmax())]
        changes.append(sum(float(after[row, token] - before[row, token]) for row, token in enumerate(written)))
    assert found[CROSS, 1]["log_prob"] == pytest.approx(np.mean(changes), abs=1e-5)
    assert found[CROSS, 1]["divergence"] > 0


def test_no_path_is_taken_from_a_request(client, runs, monkeypatch):
    # of a run that reads files a text would be the path of one
    monkeypatch.setattr(type(runs["run"].predictor), "reads", "file")
    answer = client.post("/api/v1/ablations", json={"texts": [TEXT]})
    assert answer.status_code == 422
    assert "no path is taken from a request" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"texts": []}, 422),
        ({"texts": ["a"] * 9}, 422),
        ({"texts": ["a " * 513]}, 422),
        ({"texts": [""]}, 422),
        ({}, 422),
    ],
)
def test_what_cannot_be_ablated_is_refused(client, asked, status):
    answer = client.post("/api/v1/ablations", json=asked)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


def test_nobody_waits_any_more_ends_the_work(runs):
    run, left = runs["run"], []

    def over():
        if left:
            raise Expired

    work = ablated(run.predictor, examples(run.predictor, [TEXT]), CROSS, 2)
    with cancelled_by(over):
        assert next(work).head == 0
        left.append(1)
        with pytest.raises(Expired):
            next(work)


def test_a_reader_who_leaves_takes_the_rest_of_the_work_along(runs, monkeypatch):
    async def read():
        service = Service(runs, Limits())
        jobs, submit = [], service.worker.submit
        monkeypatch.setattr(service.worker, "submit", lambda job: (jobs.append(job), submit(job)))
        given = examples(runs["run"].predictor, [TEXT])
        lines = needs._lines(service, runs["run"], given, {CROSS: 2, "encoder.blocks.0.self_attention": 2})
        first = [json.loads(await anext(lines)) for _ in range(2)]
        await lines.aclose()
        service.worker.close(5.0)
        return first, jobs

    (start, one), jobs = asyncio.run(read())
    assert start["heads"] == 4
    assert one["head"] == 0
    # the second layer was never begun
    assert len(jobs) == 1
    assert jobs[0].given_up.is_set()


def test_work_that_is_given_up_stops_at_the_next_head(runs):
    given, told = examples(runs["run"].predictor, [TEXT]), []

    def over():
        told.append(1)
        raise Expired

    with cancelled_by(over), pytest.raises(Expired):
        needs._muted(runs["run"], given, CROSS, 2, None)
    assert len(told) == 1
