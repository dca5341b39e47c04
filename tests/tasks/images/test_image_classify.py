"""Image classification on tiny stripes: from files to batches, losses, scores, run folders and back to a classifier."""

import json

import numpy as np
import pytest
import torch
from life import baselines_of, built_of, fitted, restored, scores_of, steps, task_of
from pictures import folder_of, idx, npz, stripes

import headwise
from headwise.data.sources import Limits
from headwise.errors import CheckpointError, ConfigError
from headwise.tasks import registry
from headwise.tasks.images.image_classify import ImageClassify
from headwise.tasks.task import Assets
from headwise.training.train import train

CNN = {"kind": "cnn", "width": 4, "stages": 2, "dropout": 0.0}
VIT = {
    "kind": "vit",
    "patch": 4,
    "d_model": 8,
    "d_ff": 11,
    "num_heads": 2,
    "encoder_layers": 1,
    "dropout": 0.0,
    "position": "sinusoidal_2d",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    root = tmp_path_factory.mktemp("images")
    images, labels = stripes(60)
    folder_of(root / "train", images, labels)
    others, their = stripes(11, seed=1)
    (root / "valid.npz").write_bytes(npz(images=others, labels=np.array(["columns", "rows"])[their]))
    strange = np.array(["columns", "rows", "spots"])[[0, 1, 2, 2]]
    (root / "strange.npz").write_bytes(npz(images=others[:4], labels=strange))
    return root


@pytest.fixture
def make(files):
    def made(model=CNN, data=None, **fields):
        data = {"train": str(files / "train"), "test_fraction": 0.0, **(data or {})}
        return task_of("image-classify", {"data": data, "model": model, **fields})

    return made


def test_is_found_by_name():
    assert registry.task_type("image-classify") is ImageClassify
    assert "image-classify" in registry.task_names()


def test_batches_are_of_the_images_asked_for(make):
    task = make()
    total = len(task.split("train"))
    source = task.source("train", Limits(4096, sentences=7, seed=1))
    batches = list(source.once())
    assert [len(batch.indices) for batch in batches] == [7] * (total // 7) + [total % 7] * (total % 7 > 0)
    assert sorted(at for batch in batches for at in batch.indices) == list(range(total))
    for batch in batches:
        for row, at in enumerate(batch.indices):
            image = task.split("train")
            assert torch.equal(batch.pixels[row, 0], torch.from_numpy(image.pixels[at, ..., 0]))
            assert task.known.classes[batch.labels[row]] == image.labels[at]
    # the first of a folder are all of one class: a part of them is drawn
    few = next(iter(task.source("train", Limits(9, examples=20)).once()))
    assert len(few.indices) == 20
    assert few.indices != list(range(20))
    assert make(data={"valid_fraction": 0.0}).source("valid", Limits(9)) is None


def test_evaluation_has_the_same_order_in_every_pass_and_both_classes_at_its_beginning(make):
    task = make(data={"valid_fraction": 0.4})
    first = [batch.indices for batch in task.source("valid", Limits(9, sentences=5, seed=1)).once()]
    assert [batch.indices for batch in task.source("valid", Limits(9, sentences=5, seed=2)).once()] == first
    (some,) = task.source("valid", Limits(9, examples=8)).once()
    assert set(some.labels.tolist()) == {0, 1}


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_is_the_sum_over_images_whose_class_is_known(make, files, smoothing):
    task = make(data={"valid": str(files / "strange.npz")}, label_smoothing=smoothing)
    model = built_of(task).double().eval()
    # bytes become float32; in float64 the model would not take them
    model.standardized = torch.nn.Sequential(model.standardized, ToDouble())
    batch = task.collate("valid", [0, 1, 2, 3])
    odds = model(batch.pixels).log_softmax(-1)
    total = sum(-(1 - smoothing) * odds[row, row] - smoothing * odds[row].mean() for row in (0, 1))
    torch.testing.assert_close(task.loss(model, batch), total, rtol=1e-12, atol=1e-12)
    assert batch.labels.tolist() == [0, 1, 2, 2]
    if not smoothing:
        scores = scores_of(task, model, "valid")
        assert scores["loss"] == pytest.approx(float(total.detach()) / 2)
        # what training lacks cannot be right
        assert scores["accuracy"] <= 0.5


class ToDouble(torch.nn.Module):
    def forward(self, x):
        return x.double()


def test_scores_are_those_of_the_predictor(make, files):
    task = make(data={"valid": str(files / "valid.npz")})
    model = built_of(task).eval()
    scores = scores_of(task, model, "valid")
    told = task.predictor(model).evaluate(list(task.split("valid").images()))
    assert list(scores) == [metric.name for metric in task.metrics]
    for name in ("accuracy", "macro_f1"):
        assert scores[name] == pytest.approx(told[name])


def test_examples_are_those_of_the_part(make, files):
    held = make().config
    assert len(ImageClassify.examples(held, "valid")) == len(make().split("valid"))
    own = make(data={"valid": str(files / "valid.npz")}).config
    found = ImageClassify.examples(own, "valid")
    assert [image.label for image in found][:2] == ["columns", "rows"]
    assert ImageClassify.examples(held, "test") == []


def test_files_restore_a_classifier(make):
    task = make(VIT)
    assert list(task.assets.files) == ["images.json"]
    model, images = built_of(task).eval(), list(task.split("train").images())[:5]
    assert restored(task, model).predict(images) == task.predictor(model).predict(images)
    again = ImageClassify(task.config, Assets(task.assets.files))
    assert (again.split("train"), again.samples(model)) == (None, [])


@pytest.mark.parametrize(
    "change",
    [
        lambda known: [],
        lambda known: {},
        lambda known: {**known, "classes": []},
        lambda known: {**known, "classes": [1, 2]},
        lambda known: {**known, "mean": [0.5, 0.5]},
        lambda known: {**known, "deviation": ["x"]},
        lambda known: {**known, "shape": [8, 8]},
        lambda known: {**known, "shape": [8, 0, 1]},
        lambda known: {**known, "more": 1},
    ],
)
def test_damaged_files_are_named(make, change):
    task = make()
    known = json.loads(task.assets.files["images.json"])
    with pytest.raises(CheckpointError, match=r"images\.json: does not tell classes, shape and constants; restore it"):
        ImageClassify(task.config, Assets({"images.json": json.dumps(change(known)).encode()}))
    with pytest.raises(CheckpointError, match=r"images.json: does not tell"):
        ImageClassify(task.config, Assets({"images.json": b"{"}))


def test_the_receptive_field_is_told(make):
    task = make()
    assert task.initialise(built_of(task), 0) == ["a place of the last map sees 13 x 13 pixels of the image of 8 x 8"]
    assert make(VIT).initialise(built_of(make(VIT)), 0) == []


def test_samples_and_card_tell_what_is_said(make):
    task = make(num_shown=2)
    lines = task.samples(built_of(task).eval())
    assert len(lines) == 2
    assert lines[0].split(" ")[1] in ("(columns)", "(rows)")
    card = task.card({"accuracy": 0.98765})
    assert "kind cnn that reads images of 8 x 8 pixels of 1 channel and tells 2 classes apart" in card
    assert "accuracy 0.9877" in card


def test_a_model_that_does_not_fit_the_images_is_refused(make):
    with pytest.raises(ConfigError, match=r"model.patch \(3\) must divide the image of 8 x 8 pixels"):
        make(VIT | {"patch": 3}).build()


@pytest.mark.parametrize("model", [CNN, VIT], ids=["cnn", "vit"])
def test_rows_are_told_from_columns(make, model):
    task = make(model, data={"valid_fraction": 0.3}, augmentation={"shift": 1, "flip": True})
    assert scores_of(task, fitted(task, 36, Limits(9, sentences=16)))["accuracy"] >= 0.9


def recipe(files, number, model):
    return {
        "task": "image-classify",
        "data": {"train": str(files / "train"), "valid": str(files / "valid.npz"), "test_fraction": 0.0},
        "augmentation": {"shift": 2, "flip": True},
        "model": model,
        "training": steps(number, monitor="accuracy", batch_sentences=13, ema_decay=0.5),
    }


def test_a_run_knows_its_images_wherever_they_lie(files, tmp_path):
    images, labels = stripes(60)
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        (tmp_path / place / f"{place}-images-idx3").write_bytes(idx(images))
        (tmp_path / place / f"{place}-labels-idx1").write_bytes(idx(labels))
    values = recipe(files, 2, CNN)
    values["data"] = {"train": str(tmp_path / "a" / "a-images-idx3"), "test_fraction": 0.0, "valid_fraction": 0.2}
    train(values, tmp_path / "run")
    values["data"]["train"] = str(tmp_path / "b" / "b-images-idx3")
    values["training"]["max_steps"] = 3
    assert train(values, tmp_path / "run", resume="must").steps == 3
    (tmp_path / "b" / "b-labels-idx1").write_bytes(idx(1 - labels))
    values["training"]["max_steps"] = 4
    with pytest.raises(headwise.DataError, match="the data has changed since this run began: train_target"):
        train(values, tmp_path / "run", resume="must")


def test_pixels_are_a_baseline(make):
    task = make(VIT, {"valid_fraction": 0.3})
    examples = task.examples(task.config, "valid")
    predictor = task.predictor(built_of(task))
    whole = predictor.table(examples[:2], 99)
    assert whole.shape == (2, np.prod(examples[0].pixels.shape))
    assert sorted(whole[0]) == pytest.approx(sorted(examples[0].pixels.ravel() / 255))
    # means over squares of a larger picture
    small = predictor.table(examples[:2], 4)
    assert small.shape[1] < whole.shape[1]
    assert small.mean(1) == pytest.approx(whole.mean(1), abs=1e-3)
    found = baselines_of(task, built_of(task), examples)
    assert set(found) == {"majority", "pixels and logistic regression"}
    assert found["pixels and logistic regression"]["accuracy"] >= found["majority"]["accuracy"]
