"""The film of a training over HTTP: numbers equal to those of its frames, immutable, and refusals by name."""

import io
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from serving_runs import filler_of, filmed_of

from headwise.errors import ConfigError
from headwise.explain import heads
from headwise.explain.reel import Reel
from headwise.explorer.films import add_films
from headwise.service.app import create_app
from headwise.service.loaded import load_runs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return filmed_of(tmp_path_factory.mktemp("filmed"))


@pytest.fixture(scope="module")
def client(folder):
    with TestClient(create_app(load_runs([folder]), more=[add_films]), base_url="http://127.0.0.1:8000") as found:
        yield found


@pytest.fixture(scope="module")
def told(client):
    answer = client.get("/api/v1/films/film-run")
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    return answer.json()


def part(client, told, name, **asked):
    answer = client.get(f"/api/v1/films/{told['film_id']}/{name}", params=asked)
    assert answer.status_code == 200, answer.text
    assert "immutable" in answer.headers["cache-control"]
    return answer.json() if name == "axes" else np.load(io.BytesIO(answer.content), allow_pickle=False)


def test_a_film_tells_what_it_has(client, told, folder):
    reel = Reel(folder)
    assert client.get("/api/v1/films").json() == {"models": ["film-run"]}
    assert (told["film_id"], told["steps"]) == (reel.identity, [0, 1, 2, 3])
    assert [one["name"] for one in told["layers"]] == list(reel.layers)
    assert told["layers"][0]["name"].startswith("encoder.")
    assert all(one["opens"] in range(len(told["probes"])) for one in told["layers"])
    assert told["probes"][0] == {"source": "a and g .", "target": "g und a .", "output": "g und a ."}


def test_positions_are_compared_within_one_sequence_alone(client, told):
    (cross,) = (one["name"] for one in told["layers"] if "cross" in one["name"])
    for layer in (one["name"] for one in told["layers"]):
        found = part(client, told, "curves", layer=layer)
        named = dict(zip(told["statistics"], np.isfinite(found).all(axis=(0, 2)).tolist(), strict=True))
        assert named == {name: layer != cross or name not in ("distance", "diagonal") for name in named}


def test_parts_are_those_of_the_frames(client, told, folder):
    reel = Reel(folder)
    for layer in reel.layers:
        for step in reel.steps:
            exact = reel.weights(step, 0, layer)
            asked = {"step": step, "probe": 0, "layer": layer}
            found = part(client, told, "matrix", **asked, head=1)
            allowed = np.broadcast_to(reel.allowed(step, 0, layer), exact.shape)[1]
            np.testing.assert_allclose(found, np.where(allowed, exact[1], -np.inf), atol=1e-6)
            # a softmax gives nothing to what is forbidden, and something to the rest
            np.testing.assert_array_equal(allowed, exact[1] > 0)
            assert allowed.all() == ("decoder" not in layer or "cross" in layer)
            np.testing.assert_array_equal(part(client, told, "thumbs", **asked, size=4), heads.thumbnails(exact, 4))
            axes = part(client, told, "axes", **asked)
            assert (len(axes["queries"]), len(axes["keys"])) == exact.shape[1:]
        curves = part(client, told, "curves", layer=layer)
        np.testing.assert_allclose(curves, reel.curves(layer), atol=2e-3)
        np.testing.assert_allclose(part(client, told, "agreement", layer=layer), reel.agreement(layer), atol=2e-3)


def test_agreement_counts_the_rows_that_look_as_at_the_end(folder):
    reel = Reel(folder)
    last = reel.steps[-1]
    for layer, count in reel.layers.items():
        agreement = reel.agreement(layer)
        for at, step in enumerate(reel.steps):
            for head in range(count):
                same = [
                    now.argmax() == end.argmax()
                    for probe in range(2)
                    for q, (now, end) in enumerate(
                        zip(reel.weights(step, probe, layer)[head], reel.weights(last, probe, layer)[head], strict=True)
                    )
                    if reel.allowed(last, probe, layer)[0, q].sum() > 1
                ]
                assert agreement[at, head] == pytest.approx(sum(same) / len(same))
        np.testing.assert_array_equal(agreement[-1], 1)
    with pytest.raises(ConfigError, match="unknown layer 'x'"):
        reel.agreement("x")


@pytest.mark.parametrize(
    ("path", "status", "detail"),
    [
        ("nobody", 404, "no such model"),
        ("0123/curves?layer=x", 404, "not known any more"),
        ("ID/curves?layer=x", 422, "unknown layer 'x'"),
        ("ID/curves", 422, "layer"),
        ("ID/agreement?layer=x", 422, "unknown layer 'x'"),
        ("ID/matrix?step=9&probe=0&layer=LAYER&head=0", 422, "step 9 has no frame"),
        ("ID/matrix?step=0&probe=7&layer=LAYER&head=0", 422, "probe 7 is not there"),
        ("ID/matrix?step=0&probe=0&layer=LAYER&head=2", 422, "heads 0 to 1, not 2"),
        ("ID/matrix?step=-1&probe=0&layer=LAYER&head=0", 422, "step"),
        ("ID/thumbs?step=0&probe=0&layer=x", 422, "unknown layer"),
        ("ID/nothing", 404, "nothing at this address"),
    ],
)
def test_what_is_not_there_is_refused(client, told, path, status, detail):
    name = path.replace("ID", told["film_id"]).replace("LAYER", told["layers"][0]["name"])
    answer = client.get(f"/api/v1/films/{name}")
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert detail in answer.json()["detail"]


def test_a_run_without_a_film_says_how_to_get_one(tmp_path):
    with TestClient(
        create_app(load_runs([filler_of(tmp_path)]), more=[add_films]), base_url="http://127.0.0.1:8000"
    ) as client:
        assert client.get("/api/v1/films").json() == {"models": []}
        answer = client.get("/api/v1/films/filler")
        assert (answer.status_code, answer.json()["hint"]) == (
            404,
            "train with film.every=50 for a frame every 50 steps",
        )


def test_a_film_that_is_damaged_is_named(client, told, folder):
    frame = Path(folder) / "film" / "step-00000001.safetensors"
    whole = frame.read_bytes()
    frame.write_bytes(whole[:-1])
    try:
        fresh = create_app(load_runs([folder]), more=[add_films])
        with TestClient(fresh, base_url="http://127.0.0.1:8000") as other:
            layer = other.get("/api/v1/films/film-run").json()["layers"][0]["name"]
            answer = other.get(f"/api/v1/films/{told['film_id']}/curves?layer={layer}")
            assert answer.status_code == 422
            assert "step-00000001.safetensors: damaged" in answer.json()["detail"]
    finally:
        frame.write_bytes(whole)
