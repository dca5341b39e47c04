"""Labels of nodes on a tiny graph: from files to batches, losses, scores, run folders and back to a labeller."""

import json

import pytest
import torch
from life import baselines_of, built_of, fitted, restored, scores_of, task_of

from headwise.data.sources import Limits
from headwise.errors import CheckpointError, ConfigError, DataError
from headwise.tasks import registry
from headwise.tasks.graphs.node_classify import NodeClassify
from headwise.tasks.task import Assets, Task

SIDE = 20
MODEL = {"kind": "mean", "d_model": 8, "dropout": 0.0}


@pytest.fixture
def files(tmp_path):
    """Two rings of nodes; a node's own features are noise, most of those around it have the label's sign."""
    generator = torch.Generator().manual_seed(1)
    nodes, edges = ["id,f,g,label,split"], ["source,target"]
    for ring, label in enumerate(("left", "right")):
        for n in range(SIDE):
            f, g = (torch.randn(2, generator=generator) + torch.tensor([ring - 0.5, 0.0])).tolist()
            split = ("train", "valid", "test", "")[n % 4]
            nodes.append(f"{label[0]}{n},{f:.4f},{g:.4f},{label if split else ''},{split}")
            edges += [f"{label[0]}{n},{label[0]}{(n + step) % SIDE}" for step in (1, 2, 3)]
    (tmp_path / "nodes.csv").write_text("\n".join([*nodes, "alone,1,1,odd,valid"]) + "\n")
    (tmp_path / "edges.csv").write_text("\n".join(edges) + "\n")
    return tmp_path


def data(files):
    return {"train": str(files / "nodes.csv"), "edges": str(files / "edges.csv")}


@pytest.fixture
def make(files):
    def made(model=MODEL, **fields):
        return task_of("node-classify", {"data": data(files), "model": model} | fields)

    return made


def test_a_single_label_is_nothing_to_learn(make, files):
    nodes = (files / "nodes.csv").read_text()
    (files / "nodes.csv").write_text(nodes.replace(",right,train", ",left,train"))
    with pytest.raises(
        DataError, match=r"nodes\.csv: all nodes to train on have the label 'left'; label some otherwise"
    ):
        make()


def test_is_found_by_name():
    assert registry.task_type("node-classify") is NodeClassify
    assert issubclass(NodeClassify, Task)


def test_a_pass_is_one_step_over_the_whole_graph(make):
    task = make()
    source = task.source("train", Limits(1))
    assert (source.size(), source.epoch) == (1, 0)
    (batch,) = source.take(3)
    assert (source.epoch, batch.num_tokens, len(batch.targets)) == (1, 10, 41)
    assert [place for place, target in enumerate(batch.targets.tolist()) if target >= 0] == batch.indices
    assert [task.labels, batch.targets[0].item(), batch.targets[20].item()] == [{"left": 5, "right": 5}, 0, 1]
    assert task.source("valid", Limits(1, examples=1)).take(1)[0].num_tokens == 1
    # "odd" is a label that training lacks
    assert task.batch("valid").targets[40].item() == 2
    assert task.batch("valid").to("cpu").num_tokens == 11


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_is_the_sum_over_the_nodes_of_the_split_whose_label_is_known(make, smoothing):
    task = make(label_smoothing=smoothing)
    model, batch = built_of(task).eval(), task.batch("valid")
    odds = model(batch.input.features, batch.input.mask).log_softmax(-1)
    gold = [(place, batch.targets[place]) for place in batch.indices if batch.targets[place] < 2]
    total = sum(-(1 - smoothing) * odds[place, label] - smoothing * odds[place].mean() for place, label in gold)
    torch.testing.assert_close(task.loss(model, batch), total)
    if not smoothing:
        assert scores_of(task, model, "valid")["loss"] == pytest.approx(float(total.detach()) / 10)


def test_labels_of_other_splits_reach_no_gradient(make, files):
    task = make()
    table = (files / "nodes.csv").read_text()
    lines = [line.replace(",left,", ",right,") if line.endswith(("valid", "test")) else line for line in table.split()]
    (files / "nodes.csv").write_text("\n".join(lines))
    other = make()
    found = []
    for one in (task, other):
        model = built_of(one)
        one.loss(model, one.batch("train")).backward()
        found.append([p.grad for p in model.parameters()])
    torch.testing.assert_close(*found, rtol=0, atol=0)


def test_scores_are_those_of_the_labeller(make):
    task = make()
    model = built_of(task).eval()
    labeller = task.predictor(model)
    scores, told = scores_of(task, model, "valid"), labeller.evaluate(task.assets.data["valid"])
    assert scores["accuracy"] == pytest.approx(told["accuracy"])
    assert scores["macro_f1"] == pytest.approx(told["macro_f1"])
    gold = [item.label for item in task.assets.data["valid"]]
    found = baselines_of(task, model, task.assets.data["valid"])
    assert found["majority"]["accuracy"] == max(gold.count(label) for label in gold) / 11
    assert list(scores) == [metric.name for metric in task.metrics]
    assert "odd 0.0000 (1)" in told["per_label"]


def test_neighbours_tell_what_a_node_does_not(make):
    accuracy = {}
    for kind in ("mlp", "mean"):
        task = make({**MODEL, "kind": kind})
        accuracy[kind] = scores_of(task, fitted(task, 60), "test")["accuracy"]
    assert accuracy["mean"] == 1.0
    assert accuracy["mlp"] < 0.9


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("labels.json", b"[]", "labels.json: not a table of labels; restore it"),
        ("labels.json", b"{", "labels.json: not a table of labels"),
        ("graph.npz", b"PK", "graph.npz, nodes.json: not the files of a graph; restore them from a copy of the run"),
        ("nodes.json", b"[]", "graph.npz, nodes.json: not the files of one graph"),
    ],
)
def test_damaged_files_are_named(make, name, content, message):
    task = make()
    with pytest.raises(CheckpointError, match=message):
        NodeClassify(task.config, Assets({**task.assets.files, name: content}))


def test_files_restore_a_labeller(make):
    task = make()
    model, nodes = built_of(task).eval(), ["l3", "r5", "alone"]
    assert restored(task, model).predict(nodes) == task.predictor(model).predict(nodes)


def test_predictor_reads_nodes_and_knows_no_others(make, files, tmp_path):
    task = make({"kind": "attention", "d_model": 8, "num_heads": 2}, show=["r1"])
    labeller = task.predictor(built_of(task))
    assert labeller.parse(" l1 ") == "l1"
    assert len(list(labeller.read(files / "nodes.csv"))) == 2 * SIDE + 1
    # in train() the model draws; while it labels it does not, and trains on as before
    labeller.model.train()
    assert labeller.predict("l1") == labeller.predict(["l1"])
    assert labeller.model.training
    with pytest.raises(ConfigError, match=r"unknown node 'l99'; did you mean 'l9'\?"):
        labeller.parse("l99")
    (tmp_path / "held.csv").write_text("id,label\nnobody,left\n")
    other = make(data=data(files)).config.data.model_copy(update={"test": str(tmp_path / "held.csv")})
    held = NodeClassify.examples(task.config.model_copy(update={"data": other}), "test")
    with pytest.raises(DataError, match="line 2: node 'nobody' is not in the graph of this run"):
        labeller.evaluate(held)
    with pytest.raises(DataError, match="there is nothing to score"):
        labeller.evaluate([])
    (line,) = labeller.write("l1", labeller.predict("l1")[0], "json")
    assert json.loads(line)["node"] == "l1"
    assert task.samples(labeller.model)[0].startswith("r1 → ")
    assert task.samples(labeller.model)[0].endswith("is right")


def test_explain_gives_the_weights_of_one_node(make):
    task = make({"kind": "attention", "d_model": 8, "num_heads": 2})
    model = built_of(task).eval()
    labeller = task.predictor(model)
    found = labeller.explain("l0")
    assert list(found.layers) == ["mixers.0", "mixers.1"]
    for layer in found.layers.values():
        assert sorted(layer.keys) == sorted(["l0", "l1", "l2", "l3", "l17", "l18", "l19"])
        torch.testing.assert_close(torch.tensor(layer.weights.sum(-1)), torch.ones(len(layer.weights), 1).double())
    # by definition, from the projected features
    moved = labeller.input
    projected = model.layers[0](moved.features).view(41, 2, 4)
    score = model.mixers[0].mechanism.score
    own = [labeller.number[key] for key in found.layers["mixers.0"].keys]
    logits = torch.nn.functional.leaky_relu(
        (projected[0] * score.query).sum(-1) + (projected[own] * score.key).sum(-1), 0.2
    )
    wanted = logits.softmax(0).T.unsqueeze(1).double()
    torch.testing.assert_close(torch.tensor(found.layers["mixers.0"].weights), wanted, rtol=1e-5, atol=1e-6)
    with pytest.raises(ConfigError, match="the label of a node cannot be given here"):
        labeller.explain("l0", "left")


def test_the_weakest_of_very_many_neighbours_are_one(files, make):
    lines = [f"l0,{side}{n}" for side in "lr" for n in range(SIDE)]
    (files / "edges.csv").write_text("\n".join(lines) + "\n")
    task = make({"kind": "attention", "d_model": 8, "num_heads": 2})
    found = task.predictor(built_of(task)).explain("l0")
    layer = found.layers["mixers.1"]
    assert (len(layer.keys), layer.keys[0], layer.keys[-1]) == (25, "l0", "16 others")
    assert found.row_error < 1e-6


def test_a_node_without_anybody_is_refused(make, files):
    task = make({"kind": "attention", "d_model": 8, "num_heads": 2}, data={**data(files), "self_loops": False})
    with pytest.raises(ConfigError, match="node 'alone' hears of no node, not even itself"):
        task.predictor(built_of(task)).explain("alone")


def test_features_and_neighbourhoods_are_baselines(make):
    task = make()
    found = baselines_of(task, built_of(task), task.assets.data["test"])
    # a node's own features are noise, those around it have the sign of its label
    assert found["SGC"]["accuracy"] > found["features and logistic regression"]["accuracy"]
    assert list(found) == ["majority", "features and logistic regression", "SGC"]
