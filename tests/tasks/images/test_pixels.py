"""Pictures of every kind and fault: read right, or refused with what to do; channels and sizes made those asked for."""

import io
import struct
import sys
import zlib
from dataclasses import replace

import numpy as np
import pytest
from pictures import encoded, grey
from PIL import Image as Pillow
from pydantic import ValidationError

from headwise.errors import ConfigError, DataError
from headwise.tasks.images.masks import MasksConfig
from headwise.tasks.images.picture_files import decode
from headwise.tasks.images.pixels import Image, PicturesConfig, Shape, adapted

RED = np.zeros((2, 3, 3), np.uint8)
RED[..., 0] = 200


def test_grey_and_colour_come_as_they_are():
    pixels = np.arange(15, dtype=np.uint8).reshape(3, 5)
    found = decode(encoded(pixels), "a.png", label="cat")
    assert (found.name, found.label, found.alpha, found.shape) == ("a.png", "cat", False, (3, 5, 1))
    np.testing.assert_array_equal(found.pixels[..., 0], pixels)
    np.testing.assert_array_equal(decode(encoded(RED), "b.png").pixels, RED)
    # the content decides, whatever the name says
    assert decode(encoded(RED, "JPEG"), "b.png").shape == (2, 3, 3)


def test_one_bit_palette_and_cmyk_become_bytes_of_grey_and_colour():
    bits = Pillow.fromarray(np.array([[0, 255], [255, 0]], np.uint8)).convert("1")
    assert decode(encoded(bits), "a").pixels[..., 0].tolist() == [[0, 255], [255, 0]]
    palette = Pillow.fromarray(RED).convert("P", palette=Pillow.Palette.ADAPTIVE)
    np.testing.assert_array_equal(decode(encoded(palette), "a").pixels, RED)
    cmyk = decode(encoded(Pillow.fromarray(RED).convert("CMYK"), "JPEG", quality=100), "a")
    assert np.abs(cmyk.pixels.astype(int) - RED).max() < 12


@pytest.mark.parametrize("value", [0, 255, 256, 4660, 65535])
def test_of_sixteen_bits_the_upper_eight_are_kept(value):
    found = decode(encoded(np.full((2, 2), value, np.uint16)), "a")
    assert found.pixels.dtype == np.uint8
    assert set(found.pixels.ravel().tolist()) == {value // 256}


def test_transparency_is_a_channel_that_lies_on_white():
    pixels = np.full((1, 3, 4), 100, np.uint8)
    pixels[0, :, 3] = [0, 51, 255]
    found = decode(encoded(pixels), "a")
    assert found.alpha
    assert adapted(found, Shape(1, 3, 3), "resize")[0, :, 0].tolist() == [255, 224, 100]
    assert adapted(found, Shape(1, 3, 1), "resize")[0, :, 0].tolist() == [255, 224, 100]
    np.testing.assert_array_equal(adapted(found, Shape(1, 3, 4), "resize"), pixels)
    # a colour that a palette or a grey picture calls transparent
    keyed = decode(encoded(np.array([[5, 9]], np.uint8), transparency=5), "a")
    assert adapted(keyed, Shape(1, 2, 1), "resize").ravel().tolist() == [255, 9]


def test_exif_turns_a_photograph_upright():
    pixels = np.zeros((2, 4, 3), np.uint8)
    pixels[:, :2] = 255
    exif = Pillow.Exif()
    exif[0x0112] = 6
    found = decode(encoded(pixels, "JPEG", exif=exif, quality=100, subsampling=0), "a")
    assert found.shape == (4, 2, 3)
    assert found.pixels[0].min() > 200
    assert found.pixels[-1].max() < 55


def bomb(width, height):
    """A PNG whose header alone says that it is huge."""
    chunks = [b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0), b"IDAT" + zlib.compress(b"\0")]
    sized = (struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part)) for part in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(sized)


def animated():
    buffer = io.BytesIO()
    frames = [Pillow.fromarray(np.full((2, 2), value, np.uint8)) for value in (0, 99)]
    frames[0].save(buffer, "PNG", save_all=True, append_images=frames[1:])
    return buffer.getvalue()


WHOLE = encoded(np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8))
HOSTILE = {
    "nothing": (b"", r"x.png: is empty \(0 bytes\); restore it or remove it"),
    "cut": (WHOLE[:2000], "x.png: is damaged or cut off .*; copy it again or remove it"),
    "cut jpeg": (encoded(RED.repeat(40, 0).repeat(40, 1), "JPEG")[:400], "x.png: is damaged or cut off"),
    "header alone": (WHOLE[:8], "x.png: is "),
    "damaged": (WHOLE[:60] + b"\xff" * 40 + WHOLE[100:], "x.png: is damaged or cut off"),
    "bomb": (bomb(60_000, 60_000), "x.png: has more than 16,777,216 pixels; make it smaller"),
    "large": (
        bomb(9000, 9000),
        "x.png: has 9,000 x 9,000 pixels, more than 16,777,216; make it smaller, or raise data",
    ),
    "no pixels": (bomb(0, 5), "x.png: is "),
    "animation": (animated(), "x.png: is an animation of 2 frames; save one frame as PNG, or remove it"),
    "gif": (encoded(RED, "GIF"), "x.png: is a GIF file; convert it to PNG or JPEG, or remove it"),
    "tiff": (encoded(RED, "TIFF"), "x.png: is a TIFF file; convert it"),
    "bmp": (encoded(RED, "BMP"), "x.png: is a BMP file; convert it"),
    "svg": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "x.png: is an SVG drawing; convert it"),
    "xml": (b"<?xml version='1.0'?><svg/>", "x.png: is an SVG drawing or other XML"),
    "text": (b"not a picture", "x.png: is neither PNG nor JPEG; convert it"),
    "packed": (b"\x1f\x8b" + bytes(30), "x.png: is gzip data; convert it"),
    "nul": (bytes(64), "x.png: is neither PNG nor JPEG"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pictures_are_refused_with_what_to_do(name):
    data, message = HOSTILE[name]
    with pytest.raises(DataError, match=message):
        decode(data, "x.png")


def test_a_limit_of_pixels_is_met_before_anything_is_decoded():
    assert decode(grey(size=(3, 5)), "a", max_pixels=15).shape == (3, 5, 1)
    with pytest.raises(
        DataError, match=r"a: has 3 x 5 pixels, more than 14; make it smaller, or raise data.max_pixels"
    ):
        decode(grey(size=(3, 5)), "a", max_pixels=14)


def jpeg(height, width, **how):
    return encoded(np.arange(height * width * 3, dtype=np.uint8).reshape(height, width, 3), "JPEG", **how)


def test_a_larger_jpeg_is_decoded_at_part_of_its_size_unless_all_of_it_is_wanted():
    data = jpeg(40, 60)
    assert decode(data, "a", max_pixels=2399).shape == (20, 30, 3)
    assert decode(data, "a", max_pixels=150).shape == (10, 15, 3)
    for kept, given in [
        ({"max_pixels": 149}, data),
        ({"max_pixels": 2399, "whole": True}, data),
        # a decoder keeps all of such a file in memory
        ({"max_pixels": 2399}, jpeg(40, 60, progressive=True)),
    ]:
        with pytest.raises(DataError, match="a: has 40 x 60 pixels, more than"):
            decode(given, "a", **kept)


def test_more_pixels_than_pillow_opens_are_refused_whatever_the_limit():
    with pytest.raises(DataError, match="a: has more than 178,956,970 pixels; make it smaller or remove it"):
        decode(bomb(60_000, 60_000), "a", max_pixels=1 << 40)


def test_a_jpeg_that_is_too_short_for_its_pixels_is_refused():
    data = jpeg(40, 60)
    start = data.index(b"\xff\xc0") + 5
    huge = data[:start] + struct.pack(">HH", 4000, 4000) + data[start + 4 :]
    with pytest.raises(
        DataError, match=r"a: is damaged or cut off: [\d,]+ bytes cannot hold 4,000 x 4,000 pixels; copy"
    ):
        decode(huge, "a")


def many_parts(kind):
    """A picture with parts, each of which a decoder keeps or goes over, or with bytes between them."""
    png, jpg, profile = encoded(RED), encoded(RED, "JPEG"), b"\xff\xe2\xff\xff" + bytes(0xFFFD)
    return {
        "chunks before": png[:33] + private_chunk() * 1100 + png[33:],
        "chunks behind": png[:-12] + private_chunk() * 1100 + png[-12:],
        "segments": jpg[:2] + b"\xff\xe5\0\2" * 1100 + jpg[2:],
        "fill": jpg[:2] + b"\xff" * 70_000 + jpg[2:],
        "junk": jpg[:2] + b"\0" * 70_000 + jpg[2:],
        "hidden": jpg[:2] + b"\xff\xf0\xff\xff" + b"\xff\xd8" * 70_000 + jpg[2:],
        "profiles": jpg[:2] + profile * 300 + jpg[2:],
        "scans": jpg[:-2] + jpg[jpg.index(b"\xff\xda") : -2] * 100 + jpg[-2:],
    }[kind]


def private_chunk():
    return struct.pack(">I4sI", 0, b"prVt", zlib.crc32(b"prVt"))


@pytest.mark.parametrize(
    "kind", ["chunks before", "chunks behind", "segments", "fill", "junk", "hidden", "profiles", "scans"]
)
def test_parts_without_end_are_refused_before_a_decoder_goes_over_them(kind, monkeypatch):
    monkeypatch.setattr(Pillow, "open", lambda *_, **__: pytest.fail("opened"))
    with pytest.raises(DataError, match=r"too much besides its pixels|more than 100 times"):
        decode(many_parts(kind), "a")


def test_parts_as_programs_write_them_are_read():
    png, jpg, profile = encoded(RED), encoded(RED, "JPEG", progressive=True), b"\xff\xe2\xff\xff" + bytes(0xFFFD)
    assert decode(png[:33] + private_chunk() * 99 + png[33:], "a").shape == (2, 3, 3)
    assert decode(jpg[:2] + profile * 200 + b"\xff" * 99 + jpg[2:], "a").shape == (2, 3, 3)


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "1"])
def test_pictures_are_converted_some_rows_at_a_time(mode, monkeypatch):
    rng = np.random.default_rng(1)
    whole = Pillow.fromarray(rng.integers(0, 256, (9, 7, 4), dtype=np.uint8), "RGBA")
    made = (
        Pillow.fromarray(rng.integers(0, 1 << 16, (9, 7), dtype=np.uint16)) if mode == "I;16" else whole.convert(mode)
    )
    data = encoded(made, "JPEG" if mode == "CMYK" else "PNG")
    at_once = decode(data, "a")
    monkeypatch.setattr("headwise.tasks.images.picture_files._AT_ONCE", 14)
    np.testing.assert_array_equal(decode(data, "a").pixels, at_once.pixels)


def test_without_pillow_the_extra_is_named(monkeypatch):
    data = grey()
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ConfigError, match=r"need Pillow; install it with: pip install 'headwise\[image\]'"):
        decode(data, "a")


def plain(shape, value=90):
    return Image("x.npz[3]", np.full(shape, value, np.uint8))


def test_channels_are_repeated_weighed_or_refused():
    assert adapted(plain((1, 1, 1)), Shape(1, 1, 3), "resize").tolist() == [[[90, 90, 90]]]
    colour = Image("a", np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255]]], np.uint8))
    # ITU-R BT.601: 0.299, 0.587, 0.114
    assert adapted(colour, Shape(1, 3, 1), "resize").ravel().tolist() == [76, 150, 29]
    for have, want in [(6, 3), (3, 6), (4, 3), (4, 1), (2, 1)]:
        message = f"x.npz\\[3\\]: {have} channels, the model reads {want}; give images of {want}, or train with data.ch"
        with pytest.raises(DataError, match=message):
            adapted(plain((2, 2, have)), Shape(2, 2, want), "resize")
    with pytest.raises(DataError, match="1 channel, the model reads 4; give a picture with transparency"):
        adapted(plain((2, 2, 1)), Shape(2, 2, 4), "resize")
    assert adapted(plain((2, 2, 6)), Shape(4, 3, 6), "resize").shape == (4, 3, 6)


def test_a_size_is_stretched_or_padded():
    wide = np.zeros((2, 4, 1), np.uint8)
    wide[:, 2:] = 200
    stretched = adapted(Image("a", wide), Shape(4, 4, 1), "resize")[..., 0]
    np.testing.assert_array_equal(stretched, wide[[0, 0, 1, 1], :, 0])
    padded = adapted(Image("a", wide), Shape(4, 4, 1), "pad")[..., 0]
    np.testing.assert_array_equal(padded[1:3], wide[..., 0])
    assert not padded[[0, 3]].any()
    # halving is the mean over more than a place: nothing is left out
    checkers = Image("a", (np.indices((8, 8)).sum(0) % 2 * 255).astype(np.uint8)[..., None])
    small = adapted(checkers, Shape(2, 2, 1), "resize")
    assert np.abs(small.astype(int) - 127).max() < 20
    assert adapted(Image("a", np.full((1, 1, 1), 9, np.uint8)), Shape(3, 2, 1), "resize").tolist() == [[[9], [9]]] * 3
    # one side may become less than a pixel: it keeps one
    assert adapted(Image("a", np.full((1, 300, 1), 9, np.uint8)), Shape(4, 4, 1), "pad").max() == 9


def test_sides_and_files_beyond_what_pixels_take_are_refused():
    with pytest.raises(DataError, match="a: has 1 x 65,536 pixels; a side has 65,535 at most; cut it"):
        decode(grey(size=(1, 65_536)), "a")
    with pytest.raises(DataError, match="a: has 1,048,677 bytes for 3 x 5 pixels; save it anew"):
        decode(grey(size=(3, 5)).ljust((1 << 20) + 101, b"\0"), "a", max_pixels=15)


@pytest.mark.parametrize("resample", ["linear", "cubic"])
@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_other_sizes_are_those_of_pillow(resample, mode):
    # far from black and white, where cubic interpolation is cut after one direction, which is not the same there
    picture = Pillow.fromarray(np.random.default_rng(0).integers(90, 160, (23, 17, 4), dtype=np.uint8), "RGBA")
    pixels = np.asarray(picture.convert(mode)).reshape(23, 17, -1)
    for height, width in ((7, 11), (40, 31), (1, 1), (23, 5)):
        made = adapted(Image("a", pixels), Shape(height, width, pixels.shape[-1]), "resize", resample)
        planes = [Pillow.fromarray(pixels[..., channel]) for channel in range(pixels.shape[-1])]
        method = {"linear": Pillow.Resampling.BILINEAR, "cubic": Pillow.Resampling.BICUBIC}[resample]
        expected = np.stack([np.asarray(plane.resize((width, height), method)) for plane in planes], -1)
        assert np.abs(made.astype(int) - expected).max() <= 1


def test_the_middle_of_a_stretched_picture_is_read():
    data = PicturesConfig(size=(2, 3), fit="crop", crop_from=(5, 6))
    pixels = np.arange(30, dtype=np.uint8).reshape(5, 6, 1)
    image = Image("a", pixels)
    middle = data.adapted(image, Shape(2, 3, 1))
    assert (middle == pixels[1:3, 1:4]).all()
    # one that has the size already is stretched too, unless it was read before
    small = Image("a", pixels[:2, :3])
    assert (data.adapted(small, Shape(2, 3, 1)) != pixels[:2, :3]).any()
    assert (data.adapted(replace(small, fitted=True), Shape(2, 3, 1)) == pixels[:2, :3]).all()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"fit": "crop"}, "needs crop_from"),
        ({"crop_from": (5, 6)}, "needs crop_from, which no other fit has"),
        ({"fit": "crop", "crop_from": (5, 6)}, "must hold size"),
        ({"fit": "crop", "crop_from": (5, 6), "size": (6, 5)}, "must hold size"),
        ({"fit": "crop", "crop_from": (5, 1 << 15), "size": (5, 5)}, "up to 16384"),
    ],
)
def test_middles_that_cannot_be_are_refused(values, message):
    with pytest.raises(ValidationError, match=message):
        PicturesConfig(**values)


def test_masks_have_no_middle():
    with pytest.raises(ValidationError, match="crop is for labels of whole images"):
        MasksConfig(train="a.csv", size=(2, 2), fit="crop", crop_from=(3, 3))
