"""One graph through the verbs of the command line: init, train, resume, predict, evaluate, explain."""

import json

import pytest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nodes = [f"n{n},{n % 5},{-(n % 3)},{'even' if n % 4 < 2 else 'odd'}" for n in range(40)]
    (tmp_path / "nodes.csv").write_text("id,f,g,label\n" + "\n".join(nodes) + "\n")
    (tmp_path / "edges.tsv").write_text("".join(f"n{n}\tn{(n + 4) % 40}\n" for n in range(40)))
    return tmp_path


def test_a_graph_goes_through_every_verb(headwise, folder):
    code, out, err = headwise("init", "node-classify", "--data", "nodes.csv", "--edges", "edges.tsv")
    assert code == 0, err
    recipe = (folder / "recipe.toml").read_text()
    assert '\nedges = "edges.tsv"  # ' in recipe
    assert 'scale = "columns"' in recipe
    assert "Labels of nodes, fitted to the graph of 40 nodes of nodes.csv" in recipe
    short = ["recipe.toml", "model.d_model=8", "training.validate_every_epochs=0", "--run-folder", "run"]
    assert headwise("train", *short, "training.max_epochs=3")[0] == 0
    assert headwise("train", *short, "training.max_epochs=5")[0] == 0
    log = (folder / "run" / "log.txt").read_text()
    assert "after 5 steps" in log
    assert "edges: 40 given, 40 kept (both ways)" in log
    # the graph is in the run
    (folder / "edges.tsv").rename(folder / "moved.tsv")
    code, out, err = headwise("predict", "run", "n1", " n2 ")
    assert (code, err) == (0, ""), err
    assert [line.split("\t")[0] for line in out.splitlines()] == ["n1", "n2"]
    code, out, err = headwise("predict", "run", "--file", "nodes.csv", "--json")
    assert len([json.loads(line) for line in out.splitlines()]) == 40
    code, out, err = headwise("predict", "run", "n44")
    assert (code, err) == (2, "error: unknown node 'n44'; did you mean 'n4'?\n")
    code, out, err = headwise("evaluate", "run", "--data", "nodes.csv", "--json")
    assert {"accuracy", "macro_f1", "baselines"} < set(json.loads(out))
    code, out, err = headwise("explain", "run", "n3", "--layer", -1, "--top", 2)
    assert (code, err) == (0, ""), err
    assert "mixers.1, its only head: what each token looks at\nn3  " in out
    assert (folder / "figures" / "attention.png").stat().st_size > 1000


def test_other_edges_are_other_data(headwise, folder):
    headwise("init", "node-classify", "--data", "nodes.csv", "--edges", "edges.tsv")
    short = ["recipe.toml", "model.kind=mean", "training.validate_every_epochs=0", "--run-folder", "run"]
    recipe = (folder / "recipe.toml").read_text()
    (folder / "recipe.toml").write_text(recipe.replace("num_heads = 8", ""))
    assert headwise("train", *short, "training.max_epochs=2")[0] == 0
    (folder / "edges.tsv").write_text("n1\tn2\n")
    code, _, err = headwise("train", *short, "training.max_epochs=4")
    assert code == 3
    assert "edges" in err
    code, _, err = headwise("explain", "run", "n1")
    assert code == 2
    assert "this model has no attention to look at" in err


def test_the_option_of_edges_is_for_graphs_alone(headwise, folder):
    code, _, err = headwise("init", "tag", "--data", "nodes.csv", "--edges", "edges.tsv")
    assert (code, err) == (2, "error: task 'tag' has no option --edges; it has: --data, --valid, --test\n")


def test_molecules_go_through_every_verb(headwise, folder):
    rows = "".join(f"{'C' * n}{'O' * (n % 2)},{n}\n" for n in range(1, 50))
    (folder / "m.csv").write_text("drawn,smiles,logS\n" + "".join(f"x,{row}\n" for row in rows.split()))
    code, _, err = headwise("init", "graph-regress", "--data", "m.csv", "data.target_column=logS")
    assert code == 0, err
    assert 'target_column = "logS"' in (folder / "recipe.toml").read_text()
    short = ["recipe.toml", "model.d_model=8", "training.validate_every_epochs=0", "--run-folder", "run"]
    assert headwise("train", *short, "training.max_epochs=2")[0] == 0
    assert headwise("train", *short, "training.max_epochs=3", "--allow-schedule-change")[0] == 0
    code, out, err = headwise("predict", "run", "CCO", "[Na+].[Cl-]")
    assert (code, err) == (0, ""), err
    assert [line.split("\t")[0] for line in out.splitlines()] == ["CCO", "[Na+].[Cl-]"]
    assert len(headwise("predict", "run", "--file", "m.csv", "--json")[1].splitlines()) == 49
    code, _, err = headwise("predict", "run", "C1CC")
    assert (code, err.startswith("error: 'C1CC': ")) == (2, True)
    code, out, err = headwise("evaluate", "run", "--data", "m.csv", "--json")
    assert {"mae", "rmse", "r2", "baselines"} < set(json.loads(out))
    code, out, err = headwise("explain", "run", "CCO", "--layer", 0)
    assert (code, err) == (0, ""), err
    assert "encoder.mixers.0, mean of 8 heads: what each token looks at" in out
    assert (folder / "figures" / "attention.png").stat().st_size > 1000
