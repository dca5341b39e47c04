"""Labels of pixels on tiny stripes: from files to batches, losses, scores, run folders and back to a labeller."""

import json
import math

import numpy as np
import pytest
import torch
from life import built_of, fitted, restored, scores_of, steps, task_of
from pictures import encoded, npz, stripes
from torch.nn import functional as F

import headwise
from headwise.data.sources import Limits
from headwise.errors import CheckpointError, ConfigError
from headwise.explain.places import NO_CLASS
from headwise.tasks import registry
from headwise.tasks.images.image_segment import ImageSegment
from headwise.tasks.images.pixels import Image
from headwise.tasks.task import Assets
from headwise.training.train import train

CNN = {"kind": "cnn", "width": 4, "stages": 2, "dropout": 0.0}
SAGAN = {**CNN, "kind": "attention_cnn", "width": 8, "attention_after": 2}
VIT = {
    "kind": "vit",
    "patch": 2,
    "d_model": 12,
    "d_ff": 16,
    "num_heads": 2,
    "encoder_layers": 1,
    "dropout": 0.0,
    "position": "sinusoidal_2d",
}


def masked(count=60, seed=0):
    """(pictures, masks): light pixels are of label 5, the others of label 2; the last column counts nowhere."""
    pixels, _ = stripes(count, seed=seed)
    masks = np.where(pixels > 150, 5, 2).astype(np.uint8)
    masks[:, :, -1] = 9
    return pixels, masks


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    root = tmp_path_factory.mktemp("masks")
    for kind, arrays in zip(("pictures", "masks"), masked(), strict=True):
        (root / kind).mkdir()
        for number, array in enumerate(arrays):
            (root / kind / f"{number:03}.png").write_bytes(encoded(array))
    pixels, masks = masked(11, seed=1)
    (root / "valid.npz").write_bytes(npz(images=pixels, masks=masks))
    masks[0] = 7
    masks[1] = 9
    (root / "strange.npz").write_bytes(npz(images=pixels, masks=masks))
    return root


@pytest.fixture
def make(files):
    def made(model=CNN, data=None, **fields):
        given = {"train": str(files / "pictures"), "train_target": str(files / "masks"), "ignore": 9}
        data = {**given, "test_fraction": 0.0, **(data or {})}
        return task_of("image-segment", {"data": data, "model": model, **fields})

    return made


def test_is_found_by_name():
    assert registry.task_type("image-segment") is ImageSegment
    assert "image-segment" in registry.task_names()


def test_batches_are_of_the_pictures_asked_for_with_the_classes_of_their_pixels(make):
    task = make()
    images = task.split("train")
    assert (task.known.classes, task.known.labels, task.known.frequent) == (["2", "5"], [2, 5], 0)
    batches = list(task.source("train", Limits(4096, sentences=7, seed=1)).once())
    assert sorted(at for batch in batches for at in batch.indices) == list(range(len(images)))
    for batch in batches:
        assert batch.num_tokens == len(batch.indices) * 8 * 7
        for row, at in enumerate(batch.indices):
            assert batch.pixels[row, 0].tolist() == images.pixels[at, ..., 0].tolist()
            wanted = np.where(images.masks[at] < 0, 255, images.masks[at] == 5)
            assert batch.masks[row].tolist() == wanted.tolist()
    assert make(data={"valid_fraction": 0.0}).source("valid", Limits(9)) is None


def test_loss_is_the_sum_over_pixels_whose_class_is_known(make, files):
    task = make(data={"valid": str(files / "strange.npz")})
    model = built_of(task).eval()
    batch = task.collate("valid", [0, 1, 2])
    # of the first all labels are unknown, of the second none counts
    assert batch.num_tokens == 8 * 7
    with torch.no_grad():
        odds = model(batch.pixels)[2].log_softmax(0)
        gold = batch.masks[2].long()
        total = -sum(odds[gold[row, column], row, column] for row in range(8) for column in range(7))
        torch.testing.assert_close(task.loss(model, batch), total, rtol=1e-5, atol=1e-4)
        stats = task.measure(model, [batch])
    assert stats["known"] == 56
    assert task.summarise(stats)["loss"] == pytest.approx(float(total) / 56, rel=1e-5)
    # pixels of labels that training lacks are wrong; those that count nowhere are neither
    right = stats["right_0"] + stats["right_1"]
    assert task.summarise(stats)["pixel_accuracy"] == pytest.approx(right / (56 + 64))
    nothing = task.collate("valid", [1])
    assert nothing.num_tokens == 0
    assert task.loss(model, nothing).item() == 0
    assert math.isnan(task.summarise({})["mean_iou"])


def test_pictures_and_masks_move_together_in_training(make):
    task = make(shift=3, flip=True)
    model = built_of(task).train()
    batch = task.collate("train", list(range(20)))
    seen = []
    model.encoder.register_forward_pre_hook(lambda module, given: seen.append(given))
    torch.manual_seed(0)
    pixels, masks = model.moved(batch.pixels, batch.masks)
    assert not torch.equal(masks, batch.masks)
    torch.manual_seed(0)
    found = task.loss(model, batch)
    wanted = F.cross_entropy(model(pixels), masks.long(), ignore_index=NO_CLASS, reduction="sum")
    torch.testing.assert_close(found, wanted)


def test_scores_are_those_of_the_predictor(make, files):
    task = make(data={"valid": str(files / "valid.npz")})
    model = built_of(task).eval()
    scores = scores_of(task, model, "valid")
    assert list(scores) == [metric.name for metric in task.metrics]
    told = task.predictor(model).evaluate(ImageSegment.examples(task.config, "valid"))
    for name in ("pixel_accuracy", "mean_iou"):
        assert scores[name] == pytest.approx(told[name])


def test_examples_are_those_of_the_part(make, files):
    held = make().config
    assert len(ImageSegment.examples(held, "valid")) == len(make().split("valid"))
    own = make(data={"valid": str(files / "valid.npz"), "size": [4, 4]}).config
    found = ImageSegment.examples(own, "valid")
    # of files of its own pictures keep their size
    assert [image.mask.shape for image in found] == [(8, 8)] * 11
    assert ImageSegment.examples(held, "test") == []


@pytest.mark.parametrize("model", [CNN, SAGAN, VIT], ids=["cnn", "attention_cnn", "vit"])
def test_files_restore_a_labeller(make, model):
    task = make(model)
    assert list(task.assets.files) == ["images.json"]
    built, images = built_of(task).eval(), list(task.split("train").images())[:5]
    images.append(Image("larger", np.zeros((12, 10, 1), np.uint8)))
    one, two = restored(task, built).predict(images), task.predictor(built).predict(images)
    assert [found.labels.tolist() for found in one] == [found.labels.tolist() for found in two]
    again = ImageSegment(task.config, Assets(task.assets.files))
    assert (again.split("train"), again.samples(built)) == (None, [])


@pytest.mark.parametrize(
    "change",
    [
        lambda known: [],
        lambda known: {},
        lambda known: {**known, "classes": ["2"]},
        lambda known: {**known, "classes": [2, 5]},
        lambda known: {**known, "labels": [2]},
        lambda known: {**known, "labels": [2, 256]},
        lambda known: {**known, "labels": [-1, 2]},
        lambda known: {**known, "labels": ["x", "y"]},
        lambda known: {**known, "frequent": 2},
        lambda known: {**known, "mean": [0.5, 0.5]},
        lambda known: {**known, "shape": [8, 0, 1]},
        lambda known: {**known, "more": 1},
    ],
)
def test_damaged_files_are_named(make, change):
    task = make()
    known = json.loads(task.assets.files["images.json"])
    content = json.dumps(change(known)).encode()
    for damaged in (content, b"{"):
        with pytest.raises(
            CheckpointError, match=r"images\.json: does not tell classes, labels, shape and constants; r"
        ):
            ImageSegment(task.config, Assets({"images.json": damaged}))


def test_samples_and_card_tell_what_is_said(make):
    task = make(num_shown=2)
    lines = task.samples(built_of(task).eval())
    assert len(lines) == 2
    assert "  →  " in lines[0]
    assert all("\t" not in line for line in lines)
    card = task.card({"mean_iou": 0.98765})
    assert "kind cnn that reads images such as 8 x 8 pixels of 1 channel and tells 2 kinds of pixels apart" in card
    assert "mean_iou 0.9877" in card


def test_a_model_that_does_not_fit_the_images_is_refused(make):
    with pytest.raises(ConfigError, match=r"model.patch \(3\) must divide the image of 8 x 8 pixels"):
        make(VIT | {"patch": 3}).build()


@pytest.mark.parametrize("model", [CNN, SAGAN, VIT], ids=["cnn", "attention_cnn", "vit"])
def test_light_is_told_from_dark(make, model):
    task = make(model, data={"valid_fraction": 0.3}, shift=1, flip=True)
    built = fitted(task, 60, Limits(9, sentences=16))
    assert scores_of(task, built)["mean_iou"] >= 0.9
    if model is not VIT:
        # of a size that was never seen
        pixels, masks = (array.repeat(2, 2)[:, :, :-3] for array in masked(6, seed=5))
        examples = [
            Image(f"{at}", one[..., None], mask=np.where(other == 9, -1, other).astype(np.int16))
            for at, (one, other) in enumerate(zip(pixels, masks, strict=True))
        ]
        assert task.predictor(built).evaluate(examples)["mean_iou"] >= 0.8


def test_a_run_knows_its_masks(files, tmp_path):
    for kind in ("pictures", "masks"):
        (tmp_path / kind).mkdir()
        for path in (files / kind).iterdir():
            (tmp_path / kind / path.name).write_bytes(path.read_bytes())
    values = {
        "task": "image-segment",
        "data": {
            "train": str(tmp_path / "pictures"),
            "train_target": str(tmp_path / "masks"),
            "test_fraction": 0.0,
            "valid_fraction": 0.2,
        },
        "model": CNN,
        "training": steps(2, monitor="mean_iou", batch_sentences=13),
    }
    train(values, tmp_path / "run")
    values["data"]["train_target"] = str(files / "masks")
    values["training"]["max_steps"] = 3
    assert train(values, tmp_path / "run", resume="must").steps == 3
    (tmp_path / "masks" / "000.png").write_bytes(encoded(np.zeros((8, 8), np.uint8)))
    values["data"]["train_target"] = str(tmp_path / "masks")
    values["training"]["max_steps"] = 4
    with pytest.raises(headwise.DataError, match="the data has changed since this run began: train_target"):
        train(values, tmp_path / "run", resume="must")
