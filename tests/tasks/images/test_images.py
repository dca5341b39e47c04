"""Labelled images of every layout: folders, CSV, IDX, .npz; each fault is told with its file."""

import hashlib
import os

import numpy as np
import pytest
from pictures import encoded, folder_of, grey, idx, npz, stripes

from headwise.data.files import Bytes
from headwise.data.files import digest as on_disk
from headwise.errors import ConfigError, DataError
from headwise.tasks.images.images import ImagesConfig, labels_beside, scan_images

IMAGES, LABELS = stripes(6, (4, 5))


def config(**settings):
    return ImagesConfig(train="not read", **settings)


def scanned(path, target=None, **settings):
    labelled = settings.pop("labelled", True)
    return list(scan_images(path, target, config(**settings), labelled=labelled))


def texts(found):
    return [image.message if isinstance(image, DataError) else image.label for image in found]


def test_a_folder_of_classes_in_the_order_of_names(tmp_path):
    found = scanned(folder_of(tmp_path / "set", IMAGES, LABELS))
    assert texts(found) == ["columns"] * 3 + ["rows"] * 3
    np.testing.assert_array_equal(found[3].pixels[..., 0], IMAGES[1])
    assert found[0].name == str(tmp_path / "set" / "columns" / "000.png")


def test_what_systems_leave_in_folders_is_passed_over(tmp_path):
    root = folder_of(tmp_path / "set", IMAGES, LABELS)
    (root / ".DS_Store").write_bytes(b"\0")
    (root / "rows" / ".hidden.png").write_bytes(b"")
    (root / "rows" / "Thumbs.db").write_bytes(b"\0")
    (root / "README.txt").write_text("about")
    assert len(scanned(root)) == 6


def test_faults_of_a_folder_are_told_and_reading_goes_on(tmp_path):
    root = folder_of(tmp_path / "set", IMAGES, LABELS)
    (root / "loose.png").write_bytes(grey())
    (root / "nothing").mkdir()
    (root / "rows" / "a.png").write_bytes(b"")
    (root / "rows" / "deeper").mkdir()
    os.symlink("nowhere", root / "rows" / "link.png")
    faults = [text for text in texts(scanned(root)) if text not in ("rows", "columns")]
    assert [fault.removeprefix(f"{root}{os.sep}") for fault in faults] == [
        "loose.png: stands in no folder of a class; move it into one or remove it",
        "nothing: is empty; put pictures of the class into it or remove it",
        f"rows{os.sep}a.png: is empty (0 bytes); restore it or remove it",
        f"rows{os.sep}deeper: is a folder; name a file",
        f"rows{os.sep}link.png: no such file",
    ]


def test_folders_that_are_no_classes_are_refused(tmp_path):
    with pytest.raises(DataError, match="has no folders; put the pictures of each class into a folder of its name"):
        scanned(tmp_path)
    folder_of(tmp_path / "a", IMAGES, LABELS, ("train", "test"))
    with pytest.raises(DataError, match=r"its folders are parts, not classes; name them as data\.train and data\.test"):
        scanned(tmp_path / "a")


def listed(tmp_path, text):
    (tmp_path / "a,b.png").write_bytes(grey(1))
    (tmp_path / "c.png").write_bytes(grey(2))
    (tmp_path / "bad.png").write_bytes(b"GIF89a")
    (tmp_path / "list.csv").write_bytes(text.encode() if isinstance(text, str) else text)
    return tmp_path / "list.csv"


def test_a_list_of_paths(tmp_path):
    text = '\ufeffid,path,label\r\n1,"a,b.png", cat \r\n\r\n2,c.png,"dog ""small"""\n'
    found = scanned(listed(tmp_path, text))
    assert texts(found) == ["cat", 'dog "small"']
    assert [image.pixels[0, 0, 0] for image in found] == [1, 2]
    assert [image.label for image in scanned(listed(tmp_path, "path\nc.png\n"), labelled=False)] == [None]
    named = scanned(listed(tmp_path, "file,class\nc.png,x\n"), path_key="file", label_key="class")
    assert texts(named) == ["x"]


CSV = {
    "columns": ("path,label\nc.png\n", "2: 1 column, the first line has 2"),
    "commas": ("path,label\na,b.png,x\n", "2: 3 columns, the first line has 2"),
    "no label": ("path,label\nc.png,\n", "2: the label is empty; fill it or remove the line"),
    "no path": ("path,label\n,x\n", "2: the path is empty; fill it"),
    "missing": ("path,label\n\nd.png,x\n", "3: {}d.png: no such file"),
    "folder": ("path,label\n.,x\n", "2: {}: is a folder; name a file"),
    "encoding": (b"path,label\n\xff.png,x\n", "2: byte 11 (0xff) is not UTF-8"),
    "other format": ("path,label\nbad.png,x\n", "2: {}bad.png: is a GIF file; convert it to PNG or JPEG, or remove it"),
}


@pytest.mark.parametrize("name", CSV)
def test_faults_of_a_list_are_told_with_their_line(tmp_path, name):
    text, message = CSV[name]
    path = listed(tmp_path, text)
    folder = str(tmp_path) + ("" if name == "folder" else os.sep)
    (found,) = texts(scanned(path))
    assert found.startswith(f"{path}:{message.format(folder)}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("c.png,x\n", r":1: no column is named 'path', but 'c.png', 'x'; .* data.path_key"),
        ("path,class\nc.png,x\n", r":1: no column is named 'label', but 'path', 'class'; .* data.label_key"),
        ("path,path,label\n", ":1: two columns are named 'path'"),
        ('path,label\n"c.png,x\n', ":2: a quote opens in this row"),
    ],
)
def test_a_list_that_is_none_is_refused(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        scanned(listed(tmp_path, text))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
def test_a_pipe_is_refused_before_it_is_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    path = listed(tmp_path, "path,label\npipe.png,x\n")
    assert texts(scanned(path)) == [f"{path}:2: {tmp_path / 'pipe.png'}: is a pipe or a device, no file"]


def test_idx_files_whose_labels_are_named_or_beside(tmp_path):
    path = tmp_path / "some-images-idx3-ubyte.gz"
    path.write_bytes(idx(IMAGES, packed=True))
    assert labels_beside(path) is None
    with pytest.raises(DataError, match=r"where are its labels\? name their file: data.train_target"):
        scanned(path)
    (tmp_path / "other").write_bytes(idx(LABELS))
    assert texts(scanned(path, tmp_path / "other")) == ["0", "1"] * 3
    (tmp_path / "some-labels-idx1-ubyte.gz").write_bytes(idx(LABELS, packed=True))
    found = scanned(path, classes=["columns", "rows"])
    assert texts(found) == ["columns", "rows"] * 3
    assert found[4].name == f"{path}[4]"
    np.testing.assert_array_equal(found[4].pixels[..., 0], IMAGES[4])
    assert texts(scanned(path, classes=["columns"]))[1] == (
        f"{path}[1]: label 1, but data.classes names 1, from 0; name them all"
    )
    assert texts(scanned(path, labelled=False)) == [None] * 6


def test_idx_files_that_do_not_fit_are_refused(tmp_path):
    images, labels = tmp_path / "images", tmp_path / "labels"
    images.write_bytes(idx(IMAGES))
    labels.write_bytes(idx(LABELS[:4]))
    with pytest.raises(DataError, match="images: 6 images but 4 labels; give each image its label"):
        scanned(images, labels)
    with pytest.raises(DataError, match="labels: holds labels, not images"):
        scanned(labels, images)
    with pytest.raises(DataError, match="images: has 3 axes; labels have one"):
        scanned(images, images)
    images.write_bytes(idx(np.zeros((2, 0, 5))))
    with pytest.raises(DataError, match=r"images of shape 2 x 0 x 5 x 1; give \(images, height, width\) or channels l"):
        scanned(images, labels)


def saved(tmp_path, **arrays):
    path = tmp_path / "set.npz"
    path.write_bytes(npz(**arrays))
    return path


@pytest.mark.parametrize(
    ("images", "pixel"),
    [
        (np.full((2, 3, 4), 9, np.uint8), [9]),
        (np.full((2, 3, 4), 9 * 256 + 200, np.uint16), [9]),
        (np.full((2, 3, 4, 1), 0.5, np.float32), [128]),
        (np.full((2, 3, 4, 6), 1.0), [255] * 6),
    ],
)
def test_arrays_of_bytes_of_words_and_of_fractions(tmp_path, images, pixel):
    found = scanned(saved(tmp_path, images=images, labels=np.array(["x", "y"])))
    assert texts(found) == ["x", "y"]
    assert found[1].pixels[2, 3].tolist() == pixel


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"images": IMAGES}, "has no array 'labels'; add it, or set data.labels_key"),
        ({"images": IMAGES, "labels": LABELS[:5]}, "6 images but 5 labels"),
        ({"images": IMAGES, "labels": LABELS * 0.5}, "labels are float64 of 1 axes; give one whole number or text"),
        ({"images": IMAGES, "labels": LABELS[:, None]}, "labels are int64 of 2 axes"),
        ({"images": IMAGES * 1.5, "labels": LABELS}, r"images are float64; give bytes from 0 to 255 \(uint8\)"),
        ({"images": IMAGES.astype(int), "labels": LABELS}, "images are int64; give bytes"),
        ({"images": np.full((6, 2, 2), np.nan), "labels": LABELS}, "images are float64; give bytes"),
        (
            {"images": np.zeros((6, 3, 32, 32), np.uint8), "labels": LABELS},
            "shape 6 x 3 x 32 x 32; give .* channels la",
        ),
        ({"images": np.zeros(6, np.uint8), "labels": LABELS}, "images of shape 6; give"),
    ],
)
def test_arrays_that_are_no_images_are_refused(tmp_path, arrays, message):
    with pytest.raises(DataError, match=message):
        scanned(saved(tmp_path, **arrays))


def test_images_beyond_the_limit_of_pixels_are_refused(tmp_path):
    with pytest.raises(DataError, match="images of more than 19 pixels; make them smaller"):
        scanned(saved(tmp_path, images=IMAGES, labels=LABELS), max_pixels=19)


def test_a_file_of_another_kind_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("hello")
    with pytest.raises(DataError, match=r"no folder, PNG, JPEG, CSV, IDX or \.npz file; convert it, or set data"):
        scanned(tmp_path / "a.txt")
    (tmp_path / "a.png").write_bytes(grey())
    with pytest.raises(DataError, match="is one picture without a label; name a folder of classes"):
        scanned(tmp_path / "a.png")
    assert len(scanned(tmp_path / "a.png", labelled=False)) == 1
    with pytest.raises(DataError, match=r"missing\.npz: no such file"):
        scanned(tmp_path / "missing.npz")
    with pytest.raises(DataError, match="missing: cannot be opened: No such file"):
        scanned(tmp_path / "missing", format="folder")
    # insisted on, it is read as that, and refused as that
    with pytest.raises(DataError, match="is no IDX file: it begins with 68 65 6c 6c"):
        scanned(tmp_path / "a.txt", format="idx")


def test_a_file_is_known_by_its_bytes_and_a_folder_by_all_of_its_own(tmp_path):
    def digest(path):
        read = Bytes(1 << 20)
        list(scan_images(path, None, config(), read))
        (found,) = read.digests("train").values()
        assert found == on_disk(path)
        return found

    path = saved(tmp_path, images=IMAGES, labels=LABELS)
    assert digest(path) == hashlib.sha256(path.read_bytes()).hexdigest()
    root = folder_of(tmp_path / "set", IMAGES, LABELS)
    (root / "rows" / "Thumbs.db").write_bytes(b"1")
    (root / "README").write_text("about")
    before = digest(root)
    (root / ".hidden").write_bytes(b"1")
    moved = root.rename(tmp_path / "moved")
    assert digest(moved) == before
    picture = moved / "rows" / "001.png"
    picture.write_bytes(encoded(IMAGES[0]))
    assert digest(moved) != before
    picture.write_bytes(encoded(IMAGES[1]))
    assert digest(moved) == before
    # the class is the folder's name
    (moved / "rows").rename(moved / "lines")
    assert digest(moved) != before


def test_a_list_is_known_by_itself_and_by_its_pictures(tmp_path):
    def digests():
        read = Bytes(1 << 20)
        list(scan_images(listed(tmp_path, "path,label\nc.png,x\n"), None, config(), read))
        return read.digests("test")

    before = digests()
    assert list(before) == ["test", "test.images"]
    assert before["test"] == on_disk(tmp_path / "list.csv")
    (tmp_path / "list.csv").unlink()
    assert digests() == before
    (tmp_path / "c.png").write_bytes(grey(3))
    read = Bytes(1 << 20)
    list(scan_images(tmp_path / "list.csv", None, config(), read))
    assert read.digests("test")["test.images"] != before["test.images"]


def test_settings_that_are_none_are_refused():
    for settings, message in (
        ({"size": (0, 4)}, r"size \[0, 4\] must be a height and a width from 1 to 16384"),
        ({"classes": ["a", "a"]}, "classes must have different names"),
    ):
        with pytest.raises((ConfigError, ValueError), match=message):
            config(**settings)
