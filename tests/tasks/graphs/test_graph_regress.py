"""Numbers of molecules on a tiny table: from files to batches, losses, scores, run folders and back."""

import json

import numpy as np
import pytest
import torch
from life import baselines_of, built_of, fitted, restored, scores_of, task_of

from headwise.data.sources import Limits
from headwise.errors import CheckpointError, ConfigError, DataError
from headwise.tasks import registry
from headwise.tasks.graphs.encoders import AttentionPooling, BagPooling
from headwise.tasks.graphs.graph_regress import GraphRegress
from headwise.tasks.graphs.molecule_regressor import MoleculeTable
from headwise.tasks.graphs.molecules import atom_counts, compound
from headwise.tasks.task import Assets, Task

MODEL = {"kind": "mean", "d_model": 16, "dropout": 0.0, "between": "relu"}
ATTENTION = {"kind": "attention", "d_model": 8, "num_heads": 2, "dropout": 0.0}


@pytest.fixture
def files(tmp_path):
    """Chains of carbon and oxygen; the number counts the atoms, an oxygen twice."""
    chains = ["".join("CO"[(n >> k) % 2] for k in range(2 + n % 6)) for n in range(64)]
    rows = [f"{chain},{len(chain) + chain.count('O')}" for chain in dict.fromkeys(chains)]
    (tmp_path / "m.csv").write_text("smiles,target\n" + "\n".join(rows) + "\n")
    return tmp_path


@pytest.fixture
def make(files):
    def made(model=MODEL, data=None, **fields):
        values = {"data": {"train": str(files / "m.csv"), "valid_fraction": 0.2} | (data or {}), "model": model}
        return task_of("graph-regress", values | fields)

    return made


def test_is_found_by_name_and_splits_never_share_a_molecule(make, files):
    assert registry.task_type("graph-regress") is GraphRegress
    assert issubclass(GraphRegress, Task)
    task = make()
    found = [{item.smiles for item in part} for part in task.assets.data.values()]
    assert all(found)
    assert sum(map(len, found)) == len((files / "m.csv").read_text().split()) - 1
    assert not (found[0] & found[1] | found[1] & found[2] | found[0] & found[2])
    assert make(data={"valid_fraction": 0.0}).source("valid", Limits(9)) is None
    held = make(data={"valid": str(files / "m.csv"), "test_fraction": 0.0})
    assert any("molecules are in the training part" in note for note in held.assets.notes)


@pytest.mark.parametrize("model", [MODEL, ATTENTION, {**ATTENTION, "score": "gatv2"}, {"kind": "mlp", "d_model": 8}])
@pytest.mark.parametrize("pooling", ["mean", "sum", "attention"])
def test_molecules_side_by_side_do_not_hear_of_each_other(make, model, pooling):
    task = make(model, pooling={"kind": pooling, "num_heads": 2})
    built = built_of(task).eval().double()
    given = [compound(text) for text in ("CCO", "C", "c1ccccc1C", "[Na+].[Cl-]")]
    table = MoleculeTable(given, task.scale)
    together = table.batch([2, 0, 3, 1])
    output = built(together.features.double(), together.mask, together.start)
    alone = [table.batch([number]) for number in (2, 0, 3, 1)]
    single = torch.cat([built(one.features.double(), one.mask, one.start) for one in alone])
    torch.testing.assert_close(output, single)


def test_pooling_by_hand():
    torch.manual_seed(0)
    x, start = torch.randn(7, 6, dtype=torch.float64), torch.tensor([0, 3, 4])
    parts = [x[:3], x[3:4], x[4:]]
    torch.testing.assert_close(BagPooling("sum")(x, start), torch.stack([part.sum(0) for part in parts]))
    torch.testing.assert_close(BagPooling("mean")(x, start), torch.stack([part.mean(0) for part in parts]))
    pooling = AttentionPooling(6, 2).double()
    rows = []
    for part in parts:
        keys, heads = pooling.key(part).view(-1, 2, 3), part.view(-1, 2, 3)
        weights = ((keys * pooling.query[:, 0]).sum(-1) / 3**0.5).softmax(0)
        rows.append((weights.unsqueeze(-1) * heads).sum(0).flatten())
    torch.testing.assert_close(pooling(x, start), torch.stack(rows))


def test_loss_and_scores(make):
    task = make()
    model = built_of(task).eval()
    (batch,) = task.source("valid", Limits(10_000)).take(1)
    said = model(batch.features, batch.mask, batch.start)
    torch.testing.assert_close(task.loss(model, batch), ((said - batch.targets) ** 2).sum())
    examples = task.assets.data["valid"]
    scores, told = scores_of(task, model, "valid"), task.predictor(model).evaluate(examples)
    gold = np.array([item.target for item in examples])
    wrong = np.array(task.predictor(model).predict(examples)) - gold
    assert told["mae"] == pytest.approx(np.abs(wrong).mean())
    assert told["rmse"] == pytest.approx(np.sqrt((wrong**2).mean()))
    assert told["r2"] == pytest.approx(1 - (wrong**2).sum() / ((gold - gold.mean()) ** 2).sum())
    constant = baselines_of(task, model, examples)["mean of training"]
    assert constant["rmse"] == pytest.approx(np.sqrt(((gold - task.scale.mean) ** 2).mean()))
    assert {name: scores[name] for name in ("rmse", "mae", "r2")} == pytest.approx(
        {name: told[name] for name in ("rmse", "mae", "r2")}, rel=1e-4
    )
    assert scores["loss"] == pytest.approx(scores["rmse"] ** 2 / task.scale.deviation**2)
    assert set(scores) == {metric.name for metric in task.metrics}
    with pytest.raises(DataError, match="there is nothing to score: give molecules with a number each"):
        task.predictor(model).evaluate([compound("C")])


def test_it_learns_to_count(make):
    task = make()
    assert scores_of(task, fitted(task, 90, Limits(60), 1e-2), "test")["r2"] > 0.95


def test_predictor_takes_strings_and_says_where_they_are_wrong(make, files):
    task = make(show=["OCO"])
    predictor = task.predictor(built_of(task).eval())
    assert predictor.predict(" CCO ") == pytest.approx(predictor.predict(["C", "CCO"])[1:], rel=1e-5)
    with pytest.raises(ConfigError, match=r"'CC\(': position 3: "):
        predictor.parse("CC(")
    item = predictor.parse("CCO")
    assert predictor.write(item, -1.23456, "text") == ["CCO\t-1.235"]
    assert json.loads(predictor.write(item, 2.5, "json")[0]) == {"smiles": "CCO", "target": 2.5}
    assert next(predictor.read(files / "m.csv")).smiles == "CC"
    assert task.samples(predictor.model)[0].startswith("OCO → ")
    assert ", is " in make(num_shown=1).samples(predictor.model)[0]


def test_many_atoms_are_read_in_portions(make, monkeypatch):
    task = make()
    predictor = task.predictor(built_of(task).eval())
    texts = ["CCO", "CCCCCC", "C", "CC"]
    whole = predictor.predict(texts)
    monkeypatch.setattr("headwise.tasks.graphs.molecule_regressor._ATOMS", 4)
    assert predictor.predict(texts) == pytest.approx(whole, rel=1e-5)
    assert predictor.predict([]) == []


def test_explain_shows_atoms(make):
    task = make(ATTENTION, pooling={"kind": "attention", "num_heads": 2})
    found = task.predictor(built_of(task).eval()).explain("CC(=O)c1ccccc1")
    assert list(found.layers) == ["encoder.mixers.0", "encoder.mixers.1", "pooling"]
    first = found.layers["encoder.mixers.0"]
    assert first.keys == ["C1", "C2", "O3", "c4", "c5", "c6", "c7", "c8", "c9"]
    # an atom attends to those it is bound to, and to itself
    assert ((first.weights[0] > 0).sum(1)).tolist() == [2, 4, 2, 4, 3, 3, 3, 3, 3]
    assert found.layers["pooling"].queries == ["molecule"]
    assert found.row_error < 1e-6
    with pytest.raises(ConfigError, match="the number of a molecule cannot be given here"):
        task.predictor(built_of(task).eval()).explain("C", "1")


@pytest.mark.parametrize("content", [b"{}", b"[", b'{"mean": 0, "deviation": 0}', b'{"mean": NaN, "deviation": 1}'])
def test_damaged_files_are_named(make, content):
    task = make()
    with pytest.raises(CheckpointError, match=r"scale.json: no mean and deviation; restore it from a copy of the run"):
        GraphRegress(task.config, Assets({"scale.json": content}))


def test_files_restore_a_predictor(make):
    task = make()
    model = built_of(task).eval()
    assert restored(task, model).predict(["CCO"]) == task.predictor(model).predict(["CCO"])


def test_counts_of_atoms_are_a_baseline(make):
    task = make()
    examples = task.assets.data["valid"]
    counts = atom_counts([compound("CCO")])
    assert counts[0, :3].tolist() == [2.0, 0.0, 1.0]
    # the number counts atoms, so that little but the penalty is left
    found = baselines_of(task, built_of(task), examples)
    assert found["atom counts and ridge regression"]["rmse"] < 0.2 < found["mean of training"]["rmse"]
