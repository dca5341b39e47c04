"""Heads of long inputs over HTTP: blocks, exact rows, what is refused by name and what is kept."""

import io

import numpy as np
import pytest
from fastapi.testclient import TestClient
from serving_runs import long_of, words_of

import headwise
from headwise.explain.pooling import Whole, block_for, pooled
from headwise.explorer import long_maps
from headwise.explorer.long_maps import Largest, Maps
from headwise.explorer.serving import LIMITS, explorer_app
from headwise.predictors import looking
from headwise.service.loaded import load_runs

TEXT = words_of(898)
LAYER = "decoder.blocks.1.self_attention"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return load_runs([long_of(tmp_path_factory.mktemp("long"))])


@pytest.fixture(scope="module")
def client(runs):
    with TestClient(explorer_app(runs), base_url="http://127.0.0.1:8000") as opened:
        yield opened


@pytest.fixture(scope="module")
def trace(client):
    answer = client.post("/api/v1/traces", json={"text": TEXT})
    assert answer.status_code == 201, answer.text
    return answer.json()


@pytest.fixture(scope="module")
def exact(runs):
    """All weights of the layer at once."""
    return runs["long"].predictor.explain(TEXT).layers[LAYER].weights


def asked(client, trace, name, **values):
    return client.get(f"/api/v1/traces/{trace['trace_id']}/{name}", params={"layer": LAYER, "head": 1, **values})


def cells(client, trace, name, **values):
    answer = asked(client, trace, name, **values)
    assert answer.status_code == 200, answer.text
    assert "immutable" in answer.headers["cache-control"]
    return np.load(io.BytesIO(answer.content), allow_pickle=False)


def test_a_group_says_whether_it_is_long(client, trace):
    assert [(group["long"], len(group["queries"])) for group in trace["groups"]] == [(True, 900)]
    short = client.post("/api/v1/traces", json={"text": words_of(30)}).json()
    assert [group["long"] for group in short["groups"]] == [False]


@pytest.mark.parametrize("block", [1, 2, 4])
def test_tiles_are_blocks_of_the_weights_of_the_model(client, trace, exact, block):
    whole = pooled(Whole(exact, np.tri(900, dtype=bool)[None]), 1, block)
    for how, expected in (("max", whole.maxima), ("mean", whole.means)):
        count = -(-len(expected) // 512)
        rows = [
            np.concatenate(
                [cells(client, trace, "tile", block=block, how=how, down=q, across=k) for k in range(count)], 1
            )
            for q in range(count)
        ]
        made = np.concatenate(rows)
        assert made.dtype == np.float32
        np.testing.assert_allclose(made, expected, rtol=0, atol=1e-6)


def test_any_row_is_exact(client, trace, exact):
    expected = np.where(np.tri(900, dtype=bool), exact[1], -np.inf)
    np.testing.assert_allclose(cells(client, trace, "rows", q=0), expected[:1], rtol=0, atol=1e-6)
    np.testing.assert_allclose(cells(client, trace, "rows", q=800, count=100), expected[800:], rtol=0, atol=1e-6)
    np.testing.assert_allclose(cells(client, trace, "rows", q=899, count=100), expected[899:], rtol=0, atol=1e-6)


def test_a_map_begins_with_what_all_of_it_needs(client, trace, exact):
    told = asked(client, trace, "overview").json()
    whole = pooled(Whole(exact, None), 1, 2)
    assert (told["block"], told["side"], told["hidden"]) == (2, 512, True)
    np.testing.assert_allclose(told["tops"]["mean"], whole.tops, atol=1e-6)
    assert told["tops"]["max"] == pytest.approx(1)
    # blocks of two: the later half begins with row 450
    assert told["tops"]["later"] == pytest.approx(exact[1, 450:].max(), abs=1e-6)
    # the first token is special, and a row of one key has no choice
    choosing = exact[1, 1:, 1:]
    query, key = np.unravel_index(choosing.argmax(), choosing.shape)
    assert told["largest"] == {"q": query + 1, "k": key + 1, "weight": pytest.approx(choosing.max(), abs=1e-6)}


def test_small_pictures_are_of_the_largest_weights(client, trace, exact):
    from headwise.explain.heads import thumbnails

    picture = cells(client, trace, "thumb", size=32)
    expected = thumbnails(pooled(Whole(exact, None), 1, 2).maxima[None], 32)[0]
    assert picture.dtype == np.uint8
    np.testing.assert_allclose(picture.astype(int), expected.astype(int), atol=1)


@pytest.mark.parametrize(
    ("name", "values", "told"),
    [
        ("tile", {"block": 3}, "block must be a power of two, not 3"),
        ("tile", {"block": 2, "down": 1}, "a map of blocks of 2 has 1 x 1 tiles, from 0"),
        ("tile", {"head": 9}, "has heads 0 to 1, not 9"),
        ("tile", {"how": "sum"}, "how"),
        ("rows", {"q": 900}, "q: 900 is beyond the last, 899"),
        ("overview", {"layer": "other"}, "unknown layer 'other'"),
        ("attribution", {"by": "norms"}, "900 x 900 pairs, too many to be attributed to; give a shorter input"),
    ],
)
def test_what_is_not_there_is_refused(client, trace, name, values, told):
    answer = asked(client, trace, name, **values)
    assert answer.status_code == 422
    assert told in answer.text


def test_more_tokens_than_are_shown_are_refused(client):
    answer = client.post("/api/v1/traces", json={"text": words_of(LIMITS.shown_tokens + 1)})
    assert answer.status_code == 422
    assert "has 8,193 tokens; attention is shown of at most 8,192" in answer.text
    # all weights at once are returned of fewer
    answer = client.post("/api/v1/complete", json={"texts": [words_of(513)], "attention": True})
    assert answer.status_code == 422
    assert "has 513 tokens; attention is shown of at most 512" in answer.text


def test_a_trace_that_memory_should_not_hold_is_refused(client, monkeypatch):
    monkeypatch.setattr(looking, "MOST_KEPT", 100_000)
    answer = client.post("/api/v1/traces", json={"text": words_of(700)})
    assert answer.status_code == 422
    assert "would keep more than 100,000 bytes of queries, keys and values; give a shorter input" in answer.text


def test_edits_before_a_layer_have_rows_on_demand_and_others_are_refused(client, trace, runs):
    hide = {"kind": "hide", "group": trace["groups"][0]["name"], "tokens": [7]}
    told = client.post("/api/v1/traces", json={"text": TEXT, "options": {"edits": [hide]}}).json()
    row = cells(client, told, "rows", q=20)
    assert row[0, 7] == -np.inf
    assert row[0, :7].sum() + row[0, 8:21].sum() == pytest.approx(1, abs=1e-5)
    mute = {"kind": "mute", "layer": LAYER, "heads": [0]}
    told = client.post("/api/v1/traces", json={"text": TEXT, "options": {"edits": [mute]}}).json()
    answer = asked(client, told, "overview")
    assert answer.status_code == 422
    assert f"{LAYER}: Mute changes all weights of a layer at once" in answer.text


def test_a_mechanism_that_makes_all_weights_at_once_is_refused_by_name(client, trace):
    swap = {"kind": "swap", "layer": LAYER, "mechanism": "linear"}
    told = client.post("/api/v1/traces", json={"text": TEXT, "options": {"edits": [swap]}}).json()
    answer = asked(client, told, "overview")
    assert answer.status_code == 422
    assert f"{LAYER}: Linear makes the weights of all rows at once, so a long input is not shown" in answer.text
    # of another layer it is
    assert asked(client, told, "overview", layer=LAYER.replace("1", "0")).status_code == 200


def test_another_normalizer_has_rows_on_demand(client, trace):
    swap = {"kind": "swap", "layer": LAYER, "mechanism": "scored", "normalizer": "sparsemax"}
    told = client.post("/api/v1/traces", json={"text": TEXT, "options": {"edits": [swap]}}).json()
    row = cells(client, told, "rows", q=500)[0]
    assert row[:501].sum() == pytest.approx(1, abs=1e-5)
    assert 0 < (row[:501] > 0).sum() < 501


def test_maps_are_kept_within_a_number_of_bytes(monkeypatch):
    weights = Whole(np.random.default_rng(0).random((3, 600, 600), np.float32))
    maps, made = Maps(limit=600_000), []
    monkeypatch.setattr(long_maps, "pooled", lambda *given, **how: made.append(given[1]) or pooled(*given, **how))
    for head in (0, 1, 2, 2):
        maps.overview("layer", weights, head, ([], []))
    # a map of 300 x 300 means and maxima has 720,000 bytes or more, so only the latest stays
    assert made == [0, 1, 2]
    maps.overview("layer", weights, 0, ([], []))
    assert made == [0, 1, 2, 0]
    assert maps.nbytes < 1_200_000
    assert block_for(600, 600) == 2


@pytest.mark.parametrize("length", [1, 2, 9])
def test_the_largest_weight_is_found_strip_by_strip(length):
    values = np.random.default_rng(length).random((length, length)) * np.tri(length)
    allowed = np.tri(length, dtype=bool)
    seen = Largest((length, length), ([length - 1], [0]))
    for low in range(0, length, 2):
        seen.see(low, values[low : low + 2].copy(), allowed[low : low + 2])
    query, key, weight = seen.cell
    rows = [q for q in range(1, length) if q != length - 1 or length == 1] or list(range(length))
    columns = range(1, length) if length > 1 else range(1)
    best = max(((values[q, k], q, k) for q in rows for k in columns), key=lambda cell: cell[0])
    assert (weight, query, key) == best


def test_a_model_of_transformers_is_shown_of_a_long_input(monkeypatch):
    transformers = pytest.importorskip("transformers")
    from adopted_models import tokenizer

    from headwise.service.loaded import adopted_run

    monkeypatch.setattr(long_maps, "LONG", 100)
    words = tokenizer()
    sizes = {"vocab_size": len(words), "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 64}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)).eval()
    run = adopted_run(model, words)
    try:
        with TestClient(explorer_app({run.name: run}), base_url="http://127.0.0.1:8000") as client:
            told = client.post("/api/v1/traces", json={"text": "the cat the cat the cat"}).json()
            group = told["groups"][0]
            assert group["long"]
            (layer,) = group["layers"]
            whole = run.predictor.explain("the cat the cat the cat").layers[layer].weights
            row = cells(client, told, "rows", layer=layer, q=5)[0]
            np.testing.assert_allclose(row[:6], whole[1, 5, :6], atol=1e-6)
            tile = cells(client, told, "tile", layer=layer, block=2)
            np.testing.assert_allclose(tile[2, 0], whole[1, 4:6, :2].max(), atol=1e-6)
    finally:
        headwise.adoption.release(model)
