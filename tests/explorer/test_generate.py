"""An output as it is written: the tree of a search, what the model said, where it looked; equal to what predicts."""

import asyncio
import base64
import functools
import json
import logging
import threading

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from serving_runs import TEXT, filler_of, folder_of, small, writer_of

from headwise.decoding.hypotheses import observe_search
from headwise.explorer import generating
from headwise.explorer.api import add_explorer
from headwise.explorer.explorer import Store
from headwise.predictors.drafting import Follower
from headwise.service.app import create_app
from headwise.service.loaded import load_runs
from headwise.service.streaming import streamed
from headwise.service.worker import Expired, Job, Worker

RECURRENT = {"kind": "recurrent", "embed_dim": 8, "hidden_dim": 8, "num_layers": 1}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("written")
    folders = [folder_of(place), filler_of(place), writer_of(place)]
    pairs = {"task": "translate", "data": {"train": str(place / "pairs.tsv")}, "tokenizer": {"kind": "word"}}
    made = {
        "additive": {**pairs, "model": {**RECURRENT, "score": "additive"}, "decoding": {"max_len": 7}},
        "blind": {**pairs, "model": {**RECURRENT, "score": "none"}, "decoding": {"max_len": 7}},
    }
    return load_runs([*folders, *(small(place / name, recipe) for name, recipe in made.items())])


@pytest.fixture(scope="module")
def client(runs):
    with TestClient(create_app(runs, more=[add_explorer]), base_url="http://127.0.0.1:8000") as found:
        yield found


def written(client, model="run", text=TEXT, **asked):
    answer = client.post("/api/v1/generate", json={"model": model, "text": text, **asked})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [next(iter(line)) for line in lines] == ["start", *["step"] * (len(lines) - 2), "end"]
    return lines[0]["start"], [line["step"] for line in lines[1:-1]], lines[-1]["end"]


def path(steps, number):
    """The nodes from the first token to this one."""
    nodes = {beam["id"]: beam for step in steps for beam in step["beams"]}
    found = []
    while number:
        found.insert(0, nodes[number])
        number = nodes[number]["parent"]
    return found


def looks(step):
    told = step["cross"]
    return np.frombuffer(base64.b64decode(told["b64"]), told["dtype"]).reshape(told["shape"]).astype(float)


def rows_of(steps, nodes):
    """Where the model looked as it said each token of a path: (tokens, layers, heads, keys)."""
    places = [
        [one["id"] for one in step["topk"]].index(node["parent"]) for step, node in zip(steps, nodes, strict=False)
    ]
    return [looks(step)[place] for step, place in zip(steps, places, strict=False)]


@pytest.mark.parametrize(
    ("model", "asked", "options"),
    [
        ("run", {}, {}),
        ("run", {"beam": 3}, {"beam_size": 3}),
        ("run", {"beam": 1, "max_new": 4}, {"beam_size": 1, "max_len": 4}),
        ("run", {"method": "greedy"}, {"method": "greedy"}),
        ("additive", {}, {}),
        ("blind", {}, {}),
        ("text", {}, {}),
        ("text", {"beam": 3}, {"beam_size": 3}),
    ],
)
def test_the_best_path_of_the_tree_is_what_is_predicted(client, runs, model, asked, options):
    _, steps, end = written(client, model, **asked)
    predictor = runs[model].predictor
    best = predictor.predict([TEXT], predictor.options(options))[0][0]
    nodes = path(steps, end["hypotheses"][0]["id"])
    tokens = [node["token"] for node in nodes]
    assert tokens in ([*best.tokens, predictor_ids(predictor).eos_id], best.tokens)
    assert nodes[-1]["done"]
    assert (end["output"], end["hypotheses"][0]["score"]) == (best.text, best.score)
    assert nodes[-1]["score"] == best.score
    assert sum(node["logp"] for node in nodes) == pytest.approx(best.log_prob)
    ended = [beam for step in steps for beam in step["beams"] if beam["done"]]
    assert max(beam["score"] for beam in ended) == best.score


def predictor_ids(predictor):
    return predictor.draft(TEXT).tokenizer


@pytest.mark.parametrize("model", ["run", "additive", "text"])
def test_where_a_step_looks_is_what_an_explanation_shows(client, runs, model):
    start, steps, end = written(client, model, beam=3)
    nodes = path(steps, end["hypotheses"][0]["id"])
    rows = rows_of(steps, nodes)
    explained = runs[model].predictor.explain(TEXT, end["output"])
    read = len(start["axes"]["src"])
    for place, layer in enumerate(start["layers"]):
        exact = explained.layers[layer].weights
        for at, row in enumerate(rows):
            # a language model looks from the last token that it has read
            query, keys = (at, read) if start["kind"] == "cross" else (read - 1 + at, read + at)
            np.testing.assert_allclose(row[place], exact[:, query, :keys], atol=1e-3)
    assert start["heads"] == explained.layers[start["layers"][0]].weights.shape[0]


def test_every_kind_of_model_says_what_it_shows(client):
    start, steps, _ = written(client, "blind")
    assert (start["kind"], start["layers"], steps[0]["cross"]) == ("", [], None)
    start, steps, _ = written(client, "text", text="a1")
    assert (start["kind"], start["axes"]["src"][1:]) == ("self", ["a", "1"])
    assert [looks(step).shape for step in steps[:2]] == [(1, 2, 2, 3), (1, 2, 2, 4)]
    answer = client.post("/api/v1/generate", json={"model": "filler", "text": "a1 [MASK]"})
    assert answer.status_code == 422
    assert "does not write token by token" in answer.json()["detail"]


def test_likely_tokens_are_those_of_the_model(client, runs):
    _, steps, _ = written(client, beam=2, top_k=3)
    predictor = runs["run"].predictor
    nodes = {beam["id"]: beam for step in steps for beam in step["beams"]}
    for step in steps[:3]:
        for told in step["topk"]:
            tokens = [node["token"] for node in path(steps, told["id"])]
            rows = predictor._read([TEXT])
            batch = predictor.collated(rows, rows, [0])
            read = torch.tensor([[predictor.target_tokenizer.bos_id, *tokens]])
            with torch.no_grad():
                exact = predictor.model(batch.src, batch.src_lens, read)[0, -1].log_softmax(0)
            values, places = exact.topk(3)
            assert [one["token"] for one in told["tokens"]] == places.tolist()
            assert [one["logp"] for one in told["tokens"]] == pytest.approx(values.tolist(), abs=1e-5)
            # and what a beam gained is what the model said
            for node in nodes.values():
                if node["parent"] == told["id"]:
                    assert node["logp"] == pytest.approx(float(exact[node["token"]]), abs=1e-5)


@pytest.mark.parametrize("model", ["run", "text"])
def test_what_is_forced_begins_every_output(client, runs, model):
    _, steps, before = written(client, model, beam=2)
    tokens = path(steps, before["hypotheses"][0]["id"])
    other = next(
        one["token"] for one in steps[1]["topk"][0]["tokens"] if one["token"] != tokens[1]["token"] and one["token"] > 3
    )
    forced = [tokens[0]["token"], other]
    start, steps, end = written(client, model, beam=2, force=forced)
    assert start["force"] == forced
    nodes = path(steps, end["hypotheses"][0]["id"])
    assert [node["token"] for node in nodes[:2]] == forced
    assert len(steps[0]["beams"]) == 1
    # what else was likely is told of forced steps too
    assert len(steps[0]["topk"][0]["tokens"]) == 8
    predictor = runs[model].predictor
    (best,) = predictor.predict([TEXT], predictor.options({"beam_size": 2, "prefix": forced}))[0]
    assert (best.text, best.score) == (end["output"], end["hypotheses"][0]["score"])


def test_samples_share_what_they_begin_with(client):
    _, steps, end = written(client, method="sample", beam=4)
    assert len(end["hypotheses"]) == 4
    for one in end["hypotheses"]:
        assert [node["token"] for node in path(steps, one["id"])][: len(one["tokens"])] == one["tokens"]
    numbers = [beam["id"] for step in steps for beam in step["beams"]]
    assert len(numbers) == len(set(numbers))


def test_the_end_names_the_trace_of_the_output(client):
    _, _, end = written(client)
    told = client.post("/api/v1/traces", json={"model": "run", "text": TEXT, "target": end["output"]}).json()
    assert told["trace_id"] == end["trace_id"]
    cross = next(group for group in told["groups"] if group["kind"] == "cross")
    assert end["opens"] == cross["opens"], "Translate and Attend open on one head"


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"force": [2]}, "the end of a text"),
        ({"force": [99999]}, "outside the vocabulary"),
        ({"force": [-1]}, "outside the vocabulary"),
        ({"force": "a"}, "force"),
        ({"beam": 17}, "more than 16"),
        ({"beam": 0}, "beam"),
        ({"max_new": 513}, "more than 512"),
        ({"method": "greedy", "beam": 2}, "--method beam"),
        ({"top_k": 51}, "top_k"),
        ({"text": "a " * 8193}, "has 16,386 characters"),
        ({"text": " "}, "empty"),
    ],
)
def test_what_cannot_be_written_is_refused_before_it_begins(client, asked, told):
    answer = client.post("/api/v1/generate", json={"model": "run", "text": TEXT, **asked})
    assert (answer.status_code, told in answer.json()["detail"]) == (422, True), answer.text


def test_no_path_is_taken_from_a_request(client, runs, monkeypatch):
    monkeypatch.setattr(type(runs["run"].predictor), "reads", "file")
    answer = client.post("/api/v1/generate", json={"model": "run", "text": "pairs.tsv"})
    assert (answer.status_code, "reads files" in answer.json()["detail"]) == (422, True)


@pytest.mark.filterwarnings("ignore:the prompt")
def test_warnings_are_caught_by_the_worker_alone(client, runs, monkeypatch):
    # who catches them changes how all threads warn
    threads, draft = [], runs["text"].predictor.draft

    def followed(*given):
        threads.append(threading.current_thread().name)
        return draft(*given)

    monkeypatch.setattr(runs["text"].predictor, "draft", followed)
    start, *_ = written(client, "text", "a1 b1 c and much that is not read")
    assert "only its last" in start["warnings"][0]
    assert threads == ["headwise worker"]


def test_an_answer_that_breaks_ends_with_a_line(client, monkeypatch):
    logged = []
    monkeypatch.setattr(logging.getLogger("headwise.service"), "error", lambda *told, **how: logged.append((told, how)))

    def broken(self, found):
        raise ValueError("an inside")

    monkeypatch.setattr(generating.Telling, "step", broken)
    answer = client.post("/api/v1/generate", json={"model": "run", "text": TEXT})
    last = json.loads(answer.text.splitlines()[-1])
    assert "something went wrong; the log has it under" in last["error"]
    ((_, number), how) = logged[0]
    assert last["error"].rpartition(" ")[2] == number
    assert str(how["exc_info"]) == "an inside"


def test_what_fails_while_it_is_written_is_the_last_line(client):
    answer = client.post("/api/v1/generate", json={"model": "run", "text": TEXT, "force": [5] * 10})
    assert list(json.loads(answer.text.splitlines()[-1])) == ["error"]
    assert "the prefix has 10 tokens, max_len allows 9" in answer.text


def test_many_weights_are_sent_as_means(client, monkeypatch):
    _, steps, end = written(client, "text")
    nodes = path(steps, end["hypotheses"][0]["id"])
    exact = np.array([row.mean((0, 1)) for row in rows_of(steps[:1], nodes)])
    sizes = {1 << 24: ("heads", (2, 2)), 600: ("layers", (2, 1)), 1: ("mean", (1, 1))}
    for most, (kept, shape) in sizes.items():
        monkeypatch.setattr(generating, "_MOST_BYTES", most)
        start, steps, _ = written(client, "text")
        assert start["kept"] == kept
        assert looks(steps[0]).shape[1:3] == shape
        np.testing.assert_allclose(looks(steps[0])[0].mean((0, 1)), exact[0], atol=1e-3)


def test_closing_the_stream_ends_the_search_within_a_step(runs):
    run, worker, gate, steps = runs["text"], Worker(4, 4), threading.Semaphore(0), []

    def work(items, tell):
        def told(found):
            steps.append(found.step)
            tell({"step": found.step})
            gate.acquire()

        with observe_search(told):
            return run.predictor.predict(items)

    async def left():
        jobs = []

        def submit(run, items):
            jobs.append(Job(run, items, None, float("inf")))
            worker.submit(jobs[0])
            return jobs[0]

        lines = streamed(submit, work, ["a1"], lambda answer: {"end": answer})
        assert json.loads(await anext(lines)) == {"step": 0}
        await lines.aclose()
        # the search may go on now, as far as it likes
        gate.release(100)
        return jobs[0]

    job = asyncio.run(left())
    with pytest.raises(Expired):
        job.answer.result(timeout=60)
    assert steps == [0]
    worker.close(60.0)


def test_being_followed_changes_no_search(runs):
    predictor = runs["run"].predictor
    told, before = [], predictor.predict([TEXT])
    with observe_search(told.append):
        assert predictor.predict([TEXT]) == before
    follower = Follower(predictor.draft(TEXT))
    assert follower.look(told[0].before.tokens[:1]).log_probs.shape[0] == 1
    with pytest.raises(ValueError, match="goes on from none"):
        follower.look(np.array([[5, 5]]))
    assert predictor.predict([TEXT]) == before


def test_packed_numbers_are_half_precision():
    told = generating.packed(torch.tensor([[[[0.5, 0.25]]]]))
    assert told == {
        "b64": base64.b64encode(np.array([0.5, 0.25], "<f2").tobytes()).decode(),
        "dtype": "<f2",
        "shape": [1, 1, 1, 2],
    }


def test_the_start_is_told_before_the_search(runs, monkeypatch):
    told, run = [], runs["run"]

    def searched(*_):
        told.append("search")
        raise Expired

    monkeypatch.setattr(run.predictor, "predict", searched)
    ask, draft = generating.AskGenerated(text=TEXT), run.predictor.draft(TEXT)
    read = generating.Read(TEXT, f"text {TEXT}", draft, [])
    work = functools.partial(generating._written, run, Store(1), ask, run.predictor.options({}), read)
    with pytest.raises(Expired):
        work([TEXT], told.extend)
    assert told == ["start", "search"]
