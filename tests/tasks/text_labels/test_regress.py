"""Regression of texts on tiny data: the scale of the numbers, losses, scores, run folders, back to a regressor."""

import math

import pytest
import torch
from life import baselines_of, built_of, fitted, task_of

from headwise.data.sources import Limits
from headwise.errors import CheckpointError, DataError
from headwise.tasks.task import Assets, Given
from headwise.tasks.text_labels.regress import Regress

WORTH = {"a": 1.0, "b": 2.0, "c": 4.0, "d": -3.0}


def rows():
    """Texts of letters, each worth the mean of its letters, far from zero."""
    return [(f"{x} {y} {z}", 1000 + (WORTH[x] + WORTH[y] + WORTH[z]) / 3) for x in WORTH for y in WORTH for z in WORTH]


@pytest.fixture
def files(tmp_path):
    (tmp_path / "train.tsv").write_text("text\tlabel\n" + "".join(f"{text}\t{value!r}\n" for text, value in rows()))
    return tmp_path


@pytest.fixture
def task(files):
    return of_letters(files)


def of_letters(files, **data):
    values = {
        "data": {"train": str(files / "train.tsv"), "valid_fraction": 0.2, "test_fraction": 0.1} | data,
        "tokenizer": {"kind": "word", "vocab_size": 40},
        "model": {"kind": "token", "d_model": 8, "d_ff": 8, "dropout": 0.0},
    }
    return task_of("regress", values)


def labels_of(task, split):
    return [example.label for example in task.assets.data[split].examples]


def test_the_scale_is_that_of_training(task):
    labels = labels_of(task, "train")
    mean = sum(labels) / len(labels)
    deviation = math.sqrt(sum((label - mean) ** 2 for label in labels) / len(labels))
    assert task.scale == pytest.approx((mean, deviation))
    targets = task.assets.data["train"].rows.targets
    assert (targets.mean(), targets.std()) == pytest.approx((0.0, 1.0), abs=1e-6)
    valid = labels_of(task, "valid")
    apart = math.sqrt(sum((label - mean) ** 2 for label in valid) / len(valid))
    assert task.assets.notes[0] == f"valid: always saying {mean:.4g}, the mean of training, has an RMSE of {apart:.4g}"


def test_scores_are_on_the_scale_of_the_data(task):
    model = built_of(task).eval()
    with torch.no_grad():
        scores = task.summarise(task.measure(model, task.source("valid", Limits(9)).once()))
    assert list(scores) == [metric.name for metric in task.metrics]
    examples = task.assets.data["valid"].examples
    regressor = task.predictor(model)
    said, gold = regressor.predict([example.text for example in examples]), labels_of(task, "valid")
    squares = sum((a - b) ** 2 for a, b in zip(said, gold, strict=True))
    mean = sum(gold) / len(gold)
    expected = {
        "mae": sum(abs(a - b) for a, b in zip(said, gold, strict=True)) / len(gold),
        "rmse": math.sqrt(squares / len(gold)),
        "r2": 1 - squares / sum((b - mean) ** 2 for b in gold),
    }
    assert {name: scores[name] for name in expected} == pytest.approx(expected, rel=1e-4)
    told = regressor.evaluate(examples)
    assert {name: told[name] for name in expected} == pytest.approx(expected, rel=1e-4)
    constant = baselines_of(task, model, examples)["mean of training"]
    assert constant["mae"] == pytest.approx(sum(abs(b - task.scale.mean) for b in gold) / len(gold))
    assert scores["loss"] == pytest.approx(scores["rmse"] ** 2 / task.scale.deviation**2)


def test_other_data_is_read_with_the_scale_of_a_run(task, files):
    (files / "train.tsv").write_text("text\tlabel\n" + "".join(f"a {n}\t5\n" for n in range(30)))
    again = Regress.prepare_with(task.config, Given(task.assets.files))
    assert again.files == task.assets.files
    assert again.data["train"].rows.targets[0] == pytest.approx((5 - task.scale.mean) / task.scale.deviation)


def test_loss_is_the_sum_of_squares_of_standardised_numbers(task):
    model, batch = built_of(task).double(), next(task.source("train", Limits(99)).once())
    said = model(batch.tokens, batch.lens)[:, 0]
    gold = [(labels_of(task, "train")[number] - task.scale.mean) / task.scale.deviation for number in batch.indices]
    expected = sum((a - b) ** 2 for a, b in zip(said, gold, strict=True))
    torch.testing.assert_close(task.loss(model, batch), expected, rtol=1e-5, atol=1e-9)


def test_numbers_that_are_equal_or_none_are_refused(files):
    (files / "train.tsv").write_text("text\tlabel\na\t1\nb\t1.0\n")
    with pytest.raises(
        DataError, match=r"train.tsv: every text of the training part has the number 1.0: nothing to lear"
    ):
        of_letters(files, valid_fraction=0.0, test_fraction=0.0)
    (files / "train.tsv").write_text("text\tlabel\na\tgood\n")
    with pytest.raises(DataError, match=r"train.tsv:2: 'good' is no number; write it with digits and a point"):
        of_letters(files)


@pytest.mark.parametrize("data", [b"[]", b"{", b'{"mean": 1.0, "deviation": 0.0}', b'{"mean": NaN, "deviation": 1.0}'])
def test_damaged_files_are_named(task, data):
    with pytest.raises(CheckpointError, match=r"scale.json: not a mean and a deviation; restore it"):
        Regress(task.config, Assets({**task.assets.files, "scale.json": data}))


def test_the_mean_of_letters_is_learned(task):
    model = fitted(task, 50, Limits(999))
    scores = task.predictor(model).evaluate(task.assets.data["valid"].examples)
    assert scores["r2"] > 0.95
    found = baselines_of(task, model, task.assets.data["valid"].examples)
    assert scores["rmse"] < 0.3 * found["mean of training"]["rmse"]
    assert [line.split(" → ")[0] for line in task.samples(model)] == [
        example.text for example in task.assets.data["valid"].examples[:4]
    ]


def test_words_and_pairs_of_words_are_a_baseline(task):
    found = baselines_of(task, built_of(task), task.assets.data["valid"].examples)
    # the number is a sum over words, but for the length of the vector of a text
    assert found["TF-IDF and ridge regression"]["rmse"] < 0.6 * found["mean of training"]["rmse"]
