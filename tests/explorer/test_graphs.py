"""Graphs in the explorer: which nodes are drawn, where, and that the weights of edges are those of the model."""

import io
from types import SimpleNamespace

import numpy as np
import pytest
from fastapi.testclient import TestClient
from serving_runs import task_run

from headwise.explain.ramps import PALETTE
from headwise.explorer import traces
from headwise.explorer.api import add_explorer
from headwise.explorer.inputs import title_of
from headwise.explorer.layout import layout
from headwise.service.app import create_app
from headwise.service.loaded import load_runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    names = ("node-classify", "graph-regress")
    return load_runs([task_run(tmp_path_factory.mktemp("graphs"), name) for name in names], files=True)


@pytest.fixture
def client(runs):
    with TestClient(create_app(runs, more=[add_explorer]), base_url="http://127.0.0.1:8000") as found:
        yield found


def traced(client, **asked):
    answer = client.post("/api/v1/traces", json=asked)
    assert answer.status_code == 201, answer.text
    return answer.json()


def part(client, told, name, **asked):
    answer = client.get(f"/api/v1/traces/{told['trace_id']}/{name}", params=asked)
    assert answer.status_code == 200, answer.text
    if answer.headers["content-type"] == "application/json":
        return answer.json()
    return np.load(io.BytesIO(answer.content), allow_pickle=False)


def test_edges_have_the_weights_of_the_whole_graph(client, runs):
    told = traced(client, model="node-classify", text="n5")
    graph = runs["node-classify"].predictor.graph
    assert told["places"] == {"kind": "graph", "nodes": 24, "chosen": 5}
    for group in told["groups"]:
        asked = {"group": group["name"], "hops": 2}
        drawn = part(client, told, "graph", **asked)
        assert drawn["nodes"][0]["name"] == "n5"
        assert {one["name"] for one in drawn["nodes"] if one["hop"] == 1} == {"n1", "n3", "n7", "n9"}
        assert {one["name"] for one in drawn["nodes"] if one["hop"] == 2} == {"n21", "n23", "n11", "n13"}
        known = {(int(query), int(key)) for key, query in graph.edges.T} | {(node, node) for node in range(24)}
        places = [one["place"] for one in drawn["nodes"]]
        pairs = [(places[q], places[k]) for q, k in drawn["pairs"]]
        assert set(pairs) == {(q, k) for q, k in known if q in places and k in places}
        edges, spread = part(client, told, "edges", **asked), part(client, told, "spread", **asked)
        for number, layer in enumerate(group["layers"]):
            for head in range(group["heads"]):
                whole = part(client, told, "matrix", layer=layer, head=head).astype(float)
                np.testing.assert_allclose(edges[number, head], [whole[pair] for pair in pairs], atol=2e-3)
                rows = [[w for w in whole[place] if w > 0] for place in places]
                exact = [-sum(w * np.log(w) for w in row) for row in rows]
                np.testing.assert_allclose(spread[number, head], exact, atol=2e-2)
                assert [one["heard"] for one in drawn["nodes"]] == [len(row) for row in rows]


@pytest.mark.parametrize(("model", "text"), [("node-classify", "n5"), ("graph-regress", "CCNCCO")])
def test_a_graph_opens_on_the_head_that_chooses_most(client, model, text):
    told = traced(client, model=model, text=text)
    group = next(one for one in told["groups"] if one["opens"])
    excess = []
    for head in range(group["heads"]):
        whole = part(client, told, "matrix", layer=group["layers"][0], head=head).astype(float)
        rows = range(len(whole)) if told["places"]["chosen"] is None else [told["places"]["chosen"]]
        others = [max(w for k, w in enumerate(whole[q]) if k != q) - 1 / sum(w > 0 for w in whole[q]) for q in rows]
        excess.append(sum(others) / len(others))
    assert group["opens"][0] == 0
    assert excess[group["opens"][1]] == pytest.approx(max(excess), abs=1e-3)


def test_the_number_of_a_molecule_is_called_as_in_its_data(client, runs):
    column = runs["graph-regress"].predictor.data.target_column
    assert traced(client, model="graph-regress", text="CCO")["places"]["quantity"] == column
    rings = {text: runs["graph-regress"].predictor.parse(text) for text in ("CCCCCC", "C1CCCCC1", "C1CNCCC1Cl")}
    shown = [runs["graph-regress"].predictor.variety(item) for item in rings.values()]
    assert shown == [0, 1, 3]


def test_pages_and_figures_give_a_class_the_same_colour(client, runs):
    told = traced(client, model="node-classify", text="n5")
    drawn = part(client, told, "graph", group=told["groups"][0]["name"], hops=3)
    predictor = runs["node-classify"].predictor
    assert drawn["kinds"] == [[one, colour] for one, colour in zip(predictor.labels, PALETTE, strict=False)
                              if one in {node["kind"] for node in drawn["nodes"]}]  # fmt: skip
    (legend,) = predictor.explain("n5").page().legends
    found = [(text.get_text(), mark.get_color()) for text, mark in zip(legend.texts, legend.get_lines(), strict=True)]
    assert set(found) <= {tuple(one) for one in drawn["kinds"]}


def test_the_nearest_nodes_are_kept_and_the_others_counted(client):
    told = traced(client, model="node-classify", text="n5")
    asked = {"group": told["groups"][0]["name"], "hops": 3, "most": 4}
    drawn = part(client, told, "graph", **asked)
    assert [one["hop"] for one in drawn["nodes"]] == [0, 1, 1, 1]
    assert (drawn["left"], drawn["total"]) == (8, 24)
    other = part(client, told, "graph", group=asked["group"], around=8)
    assert other["nodes"][0]["name"] == "n8"
    # the same nodes at the same places in every layer
    again = part(client, told, "graph", **asked | {"group": told["groups"][-1]["name"]})
    assert again["nodes"] == drawn["nodes"]


def test_molecules_are_drawn_whole_with_atoms_and_bonds(client):
    told = traced(client, model="graph-regress", text="C=CO")
    group = next(one for one in told["groups"] if told["axes"][one["name"]]["queries"]["kind"] == "nodes")
    drawn = part(client, told, "graph", group=group["name"])
    assert [(one["name"], one["kind"]) for one in drawn["nodes"]] == [("C1", "C"), ("C2", "C"), ("O3", "O")]
    assert drawn["bonds"] == [[0, 1, 2.0], [1, 2, 1.0]]
    spots = np.array([[one["x"], one["y"]] for one in drawn["nodes"]])
    first, second = spots[0] - spots[1], spots[2] - spots[1]
    assert np.linalg.norm(first) == pytest.approx(np.linalg.norm(second), rel=1e-2)
    cosine = first @ second / (np.linalg.norm(first) * np.linalg.norm(second))
    assert np.degrees(np.arccos(cosine)) == pytest.approx(120, abs=1)
    # an element has its colour in whatever molecule
    assert drawn["kinds"] == [["C", PALETTE[0]], ["O", PALETTE[2]]]
    pooled = next(one for one in told["groups"] if len(one["queries"]) == 1)
    answer = client.get(f"/api/v1/traces/{told['trace_id']}/graph", params={"group": pooled["name"]})
    assert "not attention between the nodes" in answer.json()["detail"]


def test_a_number_that_is_right_is_written_as_its_file_has_it():
    for value, written in (
        (-3.0210000000000004, "-3.021"),
        (-2.57, "-2.57"),
        (0.123456789, "0.123456789"),
        (3.0, "3.0"),
        (1e15, "1000000000000000.0"),
    ):
        assert title_of("CCO", SimpleNamespace(target=value)).label == written


def test_examples_are_nodes_and_molecules(client):
    nodes = client.get("/api/v1/examples?model=node-classify").json()
    assert nodes["input"] == "node"
    assert nodes["examples"][0] == {"title": "n2", "label": "l"}
    # a page opens on a right answer, where one is right
    asked = traced(client, model="node-classify", example=nodes["opens"])
    assert nodes["right"] == (asked["output"].split()[0] == asked["label"])
    found = client.get("/api/v1/examples?model=graph-regress").json()
    assert found["input"] == "molecule"
    title = found["examples"][0]["title"]
    # what is typed is told what is right, where an example has it
    assert traced(client, model="node-classify", text="n2")["label"] == "l"
    assert traced(client, model="graph-regress", text=title)["label"] == found["examples"][0]["label"]
    assert traced(client, model="graph-regress", text="CCNCCNCCN")["label"] == ""
    assert traced(client, model="graph-regress", example=0)["source"] == title


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("group=mixers+self&around=24", "beyond the last node, 23"),
        ("group=mixers+self&hops=4", "hops"),
        ("group=mixers+self&most=121", "most"),
        ("group=nothing", "nothing"),
        ("hops=1", "group"),
    ],
)
def test_nodes_that_are_not_there_are_refused(client, asked, says):
    told = traced(client, model="node-classify", text="n5")
    asked = asked.replace("mixers+self", told["groups"][0]["name"].replace(" ", "+"))
    answer = client.get(f"/api/v1/traces/{told['trace_id']}/graph?{asked}")
    assert answer.status_code == 422
    assert says in answer.json()["detail"]


def test_more_pairs_than_can_be_shown_are_refused_before_they_are_made(client, monkeypatch):
    told = traced(client, model="node-classify", text="n5")
    group = told["groups"][0]
    monkeypatch.setattr(traces, "_MOST_PAIRS", 24 * group["heads"] * 3)
    answer = client.get(f"/api/v1/traces/{told['trace_id']}/summary", params={"group": group["name"]})
    assert answer.status_code == 422
    assert "look at a node on the page Graph" in answer.json()["detail"]
    # single rows are few
    assert part(client, told, "edges", group=group["name"]).shape[1] == group["heads"]


def test_nodes_are_drawn_as_far_apart_as_they_are_in_steps():
    ring = np.roll(np.eye(12, dtype=bool), 1, axis=1)
    places = layout(ring)
    lengths = np.linalg.norm(places[:, None] - places, axis=-1)
    offset = np.abs(np.subtract.outer(np.arange(12), np.arange(12)))
    apart = np.minimum(offset, 12 - offset)
    assert np.corrcoef(lengths[apart > 0], apart[apart > 0])[0, 1] > 0.95
    np.testing.assert_array_equal(places, layout(ring))
    assert places.min() >= 0
    assert places.max() <= 1
    # nodes that are alike, and parts that nothing joins, have places of their own
    star = np.zeros((9, 9), bool)
    star[0, 1:6] = True
    lengths = np.linalg.norm(layout(star)[:, None] - layout(star), axis=-1) + np.eye(9)
    assert lengths.min() > 0.02
    assert layout(np.zeros((1, 1), bool)).tolist() == [[0.5, 0.5]]
