"""Positions in the explorer: what is drawn equals what the library's schemes do, and needs no run."""

import io
import math
import threading

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from serving_runs import folder_of

from headwise import positions
from headwise.explorer.api import add_explorer
from headwise.explorer.positional import built, similarity, values
from headwise.positions.learned import Learned
from headwise.positions.rotary import Rotary
from headwise.service.app import create_app
from headwise.service.loaded import load_runs


@pytest.fixture(scope="module")
def client():
    with TestClient(create_app({}, more=[add_explorer]), base_url="http://127.0.0.1:8000") as found:
        yield found


def asked(client, **values):
    answer = client.get("/api/v1/positional", params=values)
    assert answer.status_code == 200, answer.text
    return np.load(io.BytesIO(answer.content), allow_pickle=False)


def test_every_scheme_of_the_library_is_listed_and_drawn_or_says_why_not(client):
    told = {one["kind"]: one for one in client.get("/api/v1/positions").json()["positions"]}
    assert set(told) == set(positions.names())
    drawn = {name: one["does"] for name, one in told.items()}
    assert {drawn["sinusoidal"], drawn["learned"], drawn["recurrent"]} == {"vectors"}
    assert {drawn["alibi"], drawn["t5"], drawn["relative_2d"]} == {"scores"}
    assert {drawn["rotary"], drawn["rotary_2d"], drawn["rotary_sections"], drawn["xpos"]} == {"turns"}
    assert {drawn["fire"], drawn["kerple"], drawn["sandwich"]} == {"scores"}
    assert drawn["cope"] is None
    for name, one in told.items():
        if one["does"]:
            shape = asked(client, kind=name, n=9, d=8).shape
            assert shape == ((9, 9) if one["does"] == "scores" else (9, 8))
            assert asked(client, kind=name, n=9, d=8, what="similarity").shape in {(9,), (9, 9)}
        else:
            assert "nothing to draw" in one["why"] or "depends on the input" in one["why"]
            assert client.get("/api/v1/positional", params={"kind": name}).status_code == 422


def test_sinusoids_are_those_of_the_paper_for_any_base(client):
    for base in (100.0, 10_000.0):
        found = asked(client, kind="sinusoidal", n=5, d=6, base=base)
        exact = [
            [(math.sin, math.cos)[j % 2](i / base ** (2 * (j // 2) / 6)) for j in range(6)] for i in range(5)
        ]  # fmt: skip
        np.testing.assert_allclose(found, exact, atol=1e-3)
    alike = asked(client, kind="sinusoidal", n=5, d=6, base=100.0, what="similarity")
    np.testing.assert_allclose(
        alike, [np.mean([math.cos(k / 100 ** (j / 3)) for j in range(3)]) for k in range(5)], atol=1e-3
    )


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_hands_of_rotary_positions_turn_by_position_times_frequency(layout):
    found = values(Rotary(6, 100.0, layout=layout), 4, 6)
    for i in range(4):
        for j in range(3):
            angle = i / 100 ** (j / 3)
            np.testing.assert_allclose(found[i, 2 * j : 2 * j + 2], [math.cos(angle), math.sin(angle)], atol=1e-6)


def test_scores_are_told_of_one_head_and_by_distance_where_that_is_all(client):
    found = asked(client, kind="alibi", n=5, head=1)
    apart = np.abs(np.arange(5)[:, None] - np.arange(5))
    np.testing.assert_allclose(found, -apart / 4, atol=1e-3)
    np.testing.assert_allclose(asked(client, kind="alibi", n=5, head=1, what="similarity"), -np.arange(5) / 4)
    # keys before and after a query have numbers of their own
    assert asked(client, kind="t5", n=5, what="similarity").shape == (5, 5)
    answer = client.get("/api/v1/positional", params={"kind": "alibi", "head": 8})
    assert "heads 0 to 7" in answer.json()["detail"]


def test_shares_of_the_position_of_a_query_are_seen(client):
    found = asked(client, kind="fire", n=16)
    # up to a quarter of the positions only the distance counts
    np.testing.assert_allclose(found[1, 0], found[4, 3], atol=1e-6)
    assert asked(client, kind="fire", n=16, what="similarity").shape == (16, 16)


def test_learned_vectors_differ_by_more_than_distance():
    scheme = built("learned", 5, 6, 10_000.0)
    made = values(scheme, 5, 6)
    np.testing.assert_array_equal(made, values(built("learned", 5, 6, 10_000.0), 5, 6))
    alike = similarity(scheme, made)
    exact = torch.nn.functional.cosine_similarity(scheme.table[:, None], scheme.table[None], dim=-1)
    np.testing.assert_allclose(alike, exact.detach().numpy(), atol=1e-6)


def test_only_the_worker_draws_numbers(client, monkeypatch):
    # there is one generator, and the worker may be sampling
    drawn, seeded = [], torch.manual_seed
    monkeypatch.setattr(torch, "manual_seed", lambda n: (drawn.append(threading.current_thread().name), seeded(n))[1])
    assert client.get("/api/v1/positions").status_code == 200
    assert set(drawn) == {"headwise worker"}


def test_the_random_numbers_of_others_are_left_alone():
    torch.manual_seed(5)
    before = torch.rand(3)
    torch.manual_seed(5)
    built("learned", 5, 6, 10_000.0)
    assert torch.equal(torch.rand(3), before)


def test_positions_of_a_run_are_those_that_it_learned(tmp_path):
    runs = load_runs([folder_of(tmp_path)])
    encoder = runs["run"].predictor.model.encoder
    name, scheme = next((name, one) for name, one in encoder.named_modules() if isinstance(one, positions.Position))
    with TestClient(create_app(runs, more=[add_explorer]), base_url="http://127.0.0.1:8000") as client:
        listed = [one for one in client.get("/api/v1/positions").json()["positions"] if one.get("model") == "run"]
        assert f"encoder.{name}" in [one["kind"] for one in listed]
        assert {one["library"] for one in listed} == {type(scheme).__name__.lower()}
        found = asked(client, kind=f"encoder.{name}", model="run", n=7)
        with torch.no_grad():
            np.testing.assert_allclose(found, scheme.embed(torch.zeros(1, 7, 8), 0)[0], atol=1e-3)
        answer = client.get("/api/v1/positional", params={"kind": "nothing", "model": "run"})
        assert "unknown position of this run" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"kind": "os:path"}, "unknown position"),
        ({"kind": "rotari"}, "did you mean 'rotary'"),
        ({"kind": "rotary", "d": 7}, "even head_dim"),
        ({"kind": "sinusoidal_2d", "n": 10}, "use 9 or 16"),
        ({"kind": "rotary", "n": 513}, "n"),
        ({"kind": "rotary", "base": 0}, "base"),
        ({"kind": "rotary", "base": "inf"}, "base"),
        ({"kind": "rotary", "what": "secrets"}, "what"),
        ({}, "kind"),
    ],
)
def test_what_cannot_be_drawn_is_refused(client, given, says):
    answer = client.get("/api/v1/positional", params=given)
    assert answer.status_code == 422
    assert says in answer.json()["detail"]


def test_a_table_ends_where_it_was_learned():
    with pytest.raises(Exception, match="beyond the learned table"):
        values(Learned(4, 6), 5, 6)
