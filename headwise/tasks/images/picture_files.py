"""Pictures in PNG and JPEG files: decoded upright within limits of memory, and written."""

import io
import itertools
import struct
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from jaxtyping import UInt8

from headwise.errors import DataError
from headwise.tasks.images.pixels import MAX_PIXELS, MAX_SIDE, Colour, Image, load_pillow

T = TypeVar("T")

# pixels that are converted at once
_AT_ONCE = 1 << 20
# bytes of a file besides its pixels: thumbnails, profiles of colours, EXIF data
_HEADERS = 1 << 20
# what a decoder may go over besides pixels: single bytes between parts; each part, which takes it time and memory,
# costs as many as 64, or more if it is large: that makes 1,024 parts, or 16 MiB
_MOST_COST, _PART = 1 << 16, 1 << 6
# times that a JPEG file goes over its pixels: cameras and programs write ten
_MOST_SCANS = 100
# markers of JPEG without a length
_BARE = {0x00, 0xC8, *range(0xD0, 0xDA), *range(0xF0, 0xFE)}
_SCAN, _FILL = 0xDA, 0xFF

_OWN = (b"\x89PNG", b"\xff\xd8")
_OTHERS = {
    b"GIF8": "a GIF file",
    b"RIFF": "a WebP file",
    b"II*\0": "a TIFF file",
    b"MM\0*": "a TIFF file",
    b"BM": "a BMP file",
    b"%PDF": "a PDF document",
    b"<svg": "an SVG drawing",
    b"<?xm": "an SVG drawing or other XML",
    b"PK\x03\x04": "a zip archive",
    b"\x1f\x8b": "gzip data",
}


def decode(
    data: bytes, name: str, max_pixels: int = MAX_PIXELS, label: str | None = None, *, whole: bool = False
) -> Image:
    """The image in the bytes of a PNG or JPEG file, which is known by its content; upright as its EXIF data says.

    Palettes and CMYK become RGB; of samples of 16 bits the upper eight are kept; transparency becomes a fourth channel.

    Args:
        max_pixels: more are refused before they are decoded. A JPEG file of up to 16 times as many, and of the 178
            million that Pillow opens, is decoded at half or a quarter of its height and width where it was written in
            one pass: that takes no more memory.
        whole: larger JPEG files are refused too.

    Raises:
        ConfigError: Pillow is not installed.
        DataError: `name: ...` for another format, more than `max_pixels`, an animation, damaged or missing bytes.
    """
    return decoded(data, name, max_pixels, lambda picture: _image(picture, name, label), whole=whole)


def decoded(data: bytes, name: str, max_pixels: int, convert: Callable[[Any], T], *, whole: bool = True) -> T:
    """What `made` makes of a picture of Pillow, upright, in the bytes of a PNG or JPEG file. Raises: as `decode`."""
    if not data:
        raise DataError(f"{name}: is empty (0 bytes); restore it or remove it")
    pillow, operations = load_pillow()
    _check_parts(data, name)
    try:
        # warnings of sizes that are refused here by a limit of our own
        with (
            warnings.catch_warnings(action="ignore"),
            pillow.open(io.BytesIO(data), formats=("PNG", "JPEG")) as picture,
        ):
            # the header alone has been read so far
            _check(picture, data, name, max_pixels, whole)
            operations.exif_transpose(picture, in_place=True)
            return convert(picture)
    except (DataError, KeyboardInterrupt):
        raise
    except pillow.UnidentifiedImageError:
        if data.startswith(_OWN):
            raise DataError(f"{name}: is damaged or cut off; copy it again or remove it") from None
        kind = next((what for magic, what in _OTHERS.items() if data.startswith(magic)), "neither PNG nor JPEG")
        raise DataError(f"{name}: is {kind}; convert it to PNG or JPEG, or remove it") from None
    except pillow.DecompressionBombError:
        most = min(max_pixels, 2 * pillow.MAX_IMAGE_PIXELS)
        raise DataError(f"{name}: has more than {most:,} pixels; make it smaller or remove it") from None
    except Exception as error:
        # what a decoder raises for damaged bytes may be anything
        what = " ".join(str(error).split())[:100] or type(error).__name__
        raise DataError(f"{name}: is damaged or cut off ({what}); copy it again or remove it") from None


def _check(picture: Any, data: bytes, name: str, max_pixels: int, whole: bool) -> None:
    if picture.format != "PNG":
        _check_jpeg(picture, data, name, max_pixels, whole)
    width, height = picture.size
    if width * height > max_pixels:
        raise DataError(
            f"{name}: has {height:,} x {width:,} pixels, more than {max_pixels:,}; make it smaller, or raise"
            " data.max_pixels"
        )
    if max(width, height) > MAX_SIDE:
        raise DataError(f"{name}: has {height:,} x {width:,} pixels; a side has {MAX_SIDE:,} at most; cut it")
    # what a decoder is given and what it makes are in memory together
    if len(data) > 4 * max_pixels + _HEADERS:
        raise DataError(f"{name}: has {len(data):,} bytes for {height:,} x {width:,} pixels; save it anew")
    if picture.format == "PNG" and getattr(picture, "n_frames", 1) > 1:
        raise DataError(f"{name}: is an animation of {picture.n_frames} frames; save one frame as PNG, or remove it")


def _check_jpeg(picture: Any, data: bytes, name: str, max_pixels: int, whole: bool) -> None:
    """Refuses what is missing, which a decoder fills with grey; reads a larger picture at part of its size."""
    width, height = picture.size
    # a block of 8 x 8 pixels takes a bit or more
    if width * height > 512 * len(data):
        raise DataError(
            f"{name}: is damaged or cut off: {len(data):,} bytes cannot hold {height:,} x {width:,} pixels; copy it"
            " again or remove it"
        )
    if whole or width * height <= max_pixels or not _in_one_pass(data):
        return
    part = next((part for part in (2, 4) if -(-width // part) * -(-height // part) <= max_pixels), None)
    if part is not None:
        picture.draft(None, (max(1, width // part), max(1, height // part)))


def _in_one_pass(data: bytes) -> bool:
    """Whether all channels of a JPEG file are scanned together; else a decoder keeps all of it in memory."""
    channels = None
    for marker, place, _ in _markers(data):
        if marker in (0xC0, 0xC1):
            channels = data[place + 9]
        if marker == _SCAN:
            return data[place + 4] == channels
    return False


def _check_parts(data: bytes, name: str) -> None:
    """Refuses parts without end, of which a decoder would go over each, or keep it."""
    parts = _chunks(data) if data.startswith(_OWN[0]) else (cost for _, _, cost in _markers(data))
    if any(cost > _MOST_COST for cost in itertools.accumulate(parts)):
        raise DataError(f"{name}: has too much besides its pixels: thumbnails, profiles, comments; save it anew")
    if data.startswith(_OWN[1]) and data.count(bytes((0xFF, _SCAN))) > _MOST_SCANS:
        raise DataError(f"{name}: goes over its pixels more than {_MOST_SCANS} times; save it anew")


def _chunks(data: bytes) -> Iterator[int]:
    """For each chunk of a PNG file what it costs, besides its bytes."""
    place, kind = 8, b""
    while place + 8 <= len(data) and kind != b"IEND":
        size, kind = struct.unpack_from(">I4s", data, place)
        yield 1 if kind == b"IDAT" else max(_PART, size >> 8)
        place += 12 + size


def _markers(data: bytes) -> Iterator[tuple[int, int, int]]:
    """The markers of a JPEG file up to its first scan, where they stand, and what each costs, as Pillow reads them."""
    place = end = 2
    while 0 < (place := data.find(b"\xff", end)) < len(data) - 9:
        marker, size = struct.unpack_from(">xBH", data, place)
        is_bare = marker in _BARE or marker == _FILL
        yield marker, place, place - end + (1 if is_bare else max(_PART, size >> 8))
        if marker == _SCAN:
            return
        end = place + (1 if marker == _FILL else 2 if is_bare else 2 + max(2, size))


def strips(picture: Any) -> Iterator[tuple[slice, Any]]:
    """A picture of Pillow some rows at a time, and which they are: a copy of all takes four times its memory."""
    width, height = picture.size
    step = max(1, _AT_ONCE // width)
    for top in range(0, height, step):
        bottom = min(height, top + step)
        yield slice(top, bottom), picture.crop((0, top, width, bottom)) if step < height else picture


def _image(picture: Any, name: str, label: str | None) -> Image:
    deep = picture.mode.startswith("I")
    alpha = picture.mode in ("LA", "PA", "La", "RGBA", "RGBa") or "transparency" in picture.info
    grey = deep or (picture.mode in ("1", "L") and not alpha)
    width, height = picture.size
    pixels = np.empty((height, width, 1 if grey else 4 if alpha else 3), np.uint8)
    for rows, part in strips(picture):
        # Pillow itself keeps the upper bits of 16 where there are three channels
        samples = (
            np.asarray(part) >> 8 if deep else np.asarray(part.convert("L" if grey else "RGBA" if alpha else "RGB"))
        )
        pixels[rows] = samples.reshape(samples.shape[0], width, -1)
    return Image(name, pixels, label, alpha and not deep)


def encode(pixels: UInt8[np.ndarray, "height width *channels"], palette: Sequence[Colour] = ()) -> bytes:
    """The bytes of a PNG file of grey, RGB or RGBA pixels. Raises: ConfigError: Pillow is not installed.

    Args:
        palette: pixels are labels, each drawn in its colour of these.

    >>> decode(encode(np.full((2, 3), 7, np.uint8)), "grey").pixels[0, 0].tolist()
    [7]
    """
    pillow, _ = load_pillow()
    picture, buffer = pillow.fromarray(pixels), io.BytesIO()
    if palette:
        picture.putpalette([value for colour in palette for value in colour])
    picture.save(buffer, "PNG")
    return buffer.getvalue()
