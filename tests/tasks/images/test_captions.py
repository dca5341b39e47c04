"""Captioned images from tables and arrays: every image once, all its captions with it, faults by file and line."""

import json

import numpy as np
import pytest
from pictures import encoded, grey, npz

from headwise.config import build
from headwise.errors import ConfigError, DataError
from headwise.tasks.images.caption import Caption
from headwise.tasks.images.captions import (
    CaptionsConfig,
    captions_of,
    load_captions,
    scan_captions,
)


@pytest.fixture
def scan(tmp_path):
    (tmp_path / "a.png").write_bytes(grey(7))
    (tmp_path / "b.png").write_bytes(grey(9))

    def scanned(content, name="train.csv", captioned=True, **settings):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        config = build(CaptionsConfig, {"train": str(path), **settings}, "data")
        return list(scan_captions(path, config, captioned=captioned))

    return scanned


def found_of(images):
    return [(image.name.rsplit("/", 1)[-1], int(image.pixels[0, 0, 0]), captions_of(image)) for image in images]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("train.csv", 'path,caption\na.png,"one, two"\nb.png, three \na.png,four\na.png,four\n'),
        ("train.tsv", "caption\tpath\none, two\ta.png\nthree\tb.png\nfour\ta.png\n"),
        (
            "train.jsonl",
            "".join(
                json.dumps({"path": path, "caption": text}) + "\n"
                for path, text in (("a.png", ["one, two", "four"]), ("b.png", "three"))
            ),
        ),
    ],
)
def test_an_image_comes_once_with_all_its_captions(scan, name, content):
    assert found_of(scan(content, name)) == [("a.png", 7, ["one, two", "four"]), ("b.png", 9, ["three"])]


def test_arrays_have_one_caption_or_several(scan):
    images = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    one = scan(npz(images=images, captions=np.array(["x  y", "z"])), "a.npz")
    assert found_of(one) == [("a.npz[0]", 0, ["x y"]), ("a.npz[1]", 6, ["z"])]
    several = scan(npz(images=images, captions=np.array([["x", "y"], ["z", ""]])), "a.npz")
    assert [captions_of(image) for image in several] == [["x", "y"], ["z"]]


def test_captions_are_not_asked_for_where_images_are_to_be_described(scan):
    assert [image.label for image in scan("path\na.png\n", captioned=False)] == [None]
    assert found_of(scan(grey(5), "c.png", captioned=False)) == [("c.png", 5, [])]
    assert found_of(scan(npz(images=np.zeros((1, 2, 2), np.uint8)), "a.npz", captioned=False)) == [("a.npz[0]", 0, [])]


FAULTS = [
    ("train.csv", "path,caption\na.png,\n", r"train.csv:2: the caption is empty; write one or remove the row"),
    ("train.csv", "path,caption\n,one\n", r"train.csv:2: the path is empty; fill it or remove the row"),
    ("train.csv", "path,caption\nc.png,one\n", r"train.csv:2: .*c.png: no such file"),
    ("train.csv", "path,caption\n.,one\n", r"train.csv:2: .*: is a folder; name a file"),
    ("train.csv", "path,caption\na.png\n", r"train.csv:2: 1 column, the first line has 2"),
    ("train.csv", b"path,caption\na.png,\xff\n", r"train.csv:2: .*UTF-8"),
    ("train.csv", "path,caption\na\0.png,one\n", r"train.csv:2: .*NUL"),
    ("train.csv", "path,caption\ntrain.csv,one\n", r"train.csv:2: .*train.csv: is neither PNG nor JPEG; convert it"),
    ("train.jsonl", '{"path": "a.png"}\n', r"train.jsonl:1: missing field 'caption'"),
    ("train.jsonl", '{"path": "a.png", "caption": 3}\n', r"train.jsonl:1: the field 'caption' must be text, got a num"),
    ("train.jsonl", '{"path": "a.png", "caption": []}\n', r"train.jsonl:1: the caption is empty"),
    ("train.jsonl", '{"path": 1, "caption": "one"}\n', r"train.jsonl:1: the field 'path' must be text"),
    ("a.npz", npz(images=np.zeros((1, 2, 2), np.uint8), captions=np.array([" "])), r"npz\[0\]: has no caption; write"),
]


@pytest.mark.parametrize(("name", "content", "message"), FAULTS)
def test_a_fault_is_passed_on_with_its_place(scan, name, content, message):
    (fault,) = scan(content, name)
    with pytest.raises(DataError, match=message):
        raise fault


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "train.csv",
            "file,text\na.png,one\n",
            r"train.csv:1: no column is named 'path', but 'file', 'text'; say with d",
        ),
        (
            "a.npz",
            npz(images=np.zeros((1, 2, 2), np.uint8)),
            r"a.npz: has no array 'captions'; add it, or set data.cap",
        ),
        (
            "a.npz",
            npz(images=np.zeros((2, 2, 2), np.uint8), captions=np.array(["x"])),
            r"shape \(1,\) for 2 images; gi",
        ),
        ("a.npz", npz(images=np.zeros((1, 2, 2), np.uint8), captions=np.array([1])), r"captions are int64 of shape"),
        ("a.npz", npz(images=np.zeros((1, 2), np.uint8), captions=np.array(["x"])), r"images of shape 1 x 2; give"),
        ("a.npz", b"PK", r"a.npz: is damaged or no .npz file"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(scan, name, content, message):
    with pytest.raises(DataError, match=message):
        scan(content, name)


@pytest.fixture
def folder(tmp_path):
    rows = ["path,caption"]
    for number in range(30):
        (tmp_path / f"{number}.png").write_bytes(encoded(np.full((8, 12, 3), number, np.uint8)))
        rows += [f"{number}.png,is {number}", f"{number}.png,it is {number}"][: 1 + number % 2]
    (tmp_path / "train.csv").write_text("\n".join(rows) + "\n")
    return tmp_path


def test_all_captions_of_an_image_are_in_one_part(folder):
    halves = {"valid_fraction": 0.3, "test_fraction": 0.3}
    config = build(CaptionsConfig, {"train": str(folder / "train.csv"), **halves}, "data")
    loaded = load_captions(config, "nfc")
    parts = loaded.parts.values()
    assert sum(map(len, parts)) == 30
    assert min(map(len, parts)) > 0
    for images in parts:
        for image in images.images():
            value = image.pixels[0, 0, 0]
            assert captions_of(image) == [f"is {value}", f"it is {value}"][: 1 + value % 2]
    assert loaded.shape == (8, 12, 3)
    assert loaded.notes[0] == f"train: {len(loaded.parts['train'])} images with 1 to 2 captions each"
    assert sorted(loaded.digests) == ["train", "train.images"]
    before = loaded.digests
    (folder / "3.png").write_bytes(encoded(np.full((8, 12, 3), 99, np.uint8)))
    changed = load_captions(config, "nfc").digests
    assert (changed["train"] == before["train"], changed["train.images"] == before["train.images"]) == (True, False)


def test_bad_rows_are_skipped_and_counted_if_asked_for(folder):
    (folder / "train.csv").write_text((folder / "train.csv").read_text() + "x.png,none\n3.png,\n")
    held = {"train": str(folder / "train.csv"), "valid_fraction": 0, "test_fraction": 0}
    with pytest.raises(DataError, match=r'caption is empty.* skip them with data.bad_images = "skip"'):
        load_captions(build(CaptionsConfig, held, "data"), "nfc")
    found = load_captions(build(CaptionsConfig, held | {"bad_images": "skip"}, "data"), "nfc")
    assert found.notes[0].startswith("train: 2 bad images skipped; the first: ")


def test_held_out_images_that_are_trained_on_are_told(folder):
    keys = {
        "train": str(folder / "train.csv"),
        "test": str(folder / "train.csv"),
        "valid_fraction": 0,
        "test_fraction": 0,
    }
    notes = load_captions(build(CaptionsConfig, keys, "data"), "nfc").notes
    assert notes[0] == "test: 30 of 30 held-out images are in the training part"


@pytest.mark.parametrize(("size", "stages"), [(None, 1), ([64, 32], 3), ([9, 7], 1), ([256, 256], 5)])
def test_a_suggestion_has_a_map_of_some_eight_places(folder, size, stages):
    found = Caption.suggest({"train": str(folder / "train.csv"), **({} if size is None else {"size": size})})
    assert (found.values["encoder"]["stages"], found.values["encoder"]["width"]) == (stages, 128 >> (stages - 1))
    assert found.values["data"]["channels"] == 3
    assert ("size" in found.values["data"]) == (size is not None)


def test_a_delimiter_is_one_character():
    with pytest.raises(ConfigError, match="delimiter must be one character"):
        build(CaptionsConfig, {"train": "x.csv", "delimiter": "::"}, "data")
