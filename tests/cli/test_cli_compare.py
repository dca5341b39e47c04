"""`headwise compare`: the same numbers as separate runs, what is there is not trained again, several at once."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headwise.compare import experiment
from headwise.errors import DataError, Diverged, OutOfMemory
from headwise.training.ledger import account
from headwise.training.train import train
from tests.cli.test_cli_sweep import prepared

COMPARE = ["compare", "tiny.toml", "--position", "sinusoidal,none", "--seeds", "0,1", "--metric", "loss"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return prepared(tmp_path_factory.mktemp("compare"))


@pytest.fixture(autouse=True)
def _inside(folder, monkeypatch):
    monkeypatch.chdir(folder)


@pytest.fixture
def unweighed(monkeypatch):
    """Steps are not measured, which takes processes of their own."""
    monkeypatch.setattr(experiment, "_cost", lambda recipe: experiment.Cost(7, 0.5, 10.0, 1 << 20))


@pytest.mark.slow
def test_a_step_is_measured_in_a_process_of_its_own(headwise):
    code, out, err = headwise(*COMPARE, "--json")
    assert code == 0, err
    for row in map(json.loads, out.splitlines()):
        assert row["parameters"] > 100
        assert row["step_cpu_ms"] > 0
        assert row["peak_mib"] > 0


@pytest.mark.usefixtures("unweighed")
def test_tokens_are_a_budget(headwise):
    # ten in a step
    code, out, err = headwise(*COMPARE, "--budget", "tokens=30", "--runs", "tokens", "--json")
    assert code == 0, err
    assert len(out.splitlines()) == 2
    for run in Path("tokens").iterdir():
        assert json.loads((run / "manifest.json").read_text())["step"] == 3, run


@pytest.mark.usefixtures("unweighed")
@pytest.mark.slow
def test_runs_of_another_length_are_other_runs(headwise):
    losses = []
    for steps in (2, 1):
        code, out, err = headwise(*COMPARE, f"training.max_steps={steps}", "--runs", "lengths", "--json")
        assert code == 0, err
        losses.append([json.loads(line)["loss"] for line in out.splitlines()])
    assert losses[0] != losses[1]
    assert len(list(Path("lengths").iterdir())) == 8


@pytest.mark.usefixtures("unweighed")
def test_sides_have_the_scores_of_separate_runs_and_are_trained_once(headwise):
    code, out, err = headwise(*COMPARE, "--output", "report", "--json")
    assert code == 0, err
    table = {row["side"]: row for row in map(json.loads, out.splitlines())}
    assert set(table) == {"sinusoidal", "none"}
    whole = json.loads(Path("report/results.json").read_text())
    for side in whole["sides"]:
        for seed, score in side["scores"].items():
            settings = [f"model.position={side['name']}", f"seed={seed}"]
            code, _, err = headwise("train", "tiny.toml", *settings, "--run-folder", f"own/{side['name']}{seed}")
            assert code == 0, err
            code, scored, err = headwise("evaluate", f"own/{side['name']}{seed}", "--json")
            assert code == 0, err
            assert json.loads(scored)["loss"] == pytest.approx(score, abs=0)
        assert table[side["name"]]["loss"] == pytest.approx(sum(side["scores"].values()) / 2)
        assert side["cost"]["parameters"] == table[side["name"]]["parameters"] == 7
    assert Path("report/report.html").read_text().startswith("<!doctype html>")
    assert len(Path("report/rows.csv").read_text().splitlines()) == 3
    before = {path: path.stat().st_mtime_ns for path in Path("runs").rglob("*") if path.is_file()}
    code, again, err = headwise(*COMPARE, "--json")
    assert code == 0, err
    assert {path: path.stat().st_mtime_ns for path in Path("runs").rglob("*") if path.is_file()} == before
    assert [json.loads(line)["loss"] for line in again.splitlines()] == [row["loss"] for row in table.values()]


@pytest.mark.usefixtures("unweighed")
@pytest.mark.slow
def test_each_side_takes_its_best_tuned_value(headwise):
    tune = ["--tune", "training.learning_rate=0.00001,0.01,1000"]
    code, out, err = headwise(*COMPARE, *tune, "--json")
    assert code == 0, err
    assert {row["tuned"] for row in map(json.loads, out.splitlines())} == {"0.01"}
    # a seed that is not reported chose it
    assert any(path.name.endswith("learning_rate=1000") for path in Path("runs").glob("*seed=2*"))
    assert not any(path.name.endswith("learning_rate=1000") for path in Path("runs").glob("*seed=0*"))


@pytest.mark.usefixtures("unweighed")
@pytest.mark.parametrize("failure", [Diverged("no finite numbers"), ValueError("crash"), OutOfMemory("too large")])
def test_a_run_that_fails_counts_as_the_worst_and_ends_nothing(headwise, monkeypatch, failure):
    def train(recipe, folder):
        if "none" in str(folder) and recipe.seed == 1:
            raise failure
        return real(recipe, folder)

    real = experiment.train
    monkeypatch.setattr(experiment, "train", train)
    code, out, err = headwise(*COMPARE, "--runs", "failing", "--json")
    assert code == 0, err
    best, lost = map(json.loads, out.splitlines())
    assert (best["side"], lost["side"], lost["loss"], lost["failed"]) == ("sinusoidal", "none", None, 1)
    assert str(failure) in err
    monkeypatch.setattr(experiment, "train", lambda recipe, folder: (_ for _ in ()).throw(failure))
    code, out, err = headwise(*COMPARE, "--runs", "failing", "--json")
    assert (code, "every run failed" in err) == (6, True), err


@pytest.mark.usefixtures("unweighed")
def test_what_is_wrong_with_all_runs_ends_the_comparison(headwise, monkeypatch):
    monkeypatch.setattr(experiment, "train", lambda *_: (_ for _ in ()).throw(DataError("the file is gone")))
    code, _, err = headwise(*COMPARE, "--runs", "gone")
    assert (code, "the file is gone" in err) == (3, True)


@pytest.mark.slow
def test_several_processes_share_the_runs(folder):
    command = [sys.executable, "-P", "-m", "headwise", *COMPARE, "--runs", "shared", "--json"]
    several = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    answers = [process.communicate(timeout=300) for process in several]
    assert [process.returncode for process in several] == [0, 0], answers
    numbers = [[json.loads(line)["loss"] for line in out.splitlines()] for out, _ in answers]
    assert numbers[0] == numbers[1]
    at_once = subprocess.run([*command, "--jobs", "2", "--runs", "jobs"], capture_output=True, text=True, timeout=300)
    assert at_once.returncode == 0, at_once.stderr
    assert [json.loads(line)["loss"] for line in at_once.stdout.splitlines()] == numbers[0]


def test_intervals_follow_from_rows_without_the_models(headwise):
    for name in ("sinusoidal", "none"):
        code, _, err = headwise("train", "tiny.toml", f"model.position={name}", "--run-folder", f"rows/{name}")
        assert code == 0, err
        code, _, err = headwise("evaluate", f"rows/{name}", "--rows", f"{name}.jsonl", "--json")
        assert code == 0, err
    for metric in ("bleu", "loss"):
        answers = []
        for pair in (["rows/sinusoidal", "rows/none"], ["sinusoidal.jsonl", "none.jsonl"]):
            code, out, err = headwise("evaluate", pair[0], "--against", pair[1], "--metric", metric, "--json")
            assert code == 0, err
            answers.append(json.loads(out))
        code, out, err = headwise("evaluate", "rows/none", "--json")
        assert answers[0] == answers[1]
        assert answers[0][f"{metric} of the other"] == pytest.approx(json.loads(out)[metric], rel=1e-6)
        assert "bootstrap over" in answers[0]["interval"]
    code, out, err = headwise("evaluate", "none.jsonl")
    assert (code, "perplexity" in out) == (0, True), err
    for words, message in {
        ("none.jsonl", "--against", "rows/none"): "name a file of rows too",
        ("none.jsonl", "--metric", "loss"): "--metric names the score",
        ("tiny.toml",): "is no JSON",
        ("rows/none", "--against", "rows/none", "--metric", "chrf"): "metric 'chrf'",
    }.items():
        code, _, err = headwise("evaluate", *words)
        assert (code > 0, message in err) == (True, True), err


@pytest.mark.slow
def test_one_of_two_processes_is_killed_and_the_numbers_are_those_of_separate_runs(folder):
    """A file of one's own, three mechanisms, two positions, three seeds: resumed, it gives one report."""
    draw = random.Random(0)
    lines = [" ".join(draw.choices("abcd", k=2 + line % 4)) for line in range(200)]
    (folder / "own.tsv").write_text("".join(f"{line}\t{line[::-1]}\n" for line in lines))
    recipe = (folder / "tiny.toml").read_text()
    for split in ("valid", "test"):
        recipe = recipe.replace(f'{split} = "data/{split}.tsv"\n', "")
    (folder / "own.toml").write_text(recipe.replace("data/train.tsv", "own.tsv"))
    grid = ["--mechanism", "scored,linear,performer", "--position", "none,sinusoidal", "--seeds", "0,1,2"]
    command = [sys.executable, "-P", "-m", "headwise", "compare", "own.toml", *grid, "--metric", "loss"]
    command += ["--runs", "queue", "--json", "--output"]

    def started(report):
        return subprocess.Popen([*command, report], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    lost, other = started("lost"), started("other")
    while lost.poll() is None and len(list(Path("queue").glob("*/state/finished.json"))) < 3:
        time.sleep(0.05)
    lost.kill()
    lost.communicate()
    again = started("again")
    outputs = [process.communicate(timeout=600) for process in (other, again)]
    assert (other.returncode, again.returncode) == (0, 0), outputs
    reports = [json.loads(Path(name, "results.json").read_text()) for name in ("other", "again")]
    scores = [{side["name"]: side["scores"] for side in report["sides"]} for report in reports]
    assert scores[0] == scores[1]
    assert sum(map(len, scores[0].values())) == 18
    for side, by_seed in scores[0].items():
        mechanism, position = side.split(", ")
        for seed, score in by_seed.items():
            settings = [f"model.mechanism={mechanism}", f"model.position={position}", f"seed={seed}"]
            train("own.toml", f"separate/{side}{seed}", overrides=settings)
            assert account(Path(f"separate/{side}{seed}")).scores["loss"] == pytest.approx(score, abs=0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tiny.toml"], "nothing to compare"),
        (["model.position=rotary,none"], "name a recipe"),
        (["tiny.toml", "--position", "rotary,nowhere"], "nowhere"),
        (["tiny.toml", "--position", "rotary,none", "--budget", "epochs=3"], "--budget 'epochs=3'"),
        (["tiny.toml", "--position", "rotary,none", "--budget", "steps=x"], "--budget 'steps=x'"),
        (["tiny.toml", "--position", "rotary,none", "--tune", "training.learning_rate=1"], "--tune"),
        (["tiny.toml", "model.position=rotary,none", "--tune", "model.position=rotary,none,alibi"], "is tuned"),
        (["tiny.toml", "--position", "rotary,none", "--metric", "bleu_signature"], "bleu_signature"),
        (["tiny.toml", "--position", "rotary,none", "--seeds", "a"], "--seeds"),
        (["tiny.toml", "--position", "rotary,none", "--output", "tiny.toml"], "is a file"),
    ],
)
def test_what_is_wrong_is_said_before_anything_trains(headwise, words, message):
    code, out, err = headwise("compare", *words, "--runs", "never")
    assert (code, out) == (2, "")
    assert message in err
    assert not Path("never").exists()
