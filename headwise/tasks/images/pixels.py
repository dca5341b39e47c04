"""Images as arrays: their shape, channels and size made those that a model reads."""

from dataclasses import dataclass
from types import ModuleType
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Int16, UInt8
from pydantic import Field, model_validator
from torch.nn import functional as F

from headwise.config import Config
from headwise.data.bad_lines import BadRule
from headwise.data.idx import MAX_BYTES
from headwise.errors import ConfigError, DataError

Fit = Literal["resize", "pad", "crop"]
Resample = Literal["linear", "cubic"]
Colour = tuple[int, int, int]

# decoded, a pixel takes 12 bytes at the most until it has the size that the model reads
MAX_PIXELS = 1 << 24
# a resize costs time and memory for each pixel of a side; JPEG has no longer ones
MAX_SIDE = (1 << 16) - 1
MAX_CHANNELS = 16


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
    fit: Fit = Field(
        "resize",
        description="images of another size: resize stretches, pad keeps proportions, crop takes the middle",
    )
    crop_from: tuple[int, int] | None = Field(
        None, description="fit = crop: height and width to which images are stretched before their middle is read"
    )
    resample: Resample = Field("linear", description="how images get another size")
    bad_images: BadRule = Field("stop", description="an image that cannot be read: stop, or skip it")
    limit: int | None = Field(None, ge=1, description="use only so many images of train, drawn by split_seed")
    valid_fraction: float = Field(0.1, ge=0, lt=1, description="part of train's images held out to validate")
    test_fraction: float = Field(0.1, ge=0, lt=1, description="part of train's images held out to test")
    split_seed: int = Field(0, description="another seed gives another split")
    max_pixels: int = Field(MAX_PIXELS, ge=1, description="larger pictures are refused before they are decoded")
    max_bytes: int = Field(MAX_BYTES, ge=1, description="larger files, and those that unpack to more, are refused")

    @model_validator(mode="after")
    def _sizes_are_sizes(self) -> "PicturesConfig":
        if self.size is not None and not all(1 <= side <= 2**14 for side in self.size):
            raise ValueError(f"size {list(self.size)} must be a height and a width from 1 to 16384")
        if (self.fit == "crop") != (self.crop_from is not None):
            raise ValueError("fit = crop needs crop_from, which no other fit has")
        if self.crop_from is not None:
            if self.size is None or not all(map(int.__le__, self.size, self.crop_from)):
                raise ValueError(f"crop_from {list(self.crop_from)} must hold size, which has to be set")
            if max(self.crop_from) > 2**14:
                raise ValueError(f"crop_from {list(self.crop_from)} must be a height and a width up to 16384")
        return self

    def adapted(self, image: "Image", shape: "Shape") -> UInt8[np.ndarray, "height width channels"]:
        """The pixels of an image as a model reads them, see `adapted`."""
        if self.crop_from is None or image.fitted:
            return adapted(image, shape, self.fit, self.resample)
        whole = Shape(*self.crop_from, shape.channels)
        top, left = (whole.height - shape.height) // 2, (whole.width - shape.width) // 2
        stretched = adapted(image, whole, "resize", self.resample)
        return stretched[top : top + shape.height, left : left + shape.width]


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
        fitted: it is as a model reads it.
    """

    name: str
    pixels: UInt8[np.ndarray, "height width channels"]
    label: str | None = None
    alpha: bool = False
    mask: Int16[np.ndarray, "height width"] | None = None
    fitted: bool = False

    @property
    def shape(self) -> Shape:
        return Shape(*self.pixels.shape)


def adapted(
    image: Image, shape: Shape, fit: Fit, resample: Resample = "linear"
) -> UInt8[np.ndarray, "height width channels"]:
    """The pixels of an image in another shape.

    Grey becomes colour by repetition and colour grey by its luma (ITU-R BT.601); what is transparent lies on white.
    "resize" stretches the image to the size; "pad" keeps its proportions and fills up with black on both sides.

    Raises: DataError: channels that cannot become those of the shape.

    >>> adapted(Image("dot", np.full((1, 1, 1), 7, np.uint8)), Shape(2, 3, 3), "pad")[0].tolist()
    [[7, 7, 7], [7, 7, 7], [0, 0, 0]]
    """
    pixels = _channelled(image, shape.channels)
    height, width = pixels.shape[:2]
    if (height, width) == (shape.height, shape.width):
        return pixels
    canvas = np.zeros(shape, np.uint8)
    rows, columns = place(image.shape, shape, fit)
    canvas[rows, columns] = _resized(pixels, rows.stop - rows.start, columns.stop - columns.start, resample)
    return canvas


def place(image: Shape, shape: Shape, fit: Fit) -> tuple[slice, slice]:
    """The rows and columns that an image takes in another shape; all of them unless it is padded.

    >>> place(Shape(1, 1, 3), Shape(2, 5, 3), "pad")
    (slice(0, 2, None), slice(1, 3, None))
    """
    scale = min(shape.height / image.height, shape.width / image.width)
    slices = []
    for side, available in zip(image[:2], shape[:2], strict=True):
        covered = max(1, round(side * scale)) if fit == "pad" else available
        slices.append(slice((available - covered) // 2, (available - covered) // 2 + covered))
    return slices[0], slices[1]


def _channelled(image: Image, channels: int) -> np.ndarray:
    pixels, have = image.pixels, image.pixels.shape[-1]
    if have == channels:
        return pixels
    if channels in (1, 3) and (image.alpha or have == 3):
        return _without_alpha(image, "L" if channels == 1 else "RGB")
    if have == 1 and channels == 3:
        return np.repeat(pixels, 3, axis=-1)
    if channels == 4 and have in (1, 3) and not image.alpha:
        raise DataError(
            f"{image.name}: {_counted(have)}, the model reads 4; give a picture with transparency, or 4 channels"
        )
    raise DataError(
        f"{image.name}: {_counted(have)}, the model reads {channels}; give images of {channels}, or train with"
        f" data.channels = {have}"
    )


def _without_alpha(image: Image, mode: str) -> np.ndarray:
    pillow, _ = load_pillow()
    picture = pillow.fromarray(image.pixels)
    if image.alpha:
        white = pillow.new("RGB", picture.size, "white")
        white.paste(picture, mask=picture)
        picture = white
    return np.atleast_3d(np.asarray(picture if picture.mode == mode else picture.convert(mode)))


def load_pillow() -> tuple[ModuleType, ModuleType]:
    """The modules Image and ImageOps of Pillow. Raises: ConfigError: it is not installed."""
    try:
        from PIL import Image as pillow
        from PIL import ImageOps
    except ModuleNotFoundError:
        raise ConfigError("pictures need Pillow; install it with: pip install 'headwise[image]'") from None
    return pillow, ImageOps


def _counted(channels: int) -> str:
    return f"{channels} channel{'' if channels == 1 else 's'}"


def _resized(pixels: np.ndarray, height: int, width: int, resample: Resample) -> np.ndarray:
    """In another size by PyTorch's products of bytes, as torchvision has it: rounded between both directions."""
    mode = {"linear": "bilinear", "cubic": "bicubic"}[resample]
    # PyTorch 2.13 fails on some sizes of three channels at once
    planes = [torch.from_numpy(pixels[..., channel].copy())[None, None] for channel in range(pixels.shape[-1])]
    resized = [F.interpolate(plane, (height, width), mode=mode, antialias=True)[0, 0] for plane in planes]
    return torch.stack(resized, -1).numpy()
