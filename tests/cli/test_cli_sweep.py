"""sweep, curve and results: runs that differ in a key, trained once, compared in rows, pictures and a page."""

import csv
import json
from pathlib import Path

import pytest

from headwise.data.synthetic import Sizes, make

RECIPE = """
task = "translate"
[data]
train = "data/train.tsv"
valid = "data/valid.tsv"
test = "data/test.tsv"
[tokenizer]
kind = "word"
min_frequency = 1
[decoding]
method = "greedy"
max_len = 6
[model]
kind = "transformer"
d_model = 8
d_ff = 8
num_heads = 2
encoder_layers = 1
decoder_layers = 1
[training]
max_steps = 2
batch_tokens = 99
validate_every_epochs = 0
validate_every = 1
save_every = 1
keep_last = 3
warmup_steps = 1
"""


def prepared(place):
    """The folder, with drawn data and a recipe of two steps in it."""
    make("copy", place / "data", sizes=Sizes(count=60, symbols=3, shortest=2, longest=5))
    (place / "tiny.toml").write_text(RECIPE)
    return place


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data and a recipe; the tests of this file go on with each other's runs."""
    return prepared(tmp_path_factory.mktemp("sweep"))


@pytest.fixture(autouse=True)
def _inside(folder, monkeypatch):
    monkeypatch.chdir(folder)


SWEEP = ["sweep", "tiny.toml", "model.num_heads=1,2", "model.d_ff=4", "--seeds", "0,1", "--metric", "exact"]


def test_a_sweep_trains_each_run_once(headwise):
    code, _, err = headwise(*SWEEP, "--output", "rows.csv", "--figure", "heads.png")
    assert code == 0, err
    runs = sorted(path.name for path in Path("runs").iterdir())
    assert runs == [f"tiny,model.d_ff=4,model.num_heads={heads},seed={seed}" for heads in (1, 2) for seed in (0, 1)]
    with open("rows.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == ["recipe", "model.num_heads", "seed", "exact", "parameters", "steps", "cpu_s", "run"]
    assert [(row["model.num_heads"], row["seed"], row["steps"]) for row in rows] == [
        ("1", "0", "2"), ("1", "1", "2"), ("2", "0", "2"), ("2", "1", "2")
    ]  # fmt: skip
    assert len({row["parameters"] for row in rows}) == 1
    assert Path("heads.png").stat().st_size > 1000
    before = {path: path.stat().st_mtime_ns for path in Path("runs").rglob("*") if path.is_file()}
    code, again, err = headwise(*SWEEP, "--json")
    assert code == 0, err
    assert {path: path.stat().st_mtime_ns for path in Path("runs").rglob("*") if path.is_file()} == before
    assert [json.loads(line)["run"] for line in again.splitlines()] == [row["run"] for row in rows]


def test_several_keys_give_every_combination(headwise):
    code, out, err = headwise("sweep", "tiny.toml", "model.num_heads=1,2", "model.d_ff=4,8", "--json", "--runs", "grid")
    assert code == 0, err
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert [(row["model.num_heads"], row["model.d_ff"]) for row in rows] == [
        ("1", "4"),
        ("1", "8"),
        ("2", "4"),
        ("2", "8"),
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["model.num_heads=1,2"], "name a recipe: headwise sweep RECIPE model.num_heads=1,2,4"),
        (
            ["tiny.toml", "model.num_heads=1,1"],
            "the run runs/tiny,model.num_heads=1 is asked for twice; give each recipe,",
        ),
        (["tiny.toml", "--seeds", "0,00"], "the run runs/tiny,seed=0 is asked for twice"),
        (["tiny.toml", "model.num_heads=1,3"], r"num_heads (3) must divide d_model (8)"),
        (["tiny.toml", "--seeds", "0,x"], "--seeds '0,x': give whole numbers separated by commas, such as 0,1,2"),
        (["tiny.toml", "nothing.toml"], "nothing.toml: no such file"),
    ],
)
def test_a_wrong_sweep_trains_nothing(headwise, words, message):
    before = sorted(Path("runs").rglob("*")) if Path("runs").exists() else []
    code, out, err = headwise("sweep", *words)
    assert (code, out) == (2, "")
    assert message in err
    assert (sorted(Path("runs").rglob("*")) if Path("runs").exists() else []) == before


def test_curves_of_runs(headwise):
    assert headwise("train", "tiny.toml", "--run-folder", "one")[0] == 0
    code, out, err = headwise("curve", "length", "one", "one", "--parts", 2, "--metric", "exact", "--json")
    assert code == 0, err
    rows = [json.loads(line) for line in out.splitlines()]
    assert sum(row["examples"] for row in rows) == 2 * 6
    assert rows[: len(rows) // 2] == rows[len(rows) // 2 :]
    assert all(row["shortest"] <= row["mean"] <= row["longest"] for row in rows)
    code, out, err = headwise("curve", "length", "one", "--data", "data/longer.tsv", "--figure", "length.svg")
    assert (code, Path("length.svg").exists()) == (0, True), err
    assert "--by: unknown size 'depth'; known: nesting, words" in headwise("curve", "length", "one", "--by", "depth")[2]
    code, out, err = headwise("curve", "length", "one", "--by", "nesting", "--json")
    assert (json.loads(out)["shortest"], json.loads(out)["longest"]) == (0, 0)
    assert "no answer for each word, so there is no score by place" in headwise("curve", "place", "one")[2]
    assert "unknown metric 'exakt'; did you mean 'exact'" in headwise("curve", "length", "one", "--metric", "exakt")[2]
    code, out, err = headwise("curve", "heads", "one", "a b c", "b c", "--layer", "encoder", "--json")
    assert code == 0, err
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["step"], row["head"][-1]) for row in rows] == [(1, "0"), (1, "1"), (2, "0"), (2, "1")]
    assert all(0 < row["distance"] < 3 for row in rows)
    assert rows[0]["distance"] != rows[2]["distance"]
    code, out, err = headwise("curve", "heads", "one", "a b c", "--layer", "codec")
    assert (code, "no layer of attention has that in its name" in err) == (2, True)
    assert "there is no checkpoint in it" in headwise("curve", "heads", "data", "a b")[2]
    assert "has no film; train with film.every=50" in headwise("curve", "heads", "one")[2]
    assert (
        "unknown statistic 'entopy'; did you mean 'entropy'"
        in headwise("curve", "heads", "one", "a", "--of", "entopy")[2]
    )


def test_curves_of_a_film(headwise):
    settings = ["film.every=1", 'film.probes=["a b c"]']
    assert headwise("train", "tiny.toml", "--run-folder", "filmed", *settings)[0] == 0
    code, out, err = headwise("curve", "heads", "filmed", "--of", "entropy", "--json", "--figure", "heads.svg")
    assert (code, Path("heads.svg").exists()) == (0, True), err
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert [row["step"] for row in rows if row["head"] == rows[0]["head"]] == [0, 1, 2]
    assert all(0 < row["entropy"] <= 1 for row in rows)
    assert "unknown statistic 'entopy'" in headwise("curve", "heads", "filmed", "--of", "entopy")[2]


def test_a_page_of_results(headwise, folder):
    assert headwise(*SWEEP)[0] == 0
    runs = sorted(Path("runs").iterdir())
    Path("published.csv").write_text('data,metric,system,value,source\ndata,exact,theirs,0.5,"a paper, table 1"\n')
    code, _, err = headwise("results", *runs, "--published", "published.csv", "--output", "results.md")
    assert code == 0, err
    text = Path("results.md").read_text()
    assert "## data\n\n| translate | exact | seeds |" in text
    assert "| `tiny,model.d_ff=4,model.num_heads=1` | " in text
    assert " | 0, 1 | 6 | " in text
    assert "| theirs: a paper, table 1 | 0.5 |" in text
    assert str(folder) not in text
    code, _, err = headwise("results", "data")
    assert (code, "data" in err) == (4, True)
    _records_outlast_runs(headwise, runs, text)
    (runs[0] / "state" / "finished.json").unlink()
    code, _, err = headwise("results", runs[0])
    assert (code, "has not ended; go on with it: headwise train RECIPE --run-folder" in err) == (4, True)


def _records_outlast_runs(headwise, runs, text):
    assert headwise("results", runs[0], "--records", "kept.json")[0] == 0
    kept = ("--records", "kept.json", "--published", "published.csv")
    code, _, err = headwise("results", *runs, *kept, "--output", "kept.md")
    assert code == 0, err
    page = Path("kept.md").read_text()
    assert page.startswith("# Results\n\nWritten by `headwise results --records kept.json`. ")
    assert page.partition("##")[2] == text.partition("##")[2]
    before = Path("kept.json").read_bytes()
    assert headwise("results", *kept)[:2] == (0, page)
    for words, message in (
        ((), "name run folders, or the file of their records: --records FILE"),
        ((runs[0], "--records", "kept.json", "--limit", 2), "leave --limit out"),
        (("--records", "none.json"), "none.json: there is no such file; name run folders"),
        (("--records", "."), ".: is a folder; give the name of a file"),
        ((runs[0], "--records", "published.csv"), "published.csv: is not JSON"),
    ):
        code, out, err = headwise("results", *words)
        assert (code != 0, out, message in err, err.count("\n")) == (True, "", True, 1), err
    assert Path("kept.json").read_bytes() == before
    assert not Path("none.json").exists()
