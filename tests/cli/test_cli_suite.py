"""The suite on tiny data end to end: trained once, killed and resumed, the scores of separate runs, what is missing."""

import gzip
import json
import math
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from headwise.compare import experiment, suite
from headwise.compare.sides import Cost, Side
from headwise.compare.suite import PUBLISHED, SUITES, Table, arm, notes, rows, run_suite, tasks_of
from headwise.errors import ConfigError
from headwise.tasks import generators
from headwise.training import recipes
from headwise.training.ledger import account
from headwise.training.recipe import read_recipe

TINY = ["training.max_steps=2", "training.validate_every=1", "training.valid_limit=8", "training.baseline_cpu_s=0"]
COMMAND = ["compare", "--suite", "long-range", "--tasks", "ListOps,Image,MQAR,Needle"]
COMMAND += ["--mechanism", "scored,linformer:rank=8", "--seeds", "0,1"]
LIMITED = ["--limit", "9", *TINY]


def idx(path, array):
    header = struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(gzip.compress(header + array.tobytes()))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Small data of every task, where the recipes look for it."""
    folder = tmp_path_factory.mktemp("suite")
    for name in ("listops", "pathfinder", "mqar", "repeat", "needle"):
        generators.make(name, folder / "data" / "synthetic" / name, 1, 60)
    for number in range(8):
        (folder / "texts").mkdir(exist_ok=True)
        (folder / "texts" / f"{number}.txt").write_text(f"text {number} has words. " * 40)
    options = {"source": folder / "texts", "length": 20}
    generators.make("retrieval", folder / "data" / "synthetic" / "retrieval", 1, 40, options)
    (folder / "data" / "sst2").mkdir()
    for part in ("train", "dev", "test"):
        lines = [f"{part} {number} is {'good' if number % 2 else 'bad'}\t{number % 2}\n" for number in range(30)]
        (folder / "data" / "sst2" / f"{part}.tsv").write_text("".join(lines))
    numbers = np.random.default_rng(0)
    (folder / "data" / "fashion-mnist").mkdir()
    for part in ("train", "t10k"):
        idx(
            folder / "data" / "fashion-mnist" / f"{part}-images-idx3-ubyte.gz",
            numbers.integers(0, 256, (40, 28, 28), np.uint8),
        )
        idx(folder / "data" / "fashion-mnist" / f"{part}-labels-idx1-ubyte.gz", np.arange(40, dtype=np.uint8) % 10)
    return folder


@pytest.fixture
def inside(data, monkeypatch):
    monkeypatch.chdir(data)
    monkeypatch.setenv("HEADWISE_DATA", str(data / "data"))
    # steps are not measured, which takes processes of their own
    monkeypatch.setattr(experiment, "_cost", lambda recipe: experiment.Cost(7, 0.5, 10.0, 1 << 20))
    return data


@pytest.mark.slow
def test_every_task_trains_and_has_a_column(headwise, inside):
    code, out, err = headwise(*COMMAND, *LIMITED, "--output", "report", "--json")
    assert code == 0, err
    table = {row["mechanism"]: row for row in map(json.loads, out.splitlines())}
    columns = ["ListOps", "Image"]
    assert list(table["scored"]) == ["mechanism"] + [
        name
        for column in [
            *columns,
            "MQAR",
            "Needle 16",
            "Needle 32",
            "Needle 64",
            "average",
            "paper's average",
        ]
        for name in ([column] if column == "paper's average" else [column, f"{column} ±"])
    ]
    assert table["scored"]["average"] == pytest.approx(np.mean([table["scored"][column] for column in columns]))
    assert table["scored"]["paper's average"] == 54.39
    # a low-rank mixture of keys has no causal form
    assert table["linformer:rank=8"]["MQAR"] is None
    assert table["linformer:rank=8"]["ListOps"] is not None
    whole = json.loads(Path("report/results.json").read_text())
    assert any(note.startswith("MQAR has no linformer:rank=8: ") for note in whole["notes"])
    for side in whole["tasks"]["Image"]:
        for seed, run in side["runs"].items():
            assert account(Path(run), "test", 9).scores["accuracy"] == pytest.approx(side["scores"][seed])
    before = {path: path.stat().st_mtime_ns for path in Path("runs").rglob("*") if path.is_file()}
    code, again, err = headwise(*COMMAND, *LIMITED, "--json")
    assert code == 0, err
    assert again == out
    assert {path: path.stat().st_mtime_ns for path in Path("runs").rglob("*") if path.is_file()} == before


@pytest.mark.slow
def test_a_killed_suite_goes_on(headwise, inside):
    words = [
        "compare",
        "--suite",
        "long-range",
        "--tasks",
        "ListOps,mqar",
        "--mechanism",
        "scored,linear",
        "--seeds",
        "0,1",
    ]
    words += ["--runs", "killed", *LIMITED]
    process = subprocess.Popen([sys.executable, "-P", "-m", "headwise", *words], stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 200
    while len(list(Path("killed").glob("*/state/finished.json"))) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    process.kill()
    process.communicate()
    finished = {path: path.stat().st_mtime_ns for path in Path("killed").glob("*/state/finished.json")}
    assert 2 <= len(finished) < 8
    code, out, err = headwise(*words, "--json")
    assert code == 0, err
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    code, fresh, err = headwise(*words, "--json", "--runs", "fresh")
    assert code == 0, err
    assert fresh == out


def test_published_averages_are_those_of_the_paper():
    averages = {
        "scored": 54.39,
        "bigbird": 55.01,
        "linear": 50.55,
        "performer": 51.41,
        "reformer": 50.67,
        "local": 46.06,
    }
    averages["linformer"] = 51.36
    assert {name: round(sum(scores) / 5, 2) for name, scores in PUBLISHED.items()} == pytest.approx(averages, abs=0.011)


@pytest.mark.parametrize("task", SUITES["long-range"], ids=lambda task: task.name)
@pytest.mark.parametrize("side", ["scored", "local", "bigbird", "linear"])
def test_every_side_is_a_valid_recipe(task, side):
    settings = arm(task.recipe, side).settings
    recipe = read_recipe(recipes.find(task.recipe), settings)
    model = getattr(recipe.model, "sequence", recipe.model)
    assert (model.mask is not None) == (side in ("local", "bigbird"))
    assert model.mechanism == ("linear" if side == "linear" else "scored")
    assert model.causal == (not task.averaged)


def test_an_average_is_over_seeds_and_missing_where_a_task_is():
    scores = {"A": {"x": {0: 10.0, 1: 20.0}, "y": {0: 1.0, 1: 1.0}}, "B": {"x": {0: 30.0, 1: 60.0}}}
    table = Table(["y", "x"], scores, ["A", "B"], ["B has no y: why"], {}, [])
    assert table.average("y") is None
    assert table.average("x").value == pytest.approx(30.0)
    # of 20 and 40
    assert table.average("x").high == pytest.approx(30 + 12.7062 * 10, rel=1e-4)
    assert [row["mechanism"] for row in rows(table)] == ["x", "y"]
    assert rows(table)[1]["average"] is None
    assert rows(table)[1]["A ±"] == 0
    assert "B has no y: why" in notes(table)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--suite", "short"], "unknown suite 'short'"),
        (["--suite", "long-range", "--mechanism", "scored"], "there is one mechanism"),
        (["--suite", "long-range"], "there is one mechanism"),
        (["--suite", "long-range", "--tasks", "Listops,Pathfindr"], "did you mean 'Pathfinder'"),
        (["--suite", "long-range", "sst2", "--mechanism", "scored,linear"], "leave out a recipe"),
        (["--suite", "long-range", "--lengths", "1,2"], "leave out --lengths"),
        (["--lengths", "a", "sst2", "--mechanism", "scored,linear"], "--lengths 'a'"),
        ([], "name a recipe"),
    ],
)
def test_what_is_wrong_is_said_before_anything_trains(headwise, inside, words, message):
    code, out, err = headwise("compare", *words, "--runs", "never")
    assert (code, out) == (2, ""), err
    assert message in err
    assert not Path("never").exists()


def test_an_unknown_task():
    with pytest.raises(ConfigError, match="unknown task 'text2'; did you mean 'Text'"):
        tasks_of("long-range", ["text2"])


def test_a_side_of_which_a_run_failed_is_missing_and_named(inside, monkeypatch):
    def compared(plan, say):
        cost = Cost(7, 0.5, 10.0, 1 << 20)
        whole = Side("scored", {}, {0: 0.5, 1: 0.7}, cost, 1.0, 2.0)
        lost = Side("linear", {}, {0: 0.5, 1: -math.inf}, cost, 1.0, 2.0, failures={1: "no finite numbers"})
        return experiment.Result("accuracy", "high", [whole, lost], [])

    monkeypatch.setattr(suite, "compare", compared)
    plan = experiment.Plan((), [], [0, 1], lambda name, settings: Path("runs"))
    table = run_suite(tasks_of("long-range", ["Pathfinder"]), ["scored", "linear"], plan)
    assert table.scores == {"Pathfinder": {"scored": {0: 50.0, 1: 70.0}}}
    assert table.reasons == ["Pathfinder has no linear: it failed with seed 1"]
    assert [(row["mechanism"], row["average"]) for row in rows(table)] == [("scored", 60.0), ("linear", None)]
