"""Claims that train: sides tuned alike, gone on with after a break, and runs that diverge, on tiny drawn data."""

import dataclasses
import datetime
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from headwise.cli.compare import run_folder
from headwise.compare import experiment
from headwise.compare.bench import Bench, Comparison, Design
from headwise.compare.claim import Claim, add_record, read_records, run_claim
from headwise.compare.experiment import Arm, Measured, Trained
from headwise.compare.report import section
from headwise.compare.sides import examples_variance
from headwise.compare.verdicts import Control, Interval, larger
from headwise.errors import ConfigError, Diverged
from headwise.predictors.rows import Formula, Rows
from headwise.training.sweep import Swept
from tests.cli.test_cli_sweep import RECIPE

RATES = Swept("training.learning_rate", ("0.001", "0.01", "0.1"))
PLAIN = {
    "sinusoidal": Arm("tiny.toml", ("model.position=sinusoidal",)),
    # a kind with other keys replaces the whole section
    "recurrent": Arm("tiny.toml", ('model={kind="recurrent",embed_dim=8,hidden_dim=8,num_layers=1}',)),
}


@pytest.fixture(autouse=True)
def _inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("tiny.toml").write_text(RECIPE)


def bench(full=False, jobs=1):
    runs = Path("runs")
    return Bench(full, runs, partial(run_folder, runs), jobs)


def drawn(place):
    return place.drawn("copy", 60, test=20, symbols=3, shortest=2, longest=4)


def claim(sides=PLAIN, tune=RATES, extensions=0):
    def trial(place):
        compared = place.train("copies", Design(sides, "loss", drawn(place), tune, extensions))
        first, second = sides
        cell = larger("copies", compared.difference(first, second), 0.5)
        return [cell], [Control("there is a loss", compared.mean(first) > 0, compared.mean(first))]

    return Claim("tiny", "One is better.", "nobody", "a rule", datetime.date(2026, 1, 1), trial=trial)


def stamps():
    return {path: path.stat().st_mtime_ns for path in Path("runs").glob("tiny*/*") if path.is_file()}


@pytest.mark.slow
def test_a_claim_is_trained_once_and_kept_with_its_sides(tmp_path):
    record = run_claim(claim(), bench=bench())
    assert record.variant == "quick"
    assert [side.side for side in record.sides] == list(PLAIN)
    assert all(list(side.scores) == ["0", "1", "2"] for side in record.sides)
    assert all(side.tuned in RATES.values for side in record.sides)
    # another seed than those that are reported chose
    assert sum("seed = 3" in path.read_text() for path in Path("runs").glob("*/config.toml")) == 6
    paired = [a - b for a, b in zip(record.sides[1].scores.values(), record.sides[0].scores.values(), strict=True)]
    assert record.cells[0].value == pytest.approx(sum(paired) / 3)
    assert any("parameters" in note for note in record.notes)
    own = Arm("tiny.toml", tuple(drawn(bench())))
    bench_of_paths = bench()
    bench_of_paths._keep("copies", "own", own, "loss", Trained({}, {}, {}, None, False))
    assert bench_of_paths.sides[0].settings[0].startswith("data.train=drawn/copy-60-20")
    add_record(tmp_path / "records.jsonl", record)
    assert read_records(tmp_path / "records.jsonl") == [record]
    assert "| copies | recurrent |" in section(claim(), record)
    before = stamps()
    again = run_claim(claim(), bench=bench())
    assert stamps() == before
    assert (again.cells, again.sides, again.notes) == (record.cells, record.sides, record.notes)


@pytest.mark.slow
def test_a_claim_that_is_broken_off_goes_on(monkeypatch):
    real, trained = experiment.train, []

    def broken(recipe, folder):
        if len(trained) == 4:
            raise KeyboardInterrupt
        trained.append(folder)
        return real(recipe, folder)

    monkeypatch.setattr(experiment, "train", broken)
    with pytest.raises(KeyboardInterrupt):
        run_claim(claim(), bench=bench())
    before = stamps()
    monkeypatch.setattr(experiment, "train", real)
    record = run_claim(claim(), bench=bench())
    assert {path: time for path, time in stamps().items() if path in before} == before
    Path("runs").rename("old")
    assert run_claim(claim(), bench=bench()).sides == record.sides


def test_a_run_that_diverges_has_the_worst_score_and_the_record_says_so():
    sides = {
        "good": Arm("tiny.toml", ("training.learning_rate=0.01",)),
        "bad": Arm("tiny.toml", ("training.learning_rate=1e38", "training.optimizer=sgd", "training.clip_norm=0")),
    }
    record = run_claim(claim(sides, None), bench=bench())
    good, bad = record.sides
    assert bad.diverged == [0, 1, 2]
    # of a loss nothing is the worst there can be: that of the worst run that has one
    assert set(bad.scores.values()) == {max(good.scores.values())}
    for seed in (0, 1, 2):
        words = f"copies: bad failed with seed {seed}, which counts as the worst score ("
        assert any(note.startswith(words) and "finite" in note for note in record.notes)
    assert any("nothing was tuned" in note for note in record.notes)
    with pytest.raises(Diverged, match="nothing can be compared"):
        run_claim(
            claim({"bad": sides["bad"], "worse": Arm("tiny.toml", (*sides["bad"].settings, "model.d_ff=4"))}, None),
            bench=bench(),
        )


@pytest.mark.slow
def test_tuning_goes_on_for_all_sides_where_one_is_at_an_end():
    sides = {"sinusoidal": PLAIN["sinusoidal"], "none": Arm("tiny.toml", ("model.position=none",))}
    low = Swept("training.learning_rate", ("0.00001", "0.00002", "0.00004"))
    record = run_claim(claim(sides, low, extensions=1), bench=bench())
    # two steps at such rates: the largest is the best, for both
    assert [side.tuned for side in record.sides] == ["8e-05", "8e-05"]
    assert all(side.at_edge for side in record.sides)
    assert any("first or last" in note for note in record.notes)


def test_a_claim_that_trains_needs_a_place():
    with pytest.raises(ConfigError, match="folder for their runs"):
        run_claim(claim())
    with pytest.raises(ConfigError, match="one of measure and trial"):
        Claim("x", "X.", "y", "z", datetime.date(2026, 1, 1))


def test_scores_by_group():
    place = bench()
    compared = place.train("copies", Design({**PLAIN}, "loss", drawn(place)))
    run = compared.folders("sinusoidal")[0]

    def length(pair):
        words = len(pair.source.split())
        return str(words) if words > 2 else None

    by_length = place.score_by(run, "accuracy", length)
    assert set(by_length) == {"3", "4"}
    assert all(0 <= score.value() <= 1 for score in by_length.values())


def test_an_interval_is_over_seeds_and_the_examples_that_both_sides_have():
    right = np.random.default_rng(0).integers(0, 2, (2, 3, 40)).astype(float)
    rows = [
        [Rows({"right": row.tolist()}, {"accuracy": Formula("mean", ("right",))}, "q", "texts") for row in side]
        for side in right
    ]
    sides = {
        name: Trained(
            {},
            {},
            dict(enumerate(table.mean(1))),
            None,
            False,
            dict(enumerate(Measured(None, row, None) for row in own)),
        )
        for name, table, own in zip("ab", right, rows, strict=True)
    }
    compared, ahead = Comparison("accuracy", "high", sides), right[0] - right[1]
    spread = ahead.mean(1).var(ddof=1) / 3 + ahead.mean(0).var(ddof=1) / 40
    assert compared.difference("a", "b").value == pytest.approx(ahead.mean())
    assert compared.difference("a", "b").half == pytest.approx(stats.t.ppf(0.975, 2) * spread**0.5)
    own = right[0].mean(1).var(ddof=1) / 3 + right[0].mean(0).var(ddof=1) / 40
    assert compared.interval("a").half == pytest.approx(stats.t.ppf(0.975, 2) * own**0.5)
    # where a run failed nothing is known of its examples
    failed = dataclasses.replace(sides["b"], measured={})
    alone = Comparison("accuracy", "high", {"a": sides["a"], "b": failed}).difference("a", "b")
    assert alone.half == pytest.approx(stats.t.ppf(0.975, 2) * (ahead.mean(1).var(ddof=1) / 3) ** 0.5)


def test_answers_that_are_all_alike_have_an_interval_of_one_example():
    def rows(values):
        return Rows({"right": values}, {"accuracy": Formula("mean", ("right",))}, "q", "texts").resampled()

    assert examples_variance([rows([1.0] * 50)] * 3) == pytest.approx(1 / 50**2)
    assert examples_variance([rows([1.0] * 50)], [rows([1.0] * 50)]) == pytest.approx(1 / 50**2)
    # nothing was ever right, on either side
    assert examples_variance([rows([0.0] * 50)], [rows([0.0] * 50)]) == 0.0
    mixed = [1.0, 0.0] * 25
    assert examples_variance([rows(mixed)]) == pytest.approx(np.var(mixed, ddof=1) / 50)
    assert examples_variance([]) == 0.0


def test_a_crash_decides_nothing_and_is_named(monkeypatch):
    real = experiment.train

    def crashing(recipe, folder):
        if "recurrent" in str(recipe.model) and recipe.seed == 1:
            raise ValueError("an own model's fault")
        return real(recipe, folder)

    monkeypatch.setattr(experiment, "train", crashing)
    record = run_claim(claim(tune=None), bench=bench())
    assert record.verdict == "undecided"
    assert {cell.outcome for cell in record.cells} == {"undecided"}
    assert "copies: recurrent, seed 1: ValueError: an own model's fault" in record.why
    assert record.sides[1].diverged == [1]
    # mended, the same command decides
    monkeypatch.setattr(experiment, "train", real)
    assert "crashed" not in run_claim(claim(tune=None), bench=bench()).why


@pytest.mark.slow
def test_a_crash_in_tuning_is_named_too(monkeypatch):
    real = experiment.train

    def crashing(recipe, folder):
        if recipe.training.learning_rate == 0.01:
            raise ValueError("no room")
        return real(recipe, folder)

    monkeypatch.setattr(experiment, "train", crashing)
    record = run_claim(claim(), bench=bench())
    assert record.verdict == "undecided"
    assert "seed 3 of tuning: ValueError: no room" in record.why


@pytest.mark.slow
def test_models_are_trained_the_same_way():
    place = bench()
    runs = place.models("copies", "tiny.toml", drawn(place), [0, 4])
    assert [(run / "config.toml").read_text().count(f"seed = {seed}") for run, seed in zip(runs, (0, 4), strict=True)]
    before = stamps()
    again = bench()
    assert again.models("copies", "tiny.toml", drawn(again), [0, 4]) == runs
    assert stamps() == before
    assert [side.side for side in again.sides] == ["tiny.toml"]
    assert list(again.sides[0].scores) == ["0", "4"]


def test_a_width_of_nothing_is_not_called_exact(tmp_path):
    record = run_claim(claim(tune=None), bench=bench())
    cell = record.cells[0]
    alike = record.model_copy(update={"cells": [type(cell)("copies", 0.5, 0.5, 0.5, "undecided")]})
    assert "| copies | 0.5 | no width: a count, or all runs agree | undecided |" in section(claim(), alike)
    assert "| copies | 0.5 | exact |" in section(claim(), alike.model_copy(update={"sides": []}))
    single = record.model_copy(
        update={"cells": [type(cell).of("copies", Interval.of([0.5]), lambda interval: "undecided")]}
    )
    assert "no limit to no limit" in section(claim(), single)
    add_record(tmp_path / "records.jsonl", single)
    assert read_records(tmp_path / "records.jsonl") == [single]
