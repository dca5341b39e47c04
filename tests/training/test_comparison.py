"""Models baselines_of their baselines: the verdict in words, the limit of time, and what a run keeps and survives."""

import json
import signal
from pathlib import Path

import pytest

from headwise.predictors.baselines import Baseline, of_labels, of_numbers
from headwise.tasks.task import Metric
from headwise.tasks.text_labels.classify import Classify
from headwise.training.comparison import Comparison, compare, compare_with_baselines
from headwise.training.loading import baselines_of, data_digests, examples, load, recipe_of
from headwise.training.train import train

METRICS = (Metric("loss", "low"), Metric("accuracy", "high"), Metric("mse", "low"))
RECIPE = {
    "task": "classify",
    "data": {"train": "train.tsv", "test": "test.tsv", "valid_fraction": 0.2, "columns": [0, 1]},
    "tokenizer": {"kind": "word"},
    "model": {"kind": "token", "d_model": 4, "d_ff": 4},
    "pooling": {"kind": "mean"},
    "training": {
        "max_steps": 1,
        "max_epochs": 0,
        "warmup_steps": 0,
        "learning_rate": 1e-9,
        "validate_every": 1,
        "monitor": "accuracy",
    },
}


def words(found, baselines, monitor="loss"):
    return str(compare(METRICS, monitor, found, baselines))


def test_the_best_baseline_is_named_with_both_scores():
    simple = [Baseline("majority", {"accuracy": 0.5}), Baseline("SGC", {"accuracy": 0.82, "mse": 1.0})]
    assert words({"loss": 0.1, "accuracy": 0.788}, simple) == "accuracy 78.8 %: worse than SGC (82.0 %)"
    best = "accuracy 84.1 %: better than the best baseline, SGC (82.0 %)"
    assert words({"loss": 0.1, "accuracy": 0.841}, simple) == best
    # what is the same as printed is equal
    assert words({"accuracy": 0.82004}, simple) == "accuracy 82.0 %: equal to SGC (82.0 %)"
    # of an error less is better, and the monitored metric comes first
    errors = [Baseline("linear", {"mse": 1.92, "accuracy": 0.0}), Baseline("AR(9)", {"mse": 1.04})]
    assert words({"mse": 2.5, "accuracy": 1.0}, errors, "mse") == "mse 2.5: worse than AR(9) (1.04)"


def test_a_difference_within_its_interval_is_equal():
    # 1.96 sqrt((0.788 * 0.212 + 0.82 * 0.18) / count) is 0.0258 of 1,821 and 0.0372 of 872
    for count, verdict in ((1821, "worse"), (872, "equal")):
        found = compare(METRICS, "accuracy", {"accuracy": 0.788}, [Baseline("SGC", {"accuracy": 0.82}, count)])
        assert found.verdict == verdict
    assert str(found) == (
        "accuracy 78.8 %: no clear difference from SGC (82.0 %; 95 % interval of the difference ± 3.7 %)"
    )


def test_without_a_common_score_there_is_no_comparison():
    assert compare(METRICS, "loss", {"accuracy": 0.5}, []) is None
    assert compare(METRICS, "loss", {"accuracy": 0.5}, [Baseline("mean", {"rmse": 1.0})]) is None
    assert compare(METRICS, "loss", {"accuracy": float("nan")}, [Baseline("a", {"accuracy": 1.0})]) is None
    # a loss is compared where nothing else is
    assert compare(METRICS, "accuracy", {"loss": 1.0}, [Baseline("zeros", {"loss": 2.0})]).metric == "loss"


def test_only_a_worse_model_is_warned_of():
    worse = Comparison("mse", 2.0, "linear", 1.0, "worse", None)
    assert worse.warning == "warning: mse 2: worse than linear (1)"
    assert not Comparison("mse", 1.0, "linear", 2.0, "better", None).warning.startswith("warning")


def test_scores_of_labels_and_numbers():
    assert of_labels("x", ["a", "a", "b"], ["a", "b", "b"]).scores["accuracy"] == pytest.approx(2 / 3)
    assert of_numbers("x", [1.0, 4.0], [1.0, 2.0]).scores == pytest.approx({"mae": 1.0, "rmse": 2**0.5, "r2": -7.0})
    assert of_numbers("x", [1.0], [2.0]).scores["r2"] != of_numbers("x", [1.0], [2.0]).scores["r2"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [
        f"it is {word} {place}\t{label}" for place in range(20) for word, label in (("fine", "good"), ("dull", "bad"))
    ]
    Path("train.tsv").write_text("\n".join(lines) + "\n")
    Path("test.tsv").write_text("so fine\tgood\nso dull\tbad\nvery fine\tgood\nvery fine\tgood\n")
    return tmp_path / "run"


def test_a_run_says_that_it_is_worse_in_log_readme_and_result(folder):
    done = train(RECIPE, folder)
    # a model that has not learned
    sentence = f"accuracy {100 * done.metrics['accuracy']:.1f} %: worse than TF-IDF and logistic regression (100.0 %)"
    assert done.comparison == f"warning: {sentence}"
    assert f"warning: {sentence}" in (folder / "log.txt").read_text()
    readme = (folder / "README.md").read_text()
    assert f"## Baselines\n\nValidation {sentence}." in readme
    assert "| majority | accuracy 0.625, macro_f1 0.3846 |" in readme
    facts = json.loads((folder / "state" / "finished.json").read_text())
    assert facts["baselines"]["TF-IDF and logistic regression"]["accuracy"] == 1.0
    # as it was noted, when the same command finds the run at its end
    assert train(RECIPE, folder).comparison == done.comparison


def test_what_is_scored_has_its_own_majority_and_the_training_data_is_checked(folder):
    train(RECIPE, folder, overrides=["training.valid_limit=4"])
    predictor, found = load(folder), examples(folder)
    scores = predictor.evaluate(found)
    # training has as many of one class as of the other
    told = baselines_of(folder, predictor, found, scores)
    assert told.scores()["majority"]["accuracy"] == 0.75
    assert told.scores()["TF-IDF and logistic regression"]["accuracy"] == 1.0
    Path("train.tsv").write_text(Path("train.tsv").read_text() + "it is odd\tbad\n")
    changed = baselines_of(folder, predictor, found, scores)
    assert list(changed.scores()) == ["majority"]
    assert changed.notes == [
        "baselines: those fitted to the training data are left out: it has changed or is not there"
    ]


def test_a_limited_validation_has_the_majority_of_what_it_selects(folder, monkeypatch):
    # of one class, so that no other part has this majority
    monkeypatch.setattr(Classify, "select", lambda self, examples, count: [examples[0]] * count)
    train(RECIPE, folder, overrides=["training.valid_limit=4"])
    facts = json.loads((folder / "state" / "finished.json").read_text())
    assert facts["baselines"]["majority"]["accuracy"] == 1.0
    note = "compared on a part of the validation data: training.valid_limit = 4"
    assert note in (folder / "log.txt").read_text()


@pytest.fixture
def finished(folder):
    train(RECIPE, folder, overrides=["training.baseline_cpu_s=0"])
    return folder


def beside_within(run, seconds, clock):
    recipe = recipe_of(run)
    training = recipe.training.model_copy(update={"baseline_cpu_s": seconds})
    recipe = recipe.model_copy(update={"training": training})
    return compare_with_baselines(recipe, load(run), examples(run), {"accuracy": 1.0}, data_digests(run), clock)


def test_no_other_baseline_is_fitted_once_the_time_is_spent(finished):
    moments = iter([0.0, 0.0, 7.0])
    found = beside_within(finished, 5.0, lambda: next(moments))
    assert list(found.scores()) == ["majority"]
    assert found.notes == ["baselines: after 7 CPU s no other is fitted (training.baseline_cpu_s = 5)"]
    nothing = beside_within(finished, 0.0, lambda: 0.0)
    assert (nothing.scores(), nothing.notes, nothing.comparison) == ({}, (), None)
    assert "Baselines" not in (finished / "README.md").read_text()


def test_a_baseline_that_fails_is_a_note(finished, monkeypatch):
    def broken(config, predictor, examples):
        yield Baseline("constant", {"accuracy": 0.25})
        raise ValueError("no")

    monkeypatch.setattr(Classify, "baselines", broken)
    found = beside_within(finished, 5.0, lambda: 0.0)
    assert list(found.scores()) == ["majority", "constant"]
    assert found.notes == ["baselines: left out from here: ValueError: no"]


def test_data_that_is_gone_at_the_end_is_a_note(folder, monkeypatch):
    monkeypatch.setattr(Classify, "examples", lambda config, split: Path("nowhere").read_text())
    assert train(RECIPE, folder).comparison is None
    assert "baselines are left out: FileNotFoundError(2" in (folder / "log.txt").read_text()


def test_a_signal_leaves_them_out_and_the_run_is_whole(folder, monkeypatch):
    def interrupted(config, predictor, examples):
        signal.raise_signal(signal.SIGINT)
        yield Baseline("never", {"accuracy": 1.0})

    monkeypatch.setattr(Classify, "baselines", interrupted)
    done = train(RECIPE, folder)
    assert (done.steps, done.comparison) == (1, None)
    assert "baselines are left out: stopped by SIGINT" in (folder / "log.txt").read_text()
    assert load(folder).predict("so fine")
    assert train(RECIPE, folder, resume="must") == done
