"""Masks as PNG files of numbers, palettes and colours; other sizes; what is refused, with the file."""

import numpy as np
import pytest
from pictures import encoded, grey
from PIL import Image as Pillow

from headwise.errors import DataError
from headwise.explain.ramps import PALETTE, to_rgb
from headwise.tasks.images.mask_pictures import Legend, as_labels, decode_mask, fitted, nearest, restored
from headwise.tasks.images.picture_files import encode
from headwise.tasks.images.pixels import Shape

COLOURS = Legend(("sky", "sea", "land"), ((0, 0, 255), (0, 255, 255), (0, 99, 0)))
LABELS = np.array([[0, 1, 2], [2, 2, 9]], np.uint8)


def palette():
    picture = Pillow.fromarray(LABELS)
    picture.putpalette([7, 8, 9] * 20)
    return encoded(picture)


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (encoded(LABELS), LABELS),
        (palette(), LABELS),
        (encode(LABELS, Legend().palette[:10]), LABELS),
        (encoded(LABELS.astype(np.uint16)), LABELS),
        (encoded(Pillow.fromarray(LABELS > 1)), LABELS > 1),
    ],
    ids=["grey", "palette", "written", "16 bits", "1 bit"],
)
def test_numbers_are_labels_and_one_counts_nowhere(data, wanted):
    assert decode_mask(data, "m.png", Legend()).tolist() == wanted.tolist()
    ignored = decode_mask(data, "m.png", Legend(ignore=1))
    assert ignored.tolist() == np.where(wanted == 1, -1, wanted.astype(int)).tolist()


@pytest.mark.parametrize("alpha", [False, True])
def test_colours_say_the_label(alpha):
    labels = np.array([[2, 0], [1, 1], [0, 2]])
    pixels = np.array(COLOURS.colours, np.uint8)[labels]
    if alpha:
        pixels = np.concatenate([pixels, np.full((3, 2, 1), 200, np.uint8)], -1)
    assert decode_mask(encoded(pixels), "m.png", COLOURS).tolist() == labels.tolist()
    ignoring = Legend(COLOURS.names, COLOURS.colours, ignore=2)
    assert decode_mask(encoded(pixels), "m.png", ignoring).tolist() == np.where(labels == 2, -1, labels).tolist()
    # a palette of these colours in another order
    picture = Pillow.fromarray(np.array([[0, 1]], np.uint8))
    picture.putpalette([0, 99, 0, 0, 0, 255])
    assert decode_mask(encoded(picture), "m.png", COLOURS).tolist() == [[2, 0]]


@pytest.mark.parametrize(
    ("data", "legend", "message"),
    [
        (b"", Legend(), r"m\.png: is empty \(0 bytes\); restore it or remove it"),
        (b"GIF89a", Legend(), r"m\.png: is a GIF file; convert it to PNG"),
        (encoded(np.zeros((4, 4, 3), np.uint8), "JPEG"), Legend(), r"m\.png: is a JPEG file, which blurs labels; save"),
        (grey()[:40], Legend(), r"m\.png: is damaged or cut off"),
        (
            encoded(np.zeros((2, 2, 3), np.uint8)),
            Legend(),
            r"m\.png: is a mask in colours \(RGB\); name them in data\.",
        ),
        (encoded(np.zeros((2, 2, 2), np.uint8)), Legend(), r"m\.png: is a mask in colours \(LA\)"),
        (
            encoded(np.full((2, 2), 300, np.uint16)),
            Legend(),
            r"m\.png: label 300; labels are whole numbers from 0 to 255",
        ),
        (
            encoded(LABELS),
            Legend(("a", "b", "c")),
            r"m\.png: label 9, but data\.classes names 3, from 0; name them all",
        ),
        (
            encoded(np.array([[[0, 0, 255], [0, 0, 254]]], np.uint8)),
            COLOURS,
            r"m\.png: colour #0000fe at row 0, column 1 is not among data\.colours; name every colour, and save mas",
        ),
        (encoded(np.full((1, 1, 3), 255, np.uint8)), COLOURS, "colour #ffffff at row 0, column 0"),
    ],
)
def test_what_is_no_mask_is_named(data, legend, message):
    with pytest.raises(DataError, match=message):
        decode_mask(data, "m.png", legend)


def test_a_picture_beyond_the_limit_is_refused():
    with pytest.raises(DataError, match=r"m\.png: has 3 x 5 pixels, more than 14"):
        decode_mask(grey(size=(3, 5)), "m.png", Legend(), 14)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((2, 2)), "x: labels are float64; give whole numbers from 0 to 255"),
        (np.full((2, 2), np.nan, np.float32), "x: labels are float32"),
        (np.full((2, 2), -1), "x: label -1; labels are whole numbers from 0 to 255, one of which data.ignore may name"),
        (np.full((2, 2), 1 << 40), "x: label 1099511627776"),
    ],
)
def test_arrays_that_are_no_labels_are_refused(values, message):
    with pytest.raises(DataError, match=message):
        as_labels(values, "x", Legend())


def test_arrays_of_any_whole_type_are_labels():
    for kind in (bool, np.uint8, np.int64, np.int16):
        assert as_labels(np.array([[0, 1]], kind), "x", Legend()).tolist() == [[0, 1]]
    # the label that counts nowhere needs no name
    assert as_labels(np.array([[1, 255]]), "x", Legend(("a", "b"), ignore=255)).tolist() == [[1, -1]]
    assert as_labels(np.zeros((0, 3), int), "x", Legend(("a",))).shape == (0, 3)


def test_another_size_takes_the_label_under_the_middle_of_each_pixel():
    labels = np.arange(15).reshape(3, 5)
    found = nearest(labels, 7, 2)
    for row in range(7):
        for column in range(2):
            assert found[row, column] == labels[int((row + 0.5) * 3 / 7), int((column + 0.5) * 5 / 2)]
    assert (nearest(labels, 3, 5) == labels).all()


@pytest.mark.parametrize("fit", ["resize", "pad"])
@pytest.mark.parametrize("shape", [Shape(9, 15, 3), Shape(6, 20, 3), Shape(12, 10, 3)])
def test_what_is_fitted_is_restored(fit, shape):
    mask = np.arange(15, dtype=np.int16).reshape(3, 5)
    made = fitted(mask, shape, fit)
    assert made.shape == shape[:2]
    assert (restored(made, Shape(3, 5, 3), fit) == mask).all()
    padded = {(9, 15): 0, (6, 20): 6 * 10, (12, 10): 6 * 10}[shape[:2]]
    assert (made == -1).sum() == (padded if fit == "pad" else 0)


def test_names_and_colours_of_labels():
    assert len(set(Legend().palette[:40])) == 40
    assert len(Legend(("0", "3", "red")).palette) == 256
    assert Legend(("ground", "leaf", "red")).palette[2] == Legend().palette[2] == to_rgb(PALETTE[1])
    assert COLOURS.palette[1] == (0, 255, 255)
    assert COLOURS.palette[200] == (0, 0, 0)
    assert COLOURS.name(2) == "land"
