"""The images of a recipe as arrays of one shape: parts, classes, batches, and what is odd about them."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from headwise.config import build
from headwise.data.bad_lines import BadRule
from headwise.data.buckets import permutation
from headwise.data.corpus import resolve
from headwise.data.images import Bytes, ImagesConfig, scan_images
from headwise.data.pixels import Image, Shape, adapted
from headwise.data.splits import split_by
from headwise.data.suggestions import Suggestion
from headwise.errors import DataError

PARTS = ("train", "valid", "test")
# classes that a note names
_NAMED = 5


@dataclass(frozen=True)
class ImageSet:
    """Images of one shape, a byte a channel, with the class of each and its name; `labels` are texts."""

    pixels: UInt8[np.ndarray, "images height width channels"]
    labels: list[str]
    names: list[str]

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, places: list[int]) -> "ImageSet":
        """The images at these places."""
        return ImageSet(self.pixels[places], [self.labels[at] for at in places], [self.names[at] for at in places])

    def images(self) -> Iterator[Image]:
        """One after another."""
        for pixels, label, name in zip(self.pixels, self.labels, self.names, strict=True):
            yield Image(name, pixels, label)


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


def load_images(config: ImagesConfig) -> Loaded:
    """Reads and splits the images of a recipe; parts without files of their own come from train.

    An image follows its pixels into a part, so that equal ones stay together and adding images moves no other.

    Raises:
        DataError: images that cannot be read, or that differ in size while the recipe names none.
    """
    digests: dict[str, str] = {}
    notes: list[str] = []
    train, shape = _read(config, "train", None, digests, notes)
    given = {part: _read(config, part, shape, digests, notes)[0] for part in PARTS[1:] if getattr(config, part)}
    keys = _keys(train)
    fractions = (0.0 if "valid" in given else config.valid_fraction, 0.0 if "test" in given else config.test_fraction)
    split = split_by(range(len(train)), keys.__getitem__, fractions, config.split_seed, "images")
    places = dict(zip(PARTS, split, strict=True))
    if config.limit is not None:
        drawn = permutation(len(places["train"]), config.split_seed, 0)[: config.limit]
        places["train"] = [places["train"][at] for at in sorted(drawn.tolist())]
    parts = {part: train.take(at) for part, at in places.items()} | given
    classes = class_names(parts["train"].labels, config.classes)
    for part, images in parts.items():
        notes += _told(part, images, parts["train"], classes) if len(images) else []
    return Loaded(parts, shape, classes, digests, tuple(notes))


def read_part(config: ImagesConfig, part: str) -> list[Image]:
    """The labelled images of a part that has files of its own, as they are. Raises: DataError, as `load_images`."""
    found: list[Image] = []
    bad = _Bad(config.bad_images)
    for image in scan_images(*_paths(config, part), config):
        if isinstance(image, DataError):
            bad.add(image)
        else:
            found.append(image)
    if not found:
        raise DataError(f"{getattr(config, part)}: no images in it")
    return found


def class_names(labels: list[str], named: list[str]) -> list[str]:
    """The classes in their order: as named, else by number where all are numbers, else by alphabet.

    Raises:
        DataError: a label that is not among those named; a single class.

    >>> class_names(["10", "9", "10"], [])
    ['9', '10']
    """
    found = set(labels)
    if named:
        if others := sorted(found - set(named)):
            raise DataError(f"label '{others[0]}' is not among data.classes; name every class, or leave the list out")
        return named
    if len(found) < 2:
        raise DataError(f"all images are of one class, '{min(found)}'; there is nothing to tell apart")
    if all(label.isascii() and label.isdigit() for label in found):
        return sorted(found, key=lambda label: (int(label), label))
    return sorted(found)


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


class _Bad:
    """Counts the images that cannot be read, and keeps the first."""

    def __init__(self, rule: BadRule) -> None:
        self._rule, self._count, self._first = rule, 0, ""

    def add(self, error: DataError) -> None:
        if self._rule == "stop":
            raise DataError(f'{error.message}; or skip what cannot be read with data.bad_images = "skip"')
        self._count, self._first = self._count + 1, self._first or error.message

    def note(self) -> str:
        plural = "s" if self._count > 1 else ""
        return f"{self._count:,} bad image{plural} skipped; the first: {self._first}" if self._count else ""


def _paths(config: ImagesConfig, part: str) -> tuple[Path, Path | None]:
    target = getattr(config, f"{part}_target")
    return resolve(getattr(config, part)), None if target is None else resolve(target)


def _read(
    config: ImagesConfig, part: str, shape: Shape | None, digests: dict[str, str], notes: list[str]
) -> tuple[ImageSet, Shape]:
    """The images of one part, made those of the shape; without one, it follows from the first and the recipe."""
    path, target = _paths(config, part)
    read, bad = Bytes(), _Bad(config.bad_images)
    pixels, labels, names, changed = [], [], [], 0
    for image in scan_images(path, target, config, read):
        if isinstance(image, DataError):
            bad.add(image)
            continue
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
        changed += image.shape != shape
    if shape is None or not pixels:
        raise DataError(f"{path}: no images in it" + (f"; {bad.note()}" if bad.note() else ""))
    digests |= read.digests(part)
    notes += [f"{part}: {bad.note()}"] if bad.note() else []
    notes += [f"{part}: {changed:,} of {len(pixels):,} images made {shape}"] if changed else []
    return ImageSet(np.stack(pixels), labels, names), shape


def _shape(config: ImagesConfig, first: Image) -> Shape:
    height, width = config.size or first.shape[:2]
    return Shape(height, width, config.channels or (3 if first.alpha else first.shape.channels))


def _keys(images: ImageSet) -> list[str]:
    return [hashlib.sha256(pixels.tobytes()).hexdigest() for pixels in images.pixels]


def _told(part: str, images: ImageSet, train: ImageSet, classes: list[str]) -> list[str]:
    """What a part is like, and what of it training has or lacks."""
    counts = Counter(images.labels)
    most, least = max(counts.values()), min(counts.values())
    each = f"{most:,}" if most == least else f"{least:,} to {most:,}"
    notes = [f"{part}: {len(images):,} images of {len(counts):,} classes, {each} each"]
    if part == "train":
        return notes
    known = set(_keys(train))
    if seen := sum(key in known for key in _keys(images)):
        notes.append(f"{part}: {seen:,} of {len(images):,} images are in the training part too, pixel for pixel")
    others = Counter({label: count for label, count in counts.items() if label not in classes})
    if others:
        named = ", ".join(f"{label} ({count:,})" for label, count in others.most_common(_NAMED))
        more = ", ..." if len(others) > _NAMED else ""
        notes.append(f"{part}: classes that training lacks, so that they cannot be got right: {named}{more}")
    return notes


def suggest_for_images(data: Mapping[str, Any]) -> Suggestion:
    """A residual network for the images of these keys of `[data]`.

    Raises: as `suggest_for_pairs`.
    """
    config = build(ImagesConfig, data, "data")
    path, target = _paths(config, "train")
    sizes, channels, count = [], 1, 0
    for image in scan_images(path, target, config):
        if isinstance(image, DataError):
            _Bad(config.bad_images).add(image)
            continue
        count, channels = count + 1, max(channels, 3 if image.alpha else image.shape.channels)
        sizes.append(image.shape[:2])
    if not count:
        raise DataError(f"{path}: no images in it")
    # a size that half of the images reach, no larger than a small network reads in reasonable time
    side = [min(64, max(8, 4 * round(float(np.median(each)) / 4))) for each in zip(*sizes, strict=True)]
    fitted = {} if len(set(sizes)) == 1 and max(sizes[0]) <= 64 else {"size": side}
    values = {
        "data": {"train": config.train, **fitted, "channels": channels, **data},
        "augmentation": {"shift": 2, "flip": False},
        "model": {"kind": "cnn", "width": 32, "stages": 3, "blocks": 1, "norm": "batch", "dropout": 0.2},
        "training": {
            "learning_rate": 4e-3,
            "weight_decay": 0.05,
            "schedule": "budget",
            "warmup_share": 0.1,
            "batch_sentences": max(16, min(128, count // 20)),
            "max_epochs": 10 if count > 20_000 else 30,
            "monitor": "accuracy",
        },
    }
    return Suggestion(values, f"Classification, fitted to the {count:,} images")
