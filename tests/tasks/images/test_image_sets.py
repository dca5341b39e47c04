"""The images of a recipe as arrays: splits, shapes, classes, constants, notes, batches."""

import numpy as np
import pytest
import torch
from pictures import encoded, folder_of, npz, stripes

from headwise.config import build
from headwise.errors import DataError
from headwise.predictors.classes import class_names
from headwise.tasks.images.image_classify import ImageClassify, ImageClassifyConfig, load_images
from headwise.tasks.images.image_sets import channels_first, constants
from headwise.tasks.images.images import ImagesConfig

IMAGES, LABELS = stripes(60)
SIZES = [(28, 28), (5, 9), (9, 4), (3, 3), (2, 2)]


@pytest.fixture
def load(tmp_path):
    """Loads .npz files of the arrays given for each part."""

    def loaded(arrays, **settings):
        paths = {}
        for part, (images, labels) in arrays.items():
            paths[part] = str(tmp_path / f"{part}.npz")
            (tmp_path / f"{part}.npz").write_bytes(npz(images=images, labels=labels))
        return load_images(build(ImagesConfig, {**paths, **settings}, "data"))

    return loaded


def test_parts_follow_the_pixels_and_share_no_image(load):
    twice = np.concatenate([IMAGES, IMAGES]), np.concatenate([LABELS, LABELS])
    once, both = load({"train": (IMAGES, LABELS)}), load({"train": twice})
    kept = {part: {pixels.tobytes() for pixels in images.pixels} for part, images in once.parts.items()}
    assert sum(map(len, kept.values())) == 60
    assert min(map(len, kept.values())) > 0
    # what is there twice stays in its part
    assert {part: {pixels.tobytes() for pixels in images.pixels} for part, images in both.parts.items()} == kept
    assert once.classes == ["0", "1"]
    assert once.shape == (8, 8, 1)
    other = load({"train": (IMAGES, LABELS)}, split_seed=1)
    assert {pixels.tobytes() for pixels in other.parts["valid"].pixels} != kept["valid"]


def test_parts_of_their_own_and_what_is_odd_about_them(load):
    valid = np.concatenate([IMAGES[:2], IMAGES[:2] + 1]), np.array([0, 1, 2, 2])
    found = load({"train": (IMAGES, LABELS), "valid": valid}, test_fraction=0.0)
    assert len(found.parts["train"]) == 60
    assert len(found.parts["test"]) == 0
    assert found.notes == (
        "valid: 2 of 4 held-out images are in the training part",
        "train: 60 images of 2 classes, 30 each",
        "valid: 4 images of 3 classes, 1 to 2 each",
        "valid: classes that training lacks, so that they cannot be got right: 2 (2)",
    )
    assert list(found.digests) == ["train", "valid"]


def test_a_limit_draws_from_train_alone_and_keeps_its_order(load):
    whole, some = load({"train": (IMAGES, LABELS)}), load({"train": (IMAGES, LABELS)}, limit=20)
    assert len(some.parts["train"]) == 20
    np.testing.assert_array_equal(some.parts["valid"].pixels, whole.parts["valid"].pixels)
    places = [whole.parts["train"].names.index(name) for name in some.parts["train"].names]
    assert places == sorted(places)
    assert places != list(range(20))
    assert len(load({"train": (IMAGES, LABELS)}, limit=999).parts["train"]) == len(whole.parts["train"])


def test_shapes_are_those_of_train_or_of_the_recipe(tmp_path):
    root = folder_of(tmp_path / "set", IMAGES[:20], LABELS[:20])
    held = {"valid_fraction": 0.0, "test_fraction": 0.0}
    (root / "rows" / "zz.png").write_bytes(encoded(np.zeros((9, 4, 3), np.uint8)))
    with pytest.raises(DataError, match=r"zz.png: has 9 x 4 pixels, those before 8 x 8; set data.size = \[8, 8\] to f"):
        load_images(build(ImagesConfig, {"train": str(root), **held}, "data"))
    found = load_images(build(ImagesConfig, {"train": str(root), "size": [6, 5], "channels": 3, **held}, "data"))
    assert found.shape == (6, 5, 3)
    assert found.parts["train"].pixels.shape == (21, 6, 5, 3)
    assert "train: 21 of 21 images made 6 x 5 pixels of 3 channels" in found.notes
    (root / "columns" / "0.png").write_bytes(encoded(np.zeros((8, 8, 4), np.uint8)))
    (root / "rows" / "zz.png").unlink()
    # transparency is no channel unless it is asked for
    assert load_images(build(ImagesConfig, {"train": str(root), **held}, "data")).shape == (8, 8, 3)


def test_another_part_is_fitted_to_train(load):
    wide = np.repeat(IMAGES[:5], 2, axis=2), LABELS[:5]
    found = load({"train": (IMAGES, LABELS), "test": wide})
    assert found.parts["test"].pixels.shape == (5, 8, 8, 1)
    assert "test: 5 of 5 images made 8 x 8 pixels of 1 channel" in found.notes
    with pytest.raises(
        DataError, match=r"test.npz\[0\]: 6 channels, the model reads 1; give images of 1, or train with"
    ):
        load({"train": (IMAGES, LABELS), "test": (np.zeros((3, 8, 8, 6), np.uint8), LABELS[:3])})


def test_bad_images_stop_or_are_skipped_and_counted(tmp_path):
    root = folder_of(tmp_path / "set", IMAGES[:20], LABELS[:20])
    (root / "rows" / "a.png").write_bytes(b"")
    (root / "rows" / "b.png").write_bytes(b"GIF89a")
    held = {"train": str(root), "valid_fraction": 0.0, "test_fraction": 0.0}
    with pytest.raises(
        DataError, match=r'a.png: is empty .*b.png: is a GIF .* or skip them with data.bad_images = "skip"'
    ):
        load_images(build(ImagesConfig, held, "data"))
    found = load_images(build(ImagesConfig, {**held, "bad_images": "skip"}, "data"))
    assert len(found.parts["train"]) == 20
    assert found.notes[0].startswith("train: 2 bad images skipped; the first: ")
    for folder in ("rows", "columns"):
        for path in (root / folder).iterdir():
            path.write_bytes(b"")
    with pytest.raises(DataError, match="set: no images in it; 22 bad images skipped"):
        load_images(build(ImagesConfig, {**held, "bad_images": "skip"}, "data"))
    with pytest.raises(DataError, match="set: no images in it"):
        ImageClassify.examples(
            ImageClassifyConfig(data={**held, "test": str(root), "bad_images": "skip"}, model={"kind": "cnn"}), "test"
        )


def test_classes_are_in_a_fixed_order():
    assert class_names(["10", "9", "2"], []) == ["2", "9", "10"]
    assert class_names(["1" * 5000, "02", "2", "0"], []) == ["0", "02", "2", "1" * 5000]
    assert class_names(["10", "b", "2"], []) == ["10", "2", "b"]
    assert class_names(["b", "a"], ["b", "c", "a"]) == ["b", "c", "a"]
    with pytest.raises(DataError, match=r"label 'z' is not among data.classes; name every class, or leave the list"):
        class_names(["a", "z"], ["a", "b"])
    with pytest.raises(DataError, match="all images are of one class, 'a'; there is nothing to tell apart"):
        class_names(["a", "a"], [])


def test_constants_are_mean_and_deviation_by_channel():
    pixels = np.random.default_rng(0).integers(0, 256, (7, 5, 3, 2), dtype=np.uint8)
    mean, deviation = constants(pixels)
    np.testing.assert_allclose(mean, (pixels / 255).mean((0, 1, 2)), rtol=1e-12)
    np.testing.assert_allclose(deviation, (pixels / 255).std((0, 1, 2)), rtol=1e-12)


def test_a_batch_has_channels_first_and_shares_no_value():
    pixels = np.arange(2 * 3 * 5 * 3, dtype=np.uint8).reshape(2, 3, 5, 3)
    batch = channels_first(pixels)
    assert batch.shape == (2, 3, 3, 5)
    assert batch[1, 2, 1, 4] == pixels[1, 1, 4, 2]
    assert batch.dtype == torch.uint8


def test_a_recipe_is_fitted_to_the_images(tmp_path):
    root = folder_of(tmp_path / "set", IMAGES[:40], LABELS[:40])
    found = ImageClassify.suggest({"train": str(root)})
    assert found.values["data"] == {"channels": 1, "train": str(root)}
    assert found.values["training"]["batch_sentences"] == 16
    assert found.about == "Classification, fitted to the 40 images"
    for number in range(60):
        pixels = np.full((200, 90 + number % 2, 3), number, np.uint8)
        (root / "rows" / f"large{number}.png").write_bytes(encoded(pixels))
    assert ImageClassify.suggest({"train": str(root)}).values["data"] == {
        "size": [64, 64],
        "channels": 3,
        "train": str(root),
    }
    assert ImageClassify.suggest({"train": str(root), "size": (9, 9)}).values["data"]["size"] == (9, 9)
    # a map of less than two places is none
    stages = [ImageClassify.suggest({"train": str(root), "size": size}).values["model"]["stages"] for size in SIZES]
    assert stages == [3, 3, 2, 2, 1]
    (root / "rows" / "a.png").write_bytes(b"")
    with pytest.raises(DataError, match="is empty"):
        ImageClassify.suggest({"train": str(root)})
