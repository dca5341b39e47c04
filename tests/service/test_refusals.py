"""What a service refuses, with a status below 500 and a document that says why; and the headers of every answer."""

import json

import pytest
from asking_client import client_of

JSON = {"Content-Type": "application/json"}
BODIES = {
    b"": 400,
    b"{": 400,
    b"\xff\xfe": 400,
    b"\xef\xbb\xbf{}": 400,
    b"null": 422,
    b"[]": 422,
    b"{}": 422,
    b'{"texts": [NaN]}': 400,
    b'{"texts": [Infinity]}': 400,
    b'{"texts": [1e400]}': 422,
    b'{"texts": ["\\ud800"]}': 400,
    b'{"texts": ["a"], "texts": ["b"]}': 400,
    b'{"texts": "a"}': 422,
    b'{"texts": []}': 422,
    b'{"texts": [""], "more": 1}': 422,
    b'{"texts": ["a"], "options": {"beam_size": true}}': 422,
    b'{"texts": ["a"], "options": {"beam_size": 1.5}}': 422,
    b'{"texts": ["a"], "options": {"beam_size": 0}}': 422,
    b'{"texts": ["a"], "options": {"beam_size": -1}}': 422,
    b'{"texts": ["a"], "options": {"beam_size": 1000000000}}': 422,
    b'{"texts": ["a"], "options": {"max_len": 1000000000}}': 422,
    b'{"texts": ["a"], "options": {"n_best": 17}}': 422,
    b'{"texts": ["a"], "options": {"temperature": 1e400}}': 422,
    b'{"texts": ["a"], "options": {"method": "beam", "top_k": 3}}': 422,
    b'{"texts": ["a"], "options": {"stop": "x"}}': 422,
    b'{"texts": ["a"], "stream": true}': 422,
    b'{"texts": ["a"], "stream": 1}': 422,
    b'{"texts": ["a"], "model": "x/../y"}': 404,
    b'{"texts": ["a"], "model": 7}': 422,
    b"[" * 5000 + b"]" * 5000: 400,
    b"[" * 500_000: 400,
    b'{"texts": [[[[[[[[[[["a"]]]]]]]]]]]}': 400,
    b"9" * 5000: 400,
    json.dumps({"texts": ["a"] * 65}).encode(): 422,
    json.dumps({"texts": ["a" * 4097]}).encode(): 422,
    json.dumps({"texts": ["a"] * 9, "attention": True}).encode(): 422,
    json.dumps({"texts": ["a " * 513], "attention": True}).encode(): 422,
    json.dumps({"texts": ["a"] * 60, "options": {"beam_size": 16, "max_len": 500}}).encode(): 422,
}


@pytest.mark.parametrize(("body", "status"), BODIES.items(), ids=range(len(BODIES)))
def test_wrong_bodies_are_refused_and_not_repeated(client, runs, monkeypatch, body, status):
    monkeypatch.setattr(type(runs["german"].predictor), "predict", lambda *_: pytest.fail("the model was asked"))
    answer = client.post("/api/v1/translate", content=body, headers=JSON)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told["status"] == status
    assert len(answer.content) < 1000
    assert told["detail"]


def test_a_large_body_is_refused_before_it_is_read(client):
    for content in (b"x" * (1 << 21), (b"x" * 65536 for _ in range(40))):
        answer = client.post("/api/v1/translate", content=content, headers=JSON)
        assert (answer.status_code, answer.headers["connection"]) == (413, "close")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({}, 415),
        ({**JSON, "Origin": "https://evil.example"}, 403),
        ({**JSON, "Origin": "null"}, 403),
        ({**JSON, "Origin": "http://127.0.0.1:9"}, 403),
        ({**JSON, "Sec-Fetch-Site": "cross-site"}, 403),
        ({**JSON, "Sec-Fetch-Site": "same-site"}, 403),
        ({**JSON, "X": "y" * 40_000}, 431),
        ({**JSON, **{f"X-{n}": "y" for n in range(120)}}, 431),
        ({**JSON, "Origin": "http://127.0.0.1:8000", "Sec-Fetch-Site": "same-origin"}, 200),
    ],
)
def test_who_asks_and_how_is_looked_at(client, headers, status):
    answer = client.post("/api/v1/classify", content=b'{"texts": ["good"]}', headers=headers)
    assert answer.status_code == status
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:8000", 200),
        ("localhost:1", 200),
        ("LOCALHOST", 200),
        ("[::1]", 200),
        ("[::1]:80", 200),
        ("evil.example", 400),
        ("127.0.0.1.evil.example", 400),
        ("evil.example:8000", 400),
        ("localhost.", 400),
        ("127.0.0.1:8000@evil", 400),
        ("127.0.0.1:x", 400),
        ("localhost:80:80", 400),
        ("", 400),
        ("[::1", 400),
        ("[::1]x", 400),
        ("[::ffff:127.0.0.1]", 400),
        ("0.0.0.0", 400),
        ("127.0.0.2", 400),
        ("2130706433", 400),
        ("127.0.0.1, evil", 400),
        (" 127.0.0.1", 400),
        ("127。0。0。1".encode(), 400),
    ],
)
def test_only_its_own_names_are_answered(client, host, status):
    assert client.get("/health", headers={"Host": host}).status_code == status


@pytest.mark.parametrize(
    "path",
    [
        "/../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/..%5c..%5cetc",
        "//etc/passwd",
        "/api/v1/../../etc/passwd",
        "/api/v1/translate%00",
        "/api/v1/translate/",
        "/api/v1//translate",
        "/~root",
        "/" + "a" * 4000,
        "/docs",
        "/redoc",
        "/openapi.json",
        "/api/v1/\u202e",
    ],
)
def test_other_addresses_are_not_there(client, path):
    assert client.get(path).status_code == 404


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "HEAD", "BREW"])
def test_other_methods_are_refused(client, method):
    assert client.request(method, "/api/v1/translate").status_code == 405


def test_every_answer_has_the_headers_that_keep_a_browser_safe(client, ask):
    answers = [client.get("/health"), client.get("/nowhere"), client.post("/api/v1/classify"), client.get("/metrics")]
    answers.append(client.get("/health", headers={"Host": "evil"}))
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "server" not in answer.headers


def test_markup_comes_back_as_json_that_no_browser_reads_as_markup(ask, client):
    payload = "<img src=x onerror=alert(1)>\u2028\u202e"
    answer = client.post("/api/v1/classify", json={"texts": [payload]})
    assert answer.headers["content-type"] == "application/json"
    assert "\u2028".encode() not in answer.content
    assert answer.json()["outputs"][0]["text"].startswith("<img src=x onerror=alert(1)>")


def test_what_the_recipe_asks_for_counts_as_work_too(runs):
    # of the run: beams of 5, and 9 tokens at most
    with client_of(runs, work=100) as client:
        assert client.post("/api/v1/translate", json={"texts": ["a"] * 3}).status_code == 422
        assert client.post("/api/v1/translate", json={"texts": ["a"] * 2}).status_code == 200
        assert client.post("/api/v1/classify", json={"texts": ["a"] * 60}).status_code == 200


def test_limits_are_those_that_were_set(runs):
    with client_of(runs, chars=3, texts=1) as client:
        assert client.post("/api/v1/classify", json={"texts": ["good"]}).status_code == 422
        assert client.post("/api/v1/classify", json={"texts": ["a", "b"]}).status_code == 422
        assert client.post("/api/v1/classify", json={"texts": ["bad"]}).status_code == 200


def test_what_is_looked_at_is_counted_in_tokens_not_in_characters(ask, runs):
    long = "zebra-and-more " * 40
    assert len(long) > 500
    status, told = ask("translate", texts=[long], attention=True)
    assert (status, len(told["attention"][0]["layers"])) == (200, 3)
    assert ask("trace", text=long, model="german")[0] == 200
    # of characters, each of which is a token here
    status, told = ask("trace", text="a" * 513, model="text")
    assert (status, told["detail"]) == (422, "texts.0: has 513 tokens; attention is shown of at most 512")
    with client_of(runs, whole_tokens=30) as client:
        answer = client.post("/api/v1/translate", json={"texts": ["a", long], "attention": True})
        assert answer.json()["detail"] == "texts.1: has 40 tokens; attention is shown of at most 30"
