"""Pixels of pictures: PNG and JPEG files decoded; channels and size made those that a model reads."""

import io
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Int16, UInt8
from pydantic import Field, model_validator
from torch.nn import functional as F

from headwise.config import Config
from headwise.data.bad_lines import BadRule
from headwise.errors import ConfigError, DataError

Fit = Literal["resize", "pad"]
T = TypeVar("T")
Colour = tuple[int, int, int]

MAX_PIXELS = 1 << 26
MAX_CHANNELS = 16

_LUMA = np.array([0.299, 0.587, 0.114])
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


class PicturesConfig(Config):
    """What pictures are made into, and which of them are used for what."""

    size: tuple[int, int] | None = Field(
        None, description="height and width the model reads; if absent, those of train, which must then all be alike"
    )
    channels: int | None = Field(
        None,
        ge=1,
        le=MAX_CHANNELS,
        description="channels the model reads; if absent, those of train's first, without transparency",
    )
    fit: Fit = Field("resize", description="images of another size: resize stretches, pad keeps proportions")
    bad_images: BadRule = Field("stop", description="an image that cannot be read: stop, or skip it")
    limit: int | None = Field(None, ge=1, description="use only so many images of train, drawn by split_seed")
    valid_fraction: float = Field(0.1, ge=0, lt=1, description="part of train's images held out to validate")
    test_fraction: float = Field(0.1, ge=0, lt=1, description="part of train's images held out to test")
    split_seed: int = Field(0, description="another seed gives another split")
    max_pixels: int = Field(MAX_PIXELS, ge=1, description="larger pictures are refused before they are decoded")

    @model_validator(mode="after")
    def _sizes_are_sizes(self) -> "PicturesConfig":
        if self.size is not None and not all(1 <= side <= 2**14 for side in self.size):
            raise ValueError(f"size {list(self.size)} must be a height and a width from 1 to 16384")
        return self


class Shape(NamedTuple):
    """The pixels and channels of an image.

    >>> str(Shape(28, 32, 1))
    '28 x 32 pixels of 1 channel'
    """

    height: int
    width: int
    channels: int

    def __str__(self) -> str:
        plural = "" if self.channels == 1 else "s"
        return f"{self.height} x {self.width} pixels of {self.channels} channel{plural}"


@dataclass(frozen=True, slots=True)
class Image:
    """One image as its file has it.

    Args:
        name: the file, and the number of the image where it holds several.
        pixels: from 0 to 255, rows from the top.
        label: the class, where it is known.
        alpha: the last of the four channels says how opaque a pixel is.
        mask: the label of each pixel, where they are known; -1 where none counts.
    """

    name: str
    pixels: UInt8[np.ndarray, "height width channels"]
    label: str | None = None
    alpha: bool = False
    mask: Int16[np.ndarray, "height width"] | None = None

    @property
    def shape(self) -> Shape:
        """Height, width and channels."""
        return Shape(*self.pixels.shape)


def decode(data: bytes, name: str, max_pixels: int = MAX_PIXELS, label: str | None = None) -> Image:
    """The image in the bytes of a PNG or JPEG file, which is known by its content; upright as its EXIF data says.

    Palettes and CMYK become RGB; of samples of 16 bits the upper eight are kept; transparency becomes a fourth channel.

    Raises:
        ConfigError: Pillow is not installed.
        DataError: `name: ...` for another format, more than `max_pixels`, an animation, damaged or missing bytes.
    """
    return decoded(data, name, max_pixels, lambda picture: _image(picture, name, label))


def decoded(data: bytes, name: str, max_pixels: int, made: Callable[[Any], T]) -> T:
    """What `made` makes of a picture of Pillow, upright, in the bytes of a PNG or JPEG file. Raises: as `decode`."""
    if not data:
        raise DataError(f"{name}: is empty (0 bytes); restore it or remove it")
    pillow, turned = _pillow()
    try:
        with warnings.catch_warnings():
            # of sizes that are refused here by a limit of our own
            warnings.simplefilter("ignore")
            with pillow.open(io.BytesIO(data), formats=("PNG", "JPEG")) as picture:
                # the header alone has been read so far
                _check(picture, name, max_pixels)
                return made(turned(picture))
    except (DataError, KeyboardInterrupt):
        raise
    except pillow.UnidentifiedImageError:
        if data.startswith(_OWN):
            raise DataError(f"{name}: is damaged or cut off; copy it again or remove it") from None
        raise DataError(f"{name}: is {_kind(data)}; convert it to PNG or JPEG, or remove it") from None
    except pillow.DecompressionBombError:
        raise DataError(f"{name}: has more than {max_pixels:,} pixels; make it smaller or remove it") from None
    except Exception as error:
        # what a decoder raises for damaged bytes may be anything
        what = " ".join(str(error).split())[:100] or type(error).__name__
        raise DataError(f"{name}: is damaged or cut off ({what}); copy it again or remove it") from None


def adapted(image: Image, shape: Shape, fit: Fit) -> UInt8[np.ndarray, "height width channels"]:
    """The pixels of an image in another shape.

    Grey becomes colour by repetition and colour grey by its luma (ITU-R BT.601); what is transparent lies on white.
    "resize" stretches the image to the size; "pad" keeps its proportions and fills up with black on both sides.

    Raises:
        DataError: channels that cannot become those of the shape.

    >>> adapted(Image("dot", np.full((1, 1, 1), 7, np.uint8)), Shape(2, 3, 3), "pad")[0].tolist()
    [[7, 7, 7], [7, 7, 7], [0, 0, 0]]
    """
    pixels = _channelled(image, shape.channels)
    height, width = pixels.shape[:2]
    if (height, width) == (shape.height, shape.width):
        return pixels
    whole = np.zeros(shape, np.uint8)
    rows, columns = place(image.shape, shape, fit)
    whole[rows, columns] = _resized(pixels, rows.stop - rows.start, columns.stop - columns.start)
    return whole


def place(image: Shape, shape: Shape, fit: Fit) -> tuple[slice, slice]:
    """The rows and columns that an image takes in another shape; all of them unless it is padded.

    >>> place(Shape(1, 1, 3), Shape(2, 5, 3), "pad")
    (slice(0, 2, None), slice(1, 3, None))
    """
    scale = min(shape.height / image.height, shape.width / image.width)
    found = []
    for side, whole in zip(image[:2], shape[:2], strict=True):
        taken = whole if fit == "resize" else max(1, round(side * scale))
        found.append(slice((whole - taken) // 2, (whole - taken) // 2 + taken))
    return found[0], found[1]


def _check(picture: Any, name: str, max_pixels: int) -> None:
    width, height = picture.size
    if width * height > max_pixels:
        raise DataError(
            f"{name}: has {height:,} x {width:,} pixels, more than {max_pixels:,}; make it smaller or raise max_pixels"
        )
    if picture.format == "PNG" and getattr(picture, "n_frames", 1) > 1:
        raise DataError(f"{name}: is an animation of {picture.n_frames} frames; save one frame as PNG, or remove it")


def _image(picture: Any, name: str, label: str | None) -> Image:
    if picture.mode.startswith("I"):
        # Pillow itself keeps the upper bits of 16 where there are three channels
        return Image(name, (np.asarray(picture).astype(np.int64) >> 8).astype(np.uint8)[..., None], label)
    alpha = picture.mode in ("LA", "PA", "La", "RGBA", "RGBa") or "transparency" in picture.info
    wanted = "RGBA" if alpha else "L" if picture.mode in ("1", "L") else "RGB"
    pixels = np.array(picture.convert(wanted))
    return Image(name, pixels if pixels.ndim == 3 else pixels[..., None], label, alpha)


def _channelled(image: Image, channels: int) -> np.ndarray:
    pixels, have = image.pixels, image.pixels.shape[-1]
    if have == channels:
        return pixels
    if image.alpha and channels in (1, 3):
        opaque = pixels[..., 3:].astype(np.float64) / 255
        pixels = np.rint(pixels[..., :3] * opaque + 255 * (1 - opaque)).astype(np.uint8)
        have = 3
    if channels == 4 and have in (1, 3) and not image.alpha:
        raise DataError(
            f"{image.name}: {_counted(have)}, the model reads 4; give a picture with transparency, or 4 channels"
        )
    if have == channels:
        return pixels
    if have == 1 and channels == 3:
        return np.repeat(pixels, 3, axis=-1)
    if have == 3 and channels == 1:
        return np.rint(pixels @ _LUMA).astype(np.uint8)[..., None]
    raise DataError(
        f"{image.name}: {_counted(have)}, the model reads {channels}; give images of {channels}, or train with"
        f" data.channels = {have}"
    )


def _counted(channels: int) -> str:
    return f"{channels} channel{'' if channels == 1 else 's'}"


def _resized(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    planes = torch.from_numpy(np.array(pixels, np.float32)).permute(2, 0, 1)[None]
    found = F.interpolate(planes, (height, width), mode="bilinear", antialias=True)[0]
    return np.rint(found.permute(1, 2, 0).numpy()).clip(0, 255).astype(np.uint8)


def _kind(data: bytes) -> str:
    return next((what for magic, what in _OTHERS.items() if data.startswith(magic)), "neither PNG nor JPEG")


def _pillow() -> tuple[ModuleType, Any]:
    try:
        from PIL import Image as pillow
        from PIL import ImageOps
    except ModuleNotFoundError:
        raise ConfigError("PNG and JPEG files need Pillow; install it with: pip install 'headwise[image]'") from None
    return pillow, ImageOps.exif_transpose


def encode(pixels: UInt8[np.ndarray, "height width *channels"]) -> bytes:
    """The bytes of a PNG file of grey, RGB or RGBA pixels. Raises: ConfigError: Pillow is not installed.

    >>> decode(encode(np.full((2, 3), 7, np.uint8)), "grey").pixels[0, 0].tolist()
    [7]
    """
    return _png(pixels)


def encode_labels(labels: UInt8[np.ndarray, "height width"], palette: Sequence[Colour]) -> bytes:
    """The bytes of a PNG file whose pixels are labels, each drawn in its colour of the palette. Raises: as `encode`.

    >>> encode_labels(np.zeros((2, 3), np.uint8), [(9, 9, 9)])[1:4]
    b'PNG'
    """
    return _png(labels, palette)


def _png(pixels: np.ndarray, palette: Sequence[Colour] = ()) -> bytes:
    pillow, _ = _pillow()
    picture, buffer = pillow.fromarray(pixels), io.BytesIO()
    if palette:
        picture.putpalette([value for colour in palette for value in colour])
    picture.save(buffer, "PNG")
    return buffer.getvalue()
