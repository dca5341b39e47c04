"""The images of a recipe as arrays of one shape: parts, batches, and what is odd about them."""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Int16, Int64, UInt8
from pydantic import model_validator
from torch import Tensor

from headwise.config import Config
from headwise.data.batches import OnDevice
from headwise.data.files import Bytes
from headwise.data.readers import Pair
from headwise.data.splits import DataSet, Nouns, draw_limit
from headwise.errors import DataError
from headwise.tasks.images.images import Scanned
from headwise.tasks.images.mask_pictures import fitted
from headwise.tasks.images.pixels import Image, PicturesConfig, Shape

M = TypeVar("M", bound="ImageMetadata")

# the images of a part of a recipe, by its name; what was read is collected
Scan = Callable[[str, Bytes], Scanned]


@dataclass(frozen=True)
class ImageSet:
    """Images of one shape, a byte a channel, with the class of each and its name; `labels` are texts.

    `masks` are the labels of pixels, where there are any.
    """

    pixels: UInt8[np.ndarray, "images height width channels"]
    labels: list[str]
    names: list[str]
    masks: Int16[np.ndarray, "images height width"] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @classmethod
    def of(cls, images: Sequence[Image], shape: Shape, masked: bool) -> "ImageSet":
        """These images, which are of this shape; `masked`: they have masks."""
        pixels, masks = np.zeros((len(images), *shape), np.uint8), None
        for place, image in enumerate(images):
            pixels[place] = image.pixels
        if masked:
            masks = np.zeros(pixels.shape[:3], np.int16)
            for place, image in enumerate(images):
                masks[place] = image.mask
        return cls(pixels, [image.label or "" for image in images], [image.name for image in images], masks)

    def take(self, places: list[int]) -> "ImageSet":
        masks = None if self.masks is None else self.masks[places]
        return ImageSet(
            self.pixels[places], [self.labels[at] for at in places], [self.names[at] for at in places], masks
        )

    def images(self) -> Iterator[Image]:
        masks = [None] * len(self) if self.masks is None else self.masks
        for pixels, label, name, mask in zip(self.pixels, self.labels, self.names, masks, strict=True):
            yield Image(name, pixels, label, mask=mask, fitted=True)


@dataclass(frozen=True)
class ImageBatch(OnDevice):
    """Images of a batch, a byte a channel, and the number of the class of each."""

    indices: list[int]
    pixels: UInt8[Tensor, "batch channels height width"]
    labels: Int64[Tensor, "batch"]

    @property
    def num_tokens(self) -> int:
        """Images, by which the loss is divided."""
        return len(self.indices)


@dataclass(frozen=True)
class Loaded:
    """The parts of a recipe's images, their shape and classes, the digest of each file that was read, and notes."""

    parts: Mapping[str, ImageSet]
    shape: Shape
    classes: list[str]
    digests: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def channels_first(pixels: UInt8[np.ndarray, "batch height width channels"]) -> Tensor:
    """Images as a tensor; channels stay beside one another in memory, as convolutions read them fast."""
    return torch.from_numpy(pixels).permute(0, 3, 1, 2)


def load_parts(config: PicturesConfig, scan: Scan) -> Loaded:
    """Reads and splits the images of a recipe, without classes; parts without files of their own come from train.

    An image follows its pixels into a part, so that equal ones stay together and adding images moves no other. Its
    shape is that of the recipe or else of the first image of train.

    Args:
        config: names the files of the parts too.
        scan: the images of a part.

    Raises: DataError: images that cannot be read, or that differ in size while the recipe names none.
    """
    shape: Shape | None = None
    changed: Counter[str] = Counter()

    def fitted_images(part: str, read: Bytes) -> Scanned:
        nonlocal shape
        for image in scan(part, read):
            if isinstance(image, DataError):
                yield image
                continue
            shape = _shape(config, image) if shape is None else shape
            if part == "train" and config.size is None and image.shape[:2] != shape[:2]:
                raise DataError(
                    f"{image.name}: has {image.shape.height} x {image.shape.width} pixels, those before {shape.height}"
                    f" x {shape.width}; set data.size = [{shape.height}, {shape.width}] to fit all of them to it"
                )
            try:
                pixels = config.adapted(image, shape)
            except DataError as error:
                yield error
                continue
            mask = None if image.mask is None else fitted(image.mask, shape, config.fit)
            changed[part] += image.shape != shape
            yield Image(image.name, pixels, image.label, mask=mask)

    splits = image_set(config, fitted_images).read()
    assert shape is not None
    masked = splits.examples["train"][0].mask is not None
    splits.examples["train"] = draw_limit(splits.examples["train"], config.limit, config.split_seed)
    notes = [
        f"{part}: {changed[part]:,} of {len(images):,} images made {shape}" for part, images in splits if changed[part]
    ]
    parts = {part: ImageSet.of(images, shape, masked) for part, images in splits}
    return Loaded(parts, shape, [], splits.digests, (*splits.notes, *notes))


def image_set(config: PicturesConfig, scan: Scan) -> DataSet[Image]:
    """The images of a recipe; two of equal pixels are the same."""
    return DataSet(
        config,
        scan,
        lambda image: Pair(hashlib.sha256(image.pixels.tobytes()).hexdigest(), image.label or "", 0),
        Nouns("images"),
        files=(),
        unit="image",
        bad_key="bad_images",
        report=None,
    )


def examples_of(config: PicturesConfig, scan: Scan, split: str) -> list[Image]:
    """The images of a split: as they are, without reading others, if it has files of its own, else as the model reads.

    Raises: DataError, as `load_parts`.
    """
    if split != "train" and getattr(config, split) is not None:
        return image_set(config, scan).examples(split)
    return list(load_parts(config, scan).parts[split].images())


def constants(pixels: UInt8[np.ndarray, "images height width channels"]) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of each channel, of bytes as fractions of 255; of a constant channel 1.

    >>> constants(np.array([[[[0, 51]], [[255, 51]]]], np.uint8))
    ([0.5, 0.2], [0.5, 1.0])
    """
    values = np.arange(256) / 255
    mean, deviation = [], []
    for channel in range(pixels.shape[-1]):
        counts = np.bincount(pixels[..., channel].ravel(), minlength=256) / pixels[..., channel].size
        mean.append(float(counts @ values))
        deviation.append(float(np.sqrt(counts @ (values - mean[-1]) ** 2)) or 1.0)
    return mean, deviation


def _shape(config: PicturesConfig, first: Image) -> Shape:
    height, width = config.size or first.shape[:2]
    return Shape(height, width, config.channels or (3 if first.alpha else first.shape.channels))


def spanned(counts: Collection[int]) -> str:
    """The least and the largest of some counts, once where they are equal.

    >>> spanned([1000, 3])
    '3 to 1,000'
    """
    return " to ".join(f"{count:,}" for count in sorted({min(counts), max(counts)}))


class ImageMetadata(Config):
    """What a model of images knows besides its weights.

    Args:
        shape: of the images of training.
        mean, deviation: of each channel in training, as fractions of 255.
    """

    shape: Shape
    mean: list[float]
    deviation: list[float]

    @classmethod
    def of(cls: type[M], pixels: UInt8[np.ndarray, "images height width channels"], **others: Any) -> M:
        """That of these images of training."""
        mean, deviation = constants(pixels)
        return cls(shape=Shape(*pixels.shape[1:]), mean=mean, deviation=deviation, **others)

    @model_validator(mode="after")
    def _sizes_fit(self) -> "ImageMetadata":
        if min(self.shape) < 1 or not len(self.mean) == len(self.deviation) == self.shape.channels:
            raise ValueError("sizes that do not fit")
        return self


class Measured(NamedTuple):
    """What the images of train are like: how many, the channels and the size that they need, whether all have it."""

    number: int
    channels: int
    size: tuple[int, int]
    alike: bool

    def keys(self) -> dict[str, Any]:
        """The keys of `[data]` that these images need."""
        return {**({} if self.alike else {"size": list(self.size)}), "channels": self.channels}


def measured(config: PicturesConfig, scan: Scan, largest: int = 64) -> Measured:
    """Reads the images of train to see what they are like.

    Args:
        largest: side of what a small network reads in reasonable time; of the images half reach the size that is found.
    """
    sizes, channels = [], 1
    for image in image_set(config, scan).stream("train"):
        channels = max(channels, 3 if image.alpha else image.shape.channels)
        sizes.append(image.shape[:2])
    height, width = (min(largest, max(8, 4 * round(float(np.median(sides)) / 4))) for sides in zip(*sizes, strict=True))
    if len(set(sizes)) == 1 and max(sizes[0]) <= largest:
        return Measured(len(sizes), channels, sizes[0], True)
    return Measured(len(sizes), channels, (height, width), False)
