"""The images of a recipe as arrays of one shape: parts, batches, and what is odd about them."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int16, Int64, UInt8
from torch import Tensor

from headwise.data.bad_lines import Unreadable
from headwise.data.buckets import permutation
from headwise.data.corpus import resolve
from headwise.data.files import Bytes
from headwise.data.splits import split_by
from headwise.errors import DataError
from headwise.tasks.images.images import Scanned
from headwise.tasks.images.mask_pictures import fitted
from headwise.tasks.images.pixels import Image, PicturesConfig, Shape, adapted

PARTS = ("train", "valid", "test")


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

    def take(self, places: list[int]) -> "ImageSet":
        """The images at these places."""
        masks = None if self.masks is None else self.masks[places]
        return ImageSet(
            self.pixels[places], [self.labels[at] for at in places], [self.names[at] for at in places], masks
        )

    def images(self) -> Iterator[Image]:
        """One after another."""
        masks = [None] * len(self) if self.masks is None else self.masks
        for pixels, label, name, mask in zip(self.pixels, self.labels, self.names, masks, strict=True):
            yield Image(name, pixels, label, mask=mask)


@dataclass(frozen=True)
class ImageBatch:
    """Images of a batch, a byte a channel, and the number of the class of each."""

    indices: list[int]
    pixels: UInt8[Tensor, "batch channels height width"]
    labels: Int64[Tensor, "batch"]

    @property
    def num_tokens(self) -> int:
        """Images, by which the loss is divided."""
        return len(self.indices)

    def to(self, device: torch.device | str) -> "ImageBatch":
        """The same on a device."""
        return replace(self, pixels=self.pixels.to(device), labels=self.labels.to(device))


@dataclass(frozen=True)
class Loaded:
    """The parts of a recipe's images, their shape and classes, the digest of each file that was read, and notes."""

    parts: Mapping[str, ImageSet]
    shape: Shape
    classes: list[str]
    digests: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def as_batch(
    pixels: UInt8[np.ndarray, "batch height width channels"], labels: Int64[np.ndarray, "batch"], indices: list[int]
) -> ImageBatch:
    """A batch of these images; channels stay beside one another in memory, as convolutions read them fast."""
    return ImageBatch(indices, torch.from_numpy(pixels).permute(0, 3, 1, 2), torch.from_numpy(labels))


def load_parts(config: PicturesConfig, scan: Scan) -> Loaded:
    """Reads and splits the images of a recipe, without classes; parts without files of their own come from train.

    An image follows its pixels into a part, so that equal ones stay together and adding images moves no other.

    Args:
        config: names the files of the parts too.
        scan: the images of a part.

    Raises:
        DataError: images that cannot be read, or that differ in size while the recipe names none.
    """
    digests: dict[str, str] = {}
    notes: list[str] = []
    train, shape = _read(config, scan, "train", None, digests, notes)
    given = {part: _read(config, scan, part, shape, digests, notes)[0] for part in PARTS[1:] if getattr(config, part)}
    keys = _keys(train)
    fractions = (0.0 if "valid" in given else config.valid_fraction, 0.0 if "test" in given else config.test_fraction)
    split = split_by(range(len(train)), keys.__getitem__, fractions, config.split_seed, "images")
    places = dict(zip(PARTS, split, strict=True))
    if config.limit is not None:
        drawn = permutation(len(places["train"]), config.split_seed, 0)[: config.limit]
        places["train"] = [places["train"][at] for at in sorted(drawn.tolist())]
    parts = {part: train.take(at) for part, at in places.items()} | given
    return Loaded(parts, shape, [], digests, tuple(notes))


def images_of(config: PicturesConfig, scan: Scan, part: str) -> Iterator[Image]:
    """The images of a part that has files of its own, as they are. Raises: DataError, as `load_parts`."""
    count, bad = 0, Unreadable(config.bad_images, "image", "data.bad_images")
    for image in bad.good(scan(part, Bytes(config.max_bytes))):
        count += 1
        yield image
    if not count:
        raise DataError(f"{resolve(getattr(config, part))}: no images in it")


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


def _read(
    config: PicturesConfig, scan: Scan, part: str, shape: Shape | None, digests: dict[str, str], notes: list[str]
) -> tuple[ImageSet, Shape]:
    """The images of one part, made those of the shape; without one, it follows from the first and the recipe."""
    path = resolve(getattr(config, part))
    read, bad = Bytes(config.max_bytes), Unreadable(config.bad_images, "image", "data.bad_images")
    pixels, labels, names, masks, changed = [], [], [], [], 0
    for image in bad.good(scan(part, read)):
        shape = _shape(config, image) if shape is None else shape
        if part == "train" and config.size is None and image.shape[:2] != shape[:2]:
            raise DataError(
                f"{image.name}: has {image.shape.height} x {image.shape.width} pixels, those before {shape.height} x"
                f" {shape.width}; set data.size = [{shape.height}, {shape.width}] to fit all of them to it"
            )
        try:
            pixels.append(adapted(image, shape, config.fit))
        except DataError as error:
            bad.add(error)
            continue
        labels.append(image.label or "")
        names.append(image.name)
        masks += [] if image.mask is None else [fitted(image.mask, shape, config.fit)]
        changed += image.shape != shape
    if shape is None or not pixels:
        raise DataError(f"{path}: no images in it" + (f"; {bad.note()}" if bad.note() else ""))
    digests |= read.digests(part)
    notes += [f"{part}: {bad.note()}"] if bad.note() else []
    notes += [f"{part}: {changed:,} of {len(pixels):,} images made {shape}"] if changed else []
    return ImageSet(np.stack(pixels), labels, names, np.stack(masks) if masks else None), shape


def _shape(config: PicturesConfig, first: Image) -> Shape:
    height, width = config.size or first.shape[:2]
    return Shape(height, width, config.channels or (3 if first.alpha else first.shape.channels))


def _keys(images: ImageSet) -> list[str]:
    return [hashlib.sha256(pixels.tobytes()).hexdigest() for pixels in images.pixels]


def seen_before(part: str, images: ImageSet, train: ImageSet) -> list[str]:
    """A note if images of a part are among those of training too."""
    known = set(_keys(train))
    seen = sum(key in known for key in _keys(images))
    told = f"{part}: {seen:,} of {len(images):,} images are in the training part too, pixel for pixel"
    return [told] if seen else []


def checked(shape: Any, mean: Sequence[float], deviation: Sequence[float]) -> Shape:
    """A shape that was read from a file, where it goes with these constants.

    Raises: ValueError or TypeError where it does not.
    """
    found = Shape(*map(int, shape))
    numbers = [float(number) for number in (*mean, *deviation)]
    if min(found) < 1 or len(mean) != found.channels or len(numbers) != 2 * found.channels:
        raise ValueError("sizes that do not fit")
    return found


class Measured(NamedTuple):
    """What the images of train are like: how many, the channels and the size that they need, whether all have it."""

    number: int
    channels: int
    size: tuple[int, int]
    alike: bool

    def keys(self) -> dict[str, Any]:
        """The keys of `[data]` that these images need."""
        return {} if self.alike else {"size": list(self.size)}


def measured(config: PicturesConfig, scan: Scan, largest: int = 64) -> Measured:
    """Reads the images of train to see what they are like.

    Args:
        largest: side of what a small network reads in reasonable time; of the images half reach the size that is found.
    """
    sizes, channels = [], 1
    for image in images_of(config, scan, "train"):
        channels = max(channels, 3 if image.alpha else image.shape.channels)
        sizes.append(image.shape[:2])
    height, width = (min(largest, max(8, 4 * round(float(np.median(each)) / 4))) for each in zip(*sizes, strict=True))
    if len(set(sizes)) == 1 and max(sizes[0]) <= largest:
        return Measured(len(sizes), channels, sizes[0], True)
    return Measured(len(sizes), channels, (height, width), False)
