"""A service says what the command line says, alone and among others, with attention and steps on request."""

import asyncio
import gc
import json
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from asking_client import client_of

import headwise
from headwise.decoding.search import DecodingConfig
from headwise.errors import ConfigError
from headwise.records.watching import Watch
from headwise.service.connections import Line
from headwise.service.limits import Limits
from headwise.service.loaded import LoadedRun, load_runs
from headwise.service.responses import line
from headwise.service.streaming import streamed
from headwise.service.worker import Closed, Expired, Full, Job, Worker

TEXTS = ["a and g .", "b and h and c .", "f .", "zebra and g ."]


def said(run, texts, options=None):
    predictor = headwise.load(run)
    chosen = predictor.options(options or {})
    items = [predictor.parse(text) for text in texts]
    found = predictor.predict(items, chosen)
    return [json.loads(predictor.write(*each, "json", chosen)[0]) for each in zip(items, found, strict=True)]


@pytest.mark.parametrize(
    ("verb", "place", "options"),
    [
        ("translate", 0, {}),
        ("translate", 0, {"beam_size": 3, "n_best": 2}),
        ("translate", 0, {"alignments": True}),
        ("classify", 1, {}),
        ("complete", 2, {"max_len": 5}),
        ("predict", 1, {}),
    ],
)
def test_answers_are_those_of_the_command_line(ask, folders, runs, verb, place, options):
    name = folders[place].name
    code, told = ask(verb, texts=TEXTS, model=name, options=options)
    assert (code, told["model"], told["task"]) == (200, name, runs[name].task)
    assert told["outputs"] == said(folders[place], TEXTS, options)


def test_a_model_has_an_address_of_its_own(runs, monkeypatch):
    monkeypatch.setattr(type(runs["mood"].predictor), "verb", "judge")
    with client_of(runs) as client:
        codes = {
            verb: client.post(f"/api/v1/{verb}", json={"texts": ["a"]}).status_code for verb in ("judge", "classify")
        }
        assert codes == {"judge": 200, "classify": 404}
        assert ("mood", "judge") in {(run["name"], run["verb"]) for run in client.get("/api/v1/meta").json()["models"]}


def test_requests_together_are_answered_as_each_alone(runs, folders):
    texts = [f"{a} and {b} ." for a in "abcdef" for b in "ghij"]
    alone = [said(folders[0], [text])[0]["translations"][0]["text"] for text in texts]
    sizes = []
    with client_of(runs) as client:
        with ThreadPoolExecutor(24) as many:
            asked = many.map(lambda text: client.post("/api/v1/translate", json={"texts": [text]}).json(), texts)
            found = [answer["outputs"][0]["translations"][0]["text"] for answer in asked]
        sizes = [line for line in client.get("/metrics").text.splitlines() if "batch_texts_count" in line]
    assert found == alone
    # 24 requests at a time became fewer searches
    assert float(sizes[0].split()[-1]) < len(texts)


def test_attention_and_steps_come_on_request(ask, runs):
    code, told = ask("translate", texts=["a and g ."], attention=True)
    assert code == 200
    (found,) = told["attention"]
    assert set(found["layers"]) == set(runs["german"].predictor.explain("a and g .").layers)
    for layer in found["layers"].values():
        weights = np.array(layer["weights"])
        assert weights.shape[1:] == (len(layer["queries"]), len(layer["keys"]))
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-4)
    code, told = ask("trace", model="mood", text="the film is good")
    assert code == 200
    assert [step["name"] for step in told["steps"]][:2] == ["input", "memory"]
    assert ask("trace", model="mood", text="good", head=7)[0] == 422
    code, told = ask("trace", model="mood", text="good", layer="nowhere")
    assert code == 422
    assert "unknown layer 'nowhere'" in told["detail"]


def test_steps_of_too_many_numbers_are_refused(runs):
    with client_of(runs, shown_bytes=1000) as client:
        answer = client.post("/api/v1/trace", json={"model": "mood", "text": "good"})
    assert answer.status_code == 413
    assert "headwise explain --trace" in answer.json()["hint"]


def test_a_continuation_is_streamed_piece_by_piece(client, folders):
    asked = {"texts": ["abc"], "stream": True, "options": {"max_len": 7}}
    with client.stream("POST", "/api/v1/complete", json=asked) as answer:
        lines = [json.loads(line) for line in answer.iter_lines()]
    whole = said(folders[2], ["abc"], {"max_len": 7})[0]
    assert lines[-1]["output"] == whole
    assert len(lines) > 2
    assert "".join(line["text"] for line in lines[:-1]) == whole["continuations"][0]["text"]


def test_a_stream_is_refused_before_it_begins(client, runs, monkeypatch):
    def full(worker, job):
        raise Full

    asked = {"texts": ["abc"], "stream": True, "model": "text"}
    monkeypatch.setattr(Worker, "submit", full)
    assert client.post("/api/v1/complete", json=asked).status_code == 429
    # what the recipe says counts where the request says nothing
    monkeypatch.setattr(runs["text"].predictor, "decoding", DecodingConfig(method="beam"))
    assert client.post("/api/v1/complete", json=asked).status_code == 422


@pytest.mark.parametrize(
    ("decoding", "options", "alone"),
    [
        (DecodingConfig(method="greedy", max_len=3), {}, False),
        (DecodingConfig(method="greedy", max_len=3), {"top_k": 2}, True),
        (DecodingConfig(method="sample", max_len=3), {}, True),
        (DecodingConfig(method="sample", max_len=3), {"method": "greedy"}, False),
    ],
)
def test_what_is_drawn_is_drawn_alone(ask, runs, monkeypatch, decoding, options, alone):
    keys, submit = [], Worker.submit

    def watched(worker, job):
        keys.append(job.key)
        submit(worker, job)

    monkeypatch.setattr(Worker, "submit", watched)
    monkeypatch.setattr(runs["text"].predictor, "decoding", decoding)
    assert ask("complete", texts=["abc"], model="text", options=options)[0] == 200
    assert [key is None for key in keys] == [alone]


def test_meta_health_and_metrics_tell_of_the_service(client, ask):
    assert ask("classify", texts=["good"])[0] == 200
    meta = client.get("/api/v1/meta").json()
    assert {(run["name"], run["verb"]) for run in meta["models"]} == {
        ("german", "translate"),
        ("mood", "classify"),
        ("text", "complete"),
    }
    assert client.get("/health").json() == {"status": "ok", "waiting": 0}
    assert 'headwise_requests_total{status="200",verb="classify"} 1.0' in client.get("/metrics").text
    schema = client.get("/api/v1/openapi.json").json()
    assert "/api/v1/translate" in schema["paths"]
    # no request names a file or an address to load from
    assert not any(word in json.dumps(schema["paths"]) for word in ('path":', "upload", "pickle", 'url":'))


def test_which_run_is_meant_must_be_clear(ask, runs):
    assert ask("fill", texts=["a"])[0] == 404
    code, told = ask("predict", texts=["a"])
    assert code == 422
    assert told["detail"] == "3 runs can predict: german, mood, text"
    code, told = ask("translate", texts=["a"], model="mood")
    assert (code, told["detail"]) == (422, "mood cannot translate; its task is classify")
    assert ask("translate", texts=["a"], model="../german")[0] == 404


def test_runs_that_cannot_be_served_are_refused(folders, tmp_path):
    with pytest.raises(ConfigError, match="two runs are called german"):
        load_runs([folders[0], folders[0]])
    # which a file system may hold, and no JSON
    with pytest.raises(ConfigError, match=r"run\\udce9 is no name that a request can hold: it is not UTF-8"):
        load_runs([tmp_path / "run\udce9"])


class Slow:
    """Something that waits until it is told to go on."""

    def __init__(self):
        self.begun, self.go = threading.Event(), threading.Event()

    def __call__(self, items):
        self.begun.set()
        self.go.wait(20)
        return list(items)


def job_of(run, items=(1,), key=None, seconds=20.0):
    return Job(run, list(items), key, time.monotonic() + seconds)


def test_a_full_queue_refuses_and_recovers():
    worker, slow = Worker(2, 8), Slow()
    first = job_of(slow)
    worker.submit(first)
    slow.begun.wait(20)
    waiting = [job_of(list), job_of(list)]
    for job in waiting:
        worker.submit(job)
    with pytest.raises(Full):
        worker.submit(job_of(list))
    slow.go.set()
    assert [job.answer.result(20) for job in (first, *waiting)] == [[1]] * 3
    worker.submit(job_of(list))
    worker.close(20.0)
    with pytest.raises(Closed):
        worker.submit(job_of(list))


def test_jobs_of_one_key_are_answered_together_and_in_order():
    sizes, slow = [], Slow()
    worker = Worker(8, 5, sizes.append)
    worker.submit(job_of(slow))
    slow.begun.wait(20)
    jobs = [job_of(list, items, key) for items, key in (([1, 2], "a"), ([3], "b"), ([4, 5], "a"), ([6, 7], "a"))]
    for job in jobs:
        worker.submit(job)
    slow.go.set()
    assert [job.answer.result(20) for job in jobs] == [[1, 2], [3], [4, 5], [6, 7]]
    assert sizes == [1, 4, 1, 2]
    worker.close(20.0)


def test_a_request_that_is_given_up_leaves_its_place_in_the_queue():
    slow, worker = Slow(), Worker(1, 8)
    worker.submit(job_of(slow))
    slow.begun.wait(20)
    left, next_one = job_of(list), job_of(list)
    worker.submit(left)
    with pytest.raises(Full):
        worker.submit(next_one)
    left.give_up()
    worker.submit(next_one)
    slow.go.set()
    assert next_one.answer.result(20) == [1]
    with pytest.raises(Expired):
        left.answer.result(20)
    worker.close(20.0)


def test_a_stream_that_nobody_begins_to_read_is_given_up():
    async def left():
        jobs = []
        lines = streamed(lambda run, items: jobs.append(job_of(run, items)) or jobs[0], lambda *_: [1], [1], dict)
        assert not jobs[0].given_up.is_set()
        del lines
        gc.collect()
        return jobs[0]

    assert asyncio.run(left()).given_up.is_set()


def test_what_stands_in_line_lets_others_through():
    done = []

    async def crowd():
        line = Line()
        for number in range(50):
            line.add(lambda number=number: done.append(number))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        done.append("health")
        while len(done) < 51:
            await asyncio.sleep(0)

    asyncio.run(crowd())
    assert done.index("health") < 10
    done.remove("health")
    assert done == list(range(50))


def test_one_bad_request_does_not_spoil_those_beside_it():
    def run(items):
        if 2 in items:
            raise ConfigError("two")
        return list(items)

    slow, worker = Slow(), Worker(8, 8)
    worker.submit(job_of(slow))
    slow.begun.wait(20)
    jobs = [job_of(run, [number], "same") for number in (1, 2, 3)]
    for job in jobs:
        worker.submit(job)
    slow.go.set()
    assert jobs[0].answer.result(20) == [1]
    assert jobs[2].answer.result(20) == [3]
    with pytest.raises(ConfigError, match="two"):
        jobs[1].answer.result(20)
    worker.close(20.0)


def test_a_search_ends_between_steps_when_nobody_waits(runs):
    run: LoadedRun = runs["text"]
    worker = Worker(8, 8)
    options = run.predictor.options({"max_len": 100_000})
    job = Job(lambda items: run.answers(items, options), ["abc"], None, time.monotonic() + 600)
    worker.submit(job)
    time.sleep(0.05)
    job.give_up()
    with pytest.raises(Expired):
        job.answer.result(60)
    after = job_of(list)
    worker.submit(after)
    assert after.answer.result(20) == [1]
    worker.close(20.0)


@pytest.mark.parametrize("left", [False, True], ids=["late", "left"])
def test_looking_ends_between_two_layers_when_nobody_waits(runs, monkeypatch, left):
    """Every kind of looking: traces, weights, heads."""
    run: LoadedRun = runs["german"]
    seen, after = [], Watch._after

    def slow(watch, *given):
        seen.append(1)
        job.give_up() if left else setattr(job, "deadline", 0.0)
        return after(watch, *given)

    monkeypatch.setattr(Watch, "_after", slow)
    worker = Worker(8, 8)
    for work in (run.attention, lambda text: run.steps(text, None, None, 0)):
        seen.clear()
        job = job_of(lambda items, work=work: [work(items[0])], ["a and g ."])
        worker.submit(job)
        with pytest.raises(Expired):
            job.answer.result(20)
        # of the model's three layers, the second was not reached
        assert len(seen) == 1
    worker.close(20.0)


def test_answers_without_a_search_end_between_two_batches(runs, monkeypatch):
    run: LoadedRun = runs["mood"]
    worker, batches = Worker(8, 4096), []
    job = job_of(lambda items: run.answers(items, None), ["the film is good"] * 2000)
    forward = type(run.predictor.model).forward

    def left(model, *given):
        batches.append(1)
        job.give_up()
        return forward(model, *given)

    monkeypatch.setattr(type(run.predictor.model), "forward", left)
    worker.submit(job)
    with pytest.raises(Expired):
        job.answer.result(20)
    assert len(batches) == 1
    worker.close(20.0)


def test_what_is_not_done_when_the_worker_closes_is_given_up(runs):
    run: LoadedRun = runs["text"]
    worker = Worker(8, 8)
    options = run.predictor.options({"max_len": 100_000})
    job = Job(lambda items: run.answers(items, options), ["abc"], None, time.monotonic() + 600)
    worker.submit(job)
    worker.close(0.05)
    with pytest.raises(Expired):
        job.answer.result(60)


def test_a_request_beyond_its_deadline_is_answered(runs):
    with client_of(runs, deadline_s=0.3, max_len=100_000, work=1_000_000) as client:
        asked = {"texts": ["abc"], "options": {"max_len": 90_000}, "model": "text"}
        answer = client.post("/api/v1/complete", json=asked)
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        assert client.post("/api/v1/complete", json={**asked, "options": {"max_len": 3}}).status_code == 200


def test_what_a_model_raises_is_told_without_its_inside(runs, monkeypatch):
    logged = []
    monkeypatch.setattr(logging.getLogger("headwise.service"), "exception", lambda *told: logged.append(told))

    def broken(items, options):
        raise RuntimeError("secret /root/path")

    monkeypatch.setattr(runs["mood"].predictor, "predict", broken)
    with client_of({"mood": runs["mood"]}) as client:
        answer = client.post("/api/v1/classify", json={"texts": ["a"]})
        assert answer.status_code == 500
        assert "secret" not in answer.text
        assert answer.json()["detail"].split()[-1] == logged[0][1]
        assert client.get("/health").status_code == 200


def test_numbers_that_json_has_not_are_null(ask, runs, monkeypatch):
    broken = {"score": float("nan"), "others": [1.0, float("-inf")]}
    monkeypatch.setattr(type(runs["mood"]), "written", lambda self, item, output, options: broken)
    status, told = ask("classify", texts=["the film is good 1"])
    assert (status, told["outputs"]) == (200, [{"score": None, "others": [1.0, None]}])
    assert json.loads(line(broken)) == {"score": None, "others": [1.0, None]}


def test_limits_can_be_set():
    assert Limits(queue=3).queue == 3
