"""Pictures with masks from tables, folders and .npz: the same images; parts, labels, what is odd and what refused."""

import json

import numpy as np
import pytest
from pictures import encoded, grey, npz, stripes

from headwise.config import build
from headwise.data.files import Bytes
from headwise.errors import ConfigError, DataError
from headwise.tasks.images.image_segment import ImageSegment
from headwise.tasks.images.masks import MasksConfig, classes_of, load_masks, scan_masks, scan_of

COUNT = 12


@pytest.fixture
def files(tmp_path):
    """The same pictures and masks in every form."""
    pixels, _ = stripes(COUNT, (6, 4))
    masks = np.where(pixels > 150, 3, 1).astype(np.uint8)
    for kind, arrays in (("pictures", pixels), ("masks", masks)):
        (tmp_path / kind).mkdir()
        for number, array in enumerate(arrays):
            (tmp_path / kind / f"{number:02}.png").write_bytes(encoded(array))
    rows = [(f"pictures/{number:02}.png", f"masks/{number:02}.png") for number in range(COUNT)]
    (tmp_path / "all.csv").write_text("mask,path\n" + "".join(f"{mask},{picture}\n" for picture, mask in rows))
    (tmp_path / "all.tsv").write_text("path\tmask\tmore\n" + "".join(f"{a}\t{b}\tx\n" for a, b in rows))
    lines = [json.dumps({"path": picture, "mask": mask}) for picture, mask in rows]
    (tmp_path / "all.jsonl").write_text("\n".join(lines))
    (tmp_path / "all.npz").write_bytes(npz(images=pixels, masks=masks.astype(np.int32)))
    return tmp_path


def config(files, name="all.csv", **data):
    values = {"train": str(files / name), "valid_fraction": 0.0, "test_fraction": 0.0, **data}
    return build(MasksConfig, values, "data")


def found_of(config):
    return list(scan_of(config)("train", Bytes(config.max_bytes)))


def test_every_form_gives_the_same(files):
    forms = [config(files, f"all.{kind}") for kind in ("csv", "tsv", "jsonl", "npz")]
    forms.append(config(files, "pictures", train_target=str(files / "masks")))
    wanted = found_of(forms[0])
    assert len(wanted) == COUNT
    assert {int(label) for image in wanted for label in np.unique(image.mask)} == {1, 3}
    for form in forms[1:]:
        for one, other in zip(found_of(form), wanted, strict=True):
            assert (one.pixels == other.pixels).all()
            assert (one.mask == other.mask).all()


def test_parts_keep_their_masks_and_files_are_known_by_digest(files):
    loaded, labels = load_masks(config(files, valid_fraction=0.3))
    assert (labels, loaded.classes) == ([1, 3], ["1", "3"])
    assert set(loaded.digests) == {"train", "train.images", "train.masks"}
    for part in ("train", "valid"):
        images = loaded.parts[part]
        assert (np.where(images.pixels[..., 0] > 150, 3, 1) == images.masks).all()
        assert [image.mask.tolist() for image in images.take([1, 0]).images()] == images.masks[[1, 0]].tolist()
    folder = config(files, "pictures", train_target=str(files / "masks"))
    assert set(load_masks(folder)[0].digests) == {"train", "train_target"}


def test_notes_tell_how_much_of_each_label_there_is(files):
    named = config(files, classes=["none", "dark", "two", "light"], ignore=0, valid=str(files / "all.npz"))
    loaded, labels = load_masks(named)
    assert labels == [1, 2, 3]
    (told,) = [note for note in loaded.notes if note.startswith("train: ")]
    light = (loaded.parts["train"].masks == 3).mean()
    assert told == f"train: 12 images; pixels: dark {1 - light:.1%}, light {light:.1%}, two 0.0%"
    assert "valid: 12 of 12 held-out images are in the training part" in loaded.notes
    loaded, labels = load_masks(config(files, ignore=3, valid=str(strange(files))))
    assert labels == [1, 7]
    assert any(
        note.startswith("train: 12 images; pixels: 1 ") and note.endswith("% count nowhere") for note in loaded.notes
    )
    assert "valid: labels that training lacks, so that they cannot be got right: 9 100.0%" in loaded.notes


def strange(files):
    """A file whose labels no other has; the pictures get a third label."""
    mask = np.full((6, 4), 7, np.uint8)
    mask[0] = 3
    (files / "masks" / "00.png").write_bytes(encoded(mask))
    (files / "odd.npz").write_bytes(npz(images=stripes(2, (6, 4), seed=9)[0], masks=np.full((2, 6, 4), 9)))
    return files / "odd.npz"


@pytest.mark.parametrize("fit", ["resize", "pad"])
def test_pictures_and_masks_are_fitted_together(files, fit):
    loaded, _ = load_masks(config(files, size=[12, 12], fit=fit))
    train = loaded.parts["train"]
    assert train.masks.shape == (COUNT, 12, 12)
    # of 6 x 4 pixels: doubled, with two columns of nothing on each side
    inside = train.masks[:, :, 2:-2] if fit == "pad" else train.masks
    assert set(np.unique(inside)) == {1, 3}
    if fit == "pad":
        assert (train.masks[:, :, [0, 1, -2, -1]] == -1).all()
        assert any("33.3% count nowhere" in note for note in loaded.notes)


def test_labels_become_places_and_others_are_one_more():
    labels = np.array([0, 1, 4, 255, -1], np.int16)
    assert classes_of(labels, [4, 0]).tolist() == [1, 2, 0, 2, 255]


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda at: (at / "masks/03.png").unlink(), r"all\.csv:5: .*masks/03\.png: no such file"),
        (lambda at: (at / "masks/03.png").write_bytes(b""), r"all\.csv:5: .*masks/03\.png: is empty \(0 bytes\)"),
        (
            lambda at: (at / "pictures/03.png").write_bytes(b"\0" * 99),
            r"all\.csv:5: .*03\.png: is neither PNG nor JPEG",
        ),
        (
            lambda at: (at / "masks/03.png").write_bytes(grey(size=(4, 6))),
            r"all\.csv:5: .*masks/03\.png: has 4 x 6 pixels, its picture 6 x 4; give each pixel a label",
        ),
        (
            lambda at: (at / "all.csv").write_text("path,mask\na.png,\n"),
            r"all\.csv:2: a path is empty; fill it or remove",
        ),
        (lambda at: (at / "all.csv").write_text("path,masks\na.png,b.png\n"), r"all\.csv:1: .*'mask'"),
        (lambda at: (at / "all.csv").write_text(""), r"all\.csv: "),
        (lambda at: (at / "all.csv").write_bytes(b"path,mask\n\xff,b\n"), r"all\.csv:2: .*UTF-8"),
        (lambda at: (at / "all.csv").write_bytes(b"path,mask\na\0,b\n"), r"all\.csv:2: .*NUL"),
        (lambda at: (at / "all.csv").write_text("path,mask\na.png\n"), r"all\.csv:2: 1 column, the first line has 2"),
    ],
)
def test_faults_of_a_table_have_file_and_line(files, break_it, message):
    break_it(files)
    with pytest.raises(DataError, match=message) as error:
        load_masks(config(files))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (
            lambda at: (at / "masks/03.png").unlink(),
            r"pictures/03\.png: has no mask .*masks/03\.png; add it or remove the",
        ),
        (
            lambda at: (at / "pictures/03.png").unlink(),
            r"masks/03\.png: is the mask of no picture in .*pictures; add it or",
        ),
        (lambda at: (at / "pictures/more").mkdir(), r"pictures/more: is a folder; put the files right into .*pictures"),
        (
            lambda at: (at / "pictures/03.jpg").write_bytes(b""),
            r"pictures/03\.png: 03\.jpg has the same name; rename one",
        ),
        (lambda at: [path.unlink() for path in (at / "masks").iterdir()], r"masks: no PNG or JPEG files in it"),
    ],
)
def test_faults_of_folders_name_the_file(files, break_it, message):
    break_it(files)
    with pytest.raises(DataError, match=message):
        load_masks(config(files, "pictures", train_target=str(files / "masks")))


def test_folders_go_with_folders(files):
    with pytest.raises(DataError, match=r"pictures: where are its masks\? name their folder: data\.train_target"):
        load_masks(config(files, "pictures"))
    with pytest.raises(
        DataError, match=r"masks: a folder of masks goes with a folder of pictures, but .*all\.csv is a f"
    ):
        load_masks(config(files, train_target=str(files / "masks")))
    with pytest.raises(DataError, match="gone: cannot be opened: No such file"):
        load_masks(config(files, "pictures", train_target=str(files / "gone")))
    # what systems leave behind is no picture
    (files / "pictures" / "notes.txt").write_text("x")
    (files / "masks" / ".hidden.png").write_text("x")
    load_masks(config(files, "pictures", train_target=str(files / "masks")))


IMAGES = np.zeros((2, 3, 5), np.uint8)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"is damaged or no \.npz file"),
        (npz(images=IMAGES)[:90], r"is damaged or no \.npz file"),
        (npz(masks=IMAGES), "has no array 'images'"),
        (npz(images=IMAGES), "has no array 'masks'; add it, or set data.masks_key"),
        (
            npz(images=IMAGES, masks=IMAGES[:1]),
            r"masks of shape \(1, 3, 5\) for images of \(2, 3, 5\); give each pixel a",
        ),
        (npz(images=IMAGES, masks=IMAGES[..., None]), r"masks of shape \(2, 3, 5, 1\)"),
        (npz(images=IMAGES, masks=IMAGES / 2), r"x\.npz\[0\]: labels are float64; give whole numbers"),
        (
            npz(images=IMAGES, masks=IMAGES - 1.5 > 0),
            "all pixels have one label, or none; there is nothing to tell apart",
        ),
        (npz(images=IMAGES[:0], masks=IMAGES[:0]), "no images in it"),
        (npz(images=IMAGES[:, :0], masks=IMAGES[:, :0]), r"images of shape 2 x 0 x 5 x 1"),
        (
            npz(images=IMAGES, masks=np.array([[{}] * 5] * 6).reshape(2, 3, 5)),
            "holds Python objects, which may be code",
        ),
    ],
)
def test_faults_of_arrays_are_named(files, data, message):
    (files / "x.npz").write_bytes(data)
    with pytest.raises(DataError, match=message):
        load_masks(config(files, "x.npz"))


def test_a_single_pixel_and_many_channels_are_read(files):
    for channels in (1, 2, 4, 6):
        images = np.arange(2 * channels, dtype=np.uint8).reshape(2, 1, 1, channels)
        (files / "x.npz").write_bytes(npz(images=images, masks=np.array([[[0]], [[1]]])))
        loaded, labels = load_masks(config(files, "x.npz"))
        assert (loaded.shape, labels) == ((1, 1, channels), [0, 1])


def test_more_labels_than_can_be_told_apart_are_refused(files):
    masks = np.arange(256, dtype=np.uint8).reshape(1, 16, 16)
    (files / "x.npz").write_bytes(npz(images=masks, masks=masks))
    with pytest.raises(DataError, match=r"256 labels; 254 at most can be told apart: join some, or set data\.ignore"):
        load_masks(config(files, "x.npz"))


def test_bad_ones_are_skipped_and_counted(files):
    (files / "masks/03.png").write_bytes(b"")
    loaded, _ = load_masks(config(files, bad_images="skip"))
    assert any("train: 1 bad image skipped; the first: " in note and "all.csv:5" in note for note in loaded.notes)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"classes": ["a", "a"]}, "classes must have different names, and colours must differ"),
        ({"colours": ["#000000", "#000000"]}, "classes must have different names, and colours must differ"),
        ({"colours": ["red"]}, "colour 'red' is none; write it as #rrggbb, such as #00ff7f"),
        ({"colours": ["#00ff7g"]}, "colour '#00ff7g' is none"),
        ({"classes": ["a", "b"], "colours": ["#000000"]}, "2 classes but 1 colours; give each label both"),
        ({"ignore": 256}, "ignore"),
        ({"delimiter": ";;"}, "delimiter must be one character"),
    ],
)
def test_settings_that_cannot_be_are_refused(files, data, message):
    with pytest.raises(ConfigError, match=message):
        config(files, **data)


def test_only_pictures_are_read_where_masks_are_not_asked_for(files):
    given = config(files)
    (one,) = scan_masks(files / "pictures" / "01.png", None, given, masked=False)
    assert one.mask is None
    (files / "just.csv").write_text("path\npictures/01.png\npictures/02.png\n")
    for name in ("just.csv", "all.npz"):
        found = list(scan_masks(files / name, None, given, masked=False))
        assert (found[1 if name == "all.npz" else 0].pixels == one.pixels).all()
        assert all(image.mask is None for image in found)


def test_a_first_recipe_fits_the_pictures(files):
    values = ImageSegment.suggest({"train": str(files / "all.csv"), "ignore": 3}).values
    assert values["data"] == {"train": str(files / "all.csv"), "channels": 1, "ignore": 3}
    # 6 x 4 pixels are halved once at most
    assert values["model"]["stages"] == 1
    big = np.zeros((3, 200, 300, 3), np.uint8)
    (files / "big.npz").write_bytes(npz(images=big, masks=np.zeros((3, 200, 300), int)))
    values = ImageSegment.suggest({"train": str(files / "big.npz")}).values
    assert values["data"]["size"] == [96, 96]
    assert values["model"]["stages"] == 4
