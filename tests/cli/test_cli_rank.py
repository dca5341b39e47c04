"""A log of clicks through the verbs of the command line, and two runs against each other."""

import json

import pytest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"u{n % 30};i{(n % 30 + n // 30) % 9};{n % 4}" for n in range(180)]
    (tmp_path / "log.csv").write_text("user key;item;colour\n" + "\n".join(rows) + "\n")
    return tmp_path


def test_a_log_goes_through_every_verb(headwise, folder):
    keys = ["data.session=user key", "data.delimiter=;", "data.features=['colour']"]
    code, _, err = headwise("init", "rank", "--data", "log.csv", *keys)
    assert code == 0, err
    recipe = (folder / "recipe.toml").read_text()
    assert "Ranking, fitted to the 180 rows of log.csv" in recipe
    constant = ["training.schedule=constant", "training.warmup_share=0.0"]
    short = ["recipe.toml", "training.validate_every_epochs=0", *constant]
    assert headwise("train", *short, "training.max_steps=2", "--run-folder", "run")[0] == 0
    assert headwise("train", *short, "training.max_steps=4", "--run-folder", "run")[0] == 0
    log = (folder / "run" / "log.txt").read_text()
    assert "after 4 steps" in log
    assert "split by session: all choices of a session are in one part" in log
    assert headwise("train", *short, "training.max_steps=2", "model.pooling=mean", "--run-folder", "other")[0] == 0
    code, out, err = headwise("predict", "run", "i1 i2", "--n-best", 3)
    assert (code, err) == (0, ""), err
    assert [line.split("\t")[0] for line in out.splitlines()] == ["0"] * 3
    code, out, err = headwise("predict", "run", '{"history": ["i1"], "candidates": ["i3"]}', "--json")
    assert list(json.loads(out)["probabilities"]) == ["i3"]
    code, out, err = headwise("evaluate", "run", "--json")
    assert {"auc", "grouped_auc", "loss", "hit_rate@5", "baselines", "auc_interval"} < set(json.loads(out))
    code, out, err = headwise("evaluate", "run", "--against", "other", "--json")
    assert (code, err) == (0, ""), err
    found = json.loads(out)
    assert found["difference"] == pytest.approx(found["auc"] - found["auc of the other"])
    assert "bootstrap over" in found["interval"]
    code, _, err = headwise("evaluate", "run", "--against", "other", "--tokenize", "zh")
    assert (code, err) == (2, "error: this model has no option --tokenize: remove it\n")
    code, out, err = headwise("explain", "run", "i1 i2 i1", "--target", "i1")
    assert (code, err) == (0, ""), err
    assert "rows need not sum to one here" in out
    assert (folder / "figures" / "attention.png").stat().st_size > 1000
