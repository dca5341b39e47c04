"""Cards of runs: a model as its blocks, the metrics of its validation, inputs to begin with, and pairs that tell."""

import io
import itertools
import json
from typing import NamedTuple

import numpy as np
import pytest
from fastapi.testclient import TestClient
from serving_runs import TEXT, filler_of, folder_of, task_run, writer_of
from torch import nn

from headwise import MultiHeadAttention
from headwise.explain.explanation import Explanation, Layer
from headwise.explain.parts import stages_of
from headwise.explorer.api import add_explorer
from headwise.explorer.cards import SENTENCES, SHOWN, _telling
from headwise.explorer.inputs import Example, answer_of
from headwise.predictors.predictor import Predictor
from headwise.service.app import create_app
from headwise.service.limits import Limits
from headwise.service.loaded import load_runs

LOCAL = "http://127.0.0.1"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("cards")
    runs = [folder_of(place), filler_of(place), writer_of(place)]
    (place / "images").mkdir()
    return [*runs, task_run(place / "images", "image-classify, patches")]


@pytest.fixture(scope="module")
def client(folders):
    app = create_app(load_runs(folders, files=True), Limits(), more=[add_explorer])
    with TestClient(app, base_url=LOCAL) as found:
        yield found


def card(client, model):
    return client.get("/api/v1/cards", params={"model": model}).json()


def test_a_translator_is_two_stages_of_blocks(client):
    attention, cross = {"heads": 2, "causal": False}, {"kind": "cross", "heads": 2, "causal": False}
    inner = {"kind": "feed_forward", "width": 8}
    assert card(client, "run")["stages"] == [
        {"name": "encoder", "count": 2, "parts": [{"kind": "self", **attention}, inner]},
        {"name": "decoder", "count": 1, "parts": [{"kind": "self", "heads": 2, "causal": True}, cross, inner]},
    ]


def test_metrics_and_size_are_those_of_the_run(client, folders):
    manifest = json.loads((folders[0] / "manifest.json").read_text())
    told = card(client, "run")
    assert (told["metrics"], told["step"], told["data"]) == (manifest["metrics"], manifest["step"], ["pairs.tsv"])
    assert told["digests"] == manifest["data"]
    tensors = np.fromfile(folders[0] / "model.safetensors", np.uint8)
    header = json.loads(tensors[8 : 8 + int(tensors[:8].view("<u8")[0])].tobytes())
    shapes = [tensor["shape"] for name, tensor in header.items() if name != "__metadata__"]
    # tied matrices are stored once
    assert told["parameters"] == sum(int(np.prod(shape)) for shape in shapes)


def test_examples_are_of_the_own_data_and_can_be_traced(client):
    told = card(client, "run")["examples"]
    listed = client.get("/api/v1/examples", params={"model": "run"}).json()["examples"]
    assert len(told) == min(SHOWN, len(listed))
    assert all({"title": one["title"], "label": one["label"]} in listed for one in told)
    answer = client.post("/api/v1/traces", json={"model": "run", "text": told[0]["text"]})
    assert answer.status_code == 201
    pictures = card(client, "image-classify-patches")["examples"]
    assert [set(one) for one in pictures] == [{"example", "title", "label"}] * len(pictures)


class Parrot(Predictor):
    """Gives each item in capitals, and says how much it has to show."""

    def __init__(self, varieties=()):
        self.varieties = dict(varieties)

    def predict(self, items, options=None):
        return [[Spoken(item.upper())] for item in items]

    def write(self, item, output, form, options=None):
        raise NotImplementedError

    def scored(self, examples, options=None):
        raise NotImplementedError

    def variety(self, item):
        return self.varieties.get(item, 0)

    def explain(self, item, target=None):
        """One head that reads the words of the item backwards where it begins with b."""
        words = item.split()
        order = np.eye(len(words))[:: -1 if item.startswith("b") else 1]
        return Explanation(item, item, {"cross": Layer(order[None], words, words, "cross")})


class Spoken(NamedTuple):
    text: str


def numbered(*pairs):
    return [(number, Example(title, label, True)) for number, (title, label) in enumerate(pairs)]


def test_right_answers_that_turn_the_order_come_first():
    pairs = [("a c", "wrong"), ("c d", "C D"), ("b d e", "B D E"), ("a b", "A B"), ("c e", "C E"), ("d e", "D E")]
    items = [title for title, _ in pairs]
    assert [number for number, _ in _telling(Parrot(), items, numbered(*pairs))] == [2, 1, 3, 4, 5]
    # too few are right: the others stand behind them
    few = numbered(*pairs[:3])
    assert [number for number, _ in _telling(Parrot(), items, few)] == [2, 1, 0]


def test_what_has_more_to_show_comes_before_what_is_right():
    pairs = [("a", "A"), ("b", "x"), ("c", "y")]
    parrot = Parrot([("b", 1), ("c", 2)])
    assert [number for number, _ in _telling(parrot, ["a", "b", "c"], numbered(*pairs))] == [2, 1, 0]


@pytest.mark.parametrize(
    ("output", "answer"),
    [([Spoken("un"), Spoken("deux")], "un"), ({"cat": 0.2, "dog": 0.8}, "dog"), (-1.5, None), ([], None)],
)
def test_an_answer_is_a_text_or_the_likeliest_class(output, answer):
    assert answer_of(output) == answer


def test_a_model_without_examples_has_sentences(client):
    told = [one["text"] for one in card(client, "text")["examples"]]
    assert told[-len(SENTENCES) :] == list(SENTENCES)


def matrices(client, trace, group, layer=0):
    """The weights of all heads of a layer."""
    path = f"/api/v1/traces/{trace['trace_id']}/matrix"
    asked = [{"layer": group["layers"][layer], "head": head} for head in range(group["heads"])]
    answers = [client.get(path, params=each).content for each in asked]
    return np.stack([np.load(io.BytesIO(answer)).astype(float) for answer in answers])


def test_the_salient_pair_is_a_strong_one_on_which_heads_agree(client):
    trace = client.post("/api/v1/traces", json={"model": "run", "text": TEXT}).json()
    (cross,) = [group for group in trace["groups"] if group["kind"] == "cross"]
    found = client.get(f"/api/v1/traces/{trace['trace_id']}/salient", params={"layer": cross["layers"][0]}).json()
    axes = trace["axes"][cross["name"]]
    words = {
        side: [k for k, label in enumerate(cross[side]) if label.isalnum() and k not in axes[side]["special"]]
        for side in ("queries", "keys")
    }
    weights = matrices(client, trace, cross)
    merits = {}
    for head, q, k in itertools.product(range(cross["heads"]), words["queries"], words["keys"]):
        weight = weights[head, q, k]
        # what else the row looks at is said by no word
        if weight < max(weights[head, q]):
            continue
        # a row that looks at one key alone compares nothing
        sure = min(1.0, 10 * (1 - weight))
        agreed = sum(weights[:, q, k]) / cross["heads"]
        merits[weight * agreed * sure, head, q, k] = weight
    best = max(merits)
    assert (found["head"], found["query"], found["key"]) == best[1:]
    assert found["weight"] == pytest.approx(merits[best], rel=1e-3)
    assert len(cross["layers"]) == 1
    assert cross["opens"] == [0, best[1]]


def test_within_one_sequence_the_head_opens_that_points_most(client):
    trace = client.post("/api/v1/traces", json={"model": "text", "text": "a1 b1"}).json()
    (group,) = trace["groups"]
    special = trace["axes"][group["name"]]["keys"].get("special", [])
    points = {}
    for layer, path in enumerate(group["layers"]):
        for head in range(group["heads"]):
            asked = {"layer": path, "head": head}
            weights = np.load(
                io.BytesIO(client.get(f"/api/v1/traces/{trace['trace_id']}/matrix", params=asked).content)
            )
            rows = [
                max((row[k] for k in range(1, len(row)) if k != q and k not in special), default=0.0)
                for q, row in enumerate(weights.astype(float).tolist())
            ]
            points[layer, head] = sum(rows) / len(rows)
    assert points[tuple(group["opens"])] == pytest.approx(max(points.values()), abs=1e-3)
    assert max(points.values()) > 0


def test_cross_attention_over_convolutions_has_its_encoder_drawn():
    """Keys and values come from somewhere: an encoder without attention is a stage before the decoder."""
    encoder = nn.Sequential(nn.Conv2d(3, 5, 3), nn.Conv2d(5, 7, 3), nn.Conv2d(7, 7, 1))
    decoder = nn.ModuleDict({"cross_attention": MultiHeadAttention(8, 2)})
    first, second = stages_of(nn.ModuleDict({"encoder": encoder, "decoder": decoder}))
    assert first == {"name": "encoder", "count": 1, "parts": [{"kind": "convolution", "layers": 2, "width": 7}]}
    assert [part["kind"] for part in second["parts"]] == ["cross"]


def test_merged_words_have_the_pair_of_their_means_and_sums(client):
    trace = client.post("/api/v1/traces", json={"model": "text", "text": "a1 b1 a2"}).json()
    (group,) = trace["groups"]
    at, layer = f"/api/v1/traces/{trace['trace_id']}", group["layers"][0]
    found = client.get(f"{at}/salient", params={"layer": layer, "merged": True}).json()
    words = trace["axes"][group["name"]]["keys"]["words"]
    tokens = {side: [n for n, word in enumerate(words) if word == words[found[side]]] for side in ("query", "key")}
    assert len(tokens["query"]) > 1
    assert (found["query"], found["key"]) == (tokens["query"][0], tokens["key"][0])
    weights = matrices(client, trace, group)[found["head"]]
    # an even head gives a word as much as it has tokens
    even = [sum(not group["causal"] or k <= q for k in tokens["key"]) for q in tokens["query"]]
    visible = [q + 1 if group["causal"] else len(words) for q in tokens["query"]]
    assert found["even"] == pytest.approx(sum(np.divide(even, visible)) / len(even))
    assert found["weight"] > found["even"]
    rows = [sum(weights[q, k] for k in tokens["key"]) for q in tokens["query"]]
    assert found["weight"] == pytest.approx(sum(rows) / len(rows), rel=1e-3)
    pairs = {(q, k): weights[q, k] for q in tokens["query"] for k in tokens["key"]}
    assert weights[found["piece"]["query"], found["piece"]["key"]] == pytest.approx(max(pairs.values()), rel=1e-3)
