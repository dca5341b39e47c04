"""Pictures with a label for each pixel: tables of paths, folders of equal names, .npz; labels of training in order."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Int16, UInt8
from pydantic import Field, model_validator
from torch import Tensor

from headwise.config import DataFile
from headwise.data.bad_lines import BadLine, caught
from headwise.data.batches import OnDevice
from headwise.data.files import MAX_LINE_BYTES, Bytes
from headwise.data.idx import parse_npz
from headwise.data.splits import files_of
from headwise.data.tables import Delimiter, Row, Table, text_cell
from headwise.errors import DataError
from headwise.explain.places import NO_CLASS
from headwise.explain.ramps import to_rgb
from headwise.tasks.images.image_sets import ImageSet, Loaded, Scan, load_parts
from headwise.tasks.images.images import PICTURES, Scanned, as_bytes, as_images, entries_of, scan_list
from headwise.tasks.images.mask_pictures import LABELS, NOWHERE, Legend, as_labels, decode_mask
from headwise.tasks.images.picture_files import decode
from headwise.tasks.images.pixels import Colour, Image, PicturesConfig

# classes that there can be beside `NO_CLASS` and one that training lacks
MAX_CLASSES = 254

MaskFormat = Literal["auto", "folder", "csv", "tsv", "jsonl", "npz"]

# labels that a note names
_NAMED = 8


class MasksConfig(PicturesConfig):
    """Which pictures and masks to read, and what they are made into."""

    train: DataFile = Field(description="CSV, TSV or JSON lines of paths; a folder of pictures; an .npz file")
    train_target: DataFile | None = Field(None, description="folder of masks, each named as its picture but for .png")
    valid: DataFile | None = Field(None, description="pictures to validate; without them a part of train is held out")
    valid_target: DataFile | None = Field(None, description="folder of valid's masks, as train_target")
    test: DataFile | None = Field(None, description="pictures to test; without them a part of train is held out")
    test_target: DataFile | None = Field(None, description="folder of test's masks, as train_target")
    format: MaskFormat = Field("auto", description="auto (by name, else by content), folder, csv, tsv, jsonl or npz")
    delimiter: Delimiter = Field(",", description="what parts the columns of a CSV file: one character")
    path_key: str = Field("path", description="column, or field of JSON lines, of the picture's path, as seen from it")
    mask_key: str = Field("mask", description="column, or field, of the path of its mask, a PNG file")
    images_key: str = Field("images", description="array of the pictures in .npz, as for image-classify")
    masks_key: str = Field("masks", description="array of the labels in .npz: (images, height, width), from 0 to 255")
    classes: list[str] = Field(default=[], description="names of the labels from 0; without them labels are numbers")
    colours: list[str] = Field(default=[], description="colours of the labels from 0, as #rrggbb, of masks in colours")
    ignore: int | None = Field(None, ge=0, lt=LABELS, description="label that counts nowhere, such as 255")
    max_line_bytes: int = Field(MAX_LINE_BYTES, ge=1, description="longer lines are refused")

    @model_validator(mode="after")
    def _labels_differ(self) -> "MasksConfig":
        if self.fit == "crop":
            raise ValueError("fit = crop is for labels of whole images; use resize or pad")
        colours = [_colour(text) for text in self.colours]
        if len(set(self.classes)) != len(self.classes) or len(set(colours)) != len(colours):
            raise ValueError("classes must have different names, and colours must differ")
        if self.classes and colours and len(self.classes) != len(colours):
            raise ValueError(f"{len(self.classes)} classes but {len(colours)} colours; give each label both")
        return self

    def legend(self) -> Legend:
        return Legend(tuple(self.classes), tuple(map(_colour, self.colours)), self.ignore)


@dataclass(frozen=True)
class MaskBatch(OnDevice):
    """Pictures of a batch, a byte a channel, and the number of the class of each pixel, or `NO_CLASS`."""

    indices: list[int]
    pixels: UInt8[Tensor, "batch channels height width"]
    masks: UInt8[Tensor, "batch height width"]
    num_tokens: int


def scan_masks(
    path: Path, target: Path | None, config: MasksConfig, read: Bytes | None = None, *, masked: bool = True
) -> Scanned:
    """The pictures of a file or folder with their masks, one after another; or the error that says why there is none.

    Args:
        target: the folder of masks, where `path` is a folder.
        config: format, keys, labels and limits; its paths are not read.
        read: collects what was read.
        masked: whether masks are read; a file may else be a picture too.

    Raises: DataError: `file: ...`, the file or folder cannot be read any further.
    """
    read = Bytes(config.max_bytes) if read is None else read
    if config.format == "folder" or (config.format == "auto" and path.is_dir()):
        yield from _folder(path, target, config, read)
    elif target is not None:
        raise DataError(
            f"{target}: a folder of masks goes with a folder of pictures, but {path} is a file; leave it out"
        )
    elif not masked and path.suffix.lower() in PICTURES:
        yield caught(lambda: decode(read.read(path), str(path), config.max_pixels, whole=True))
    elif config.format == "npz" or (config.format == "auto" and path.suffix.lower() == ".npz"):
        yield from _npz(path, config, read, masked)
    else:
        yield from _table(path, config, read, masked)


def picture_with_mask(image: str, mask: str, config: MasksConfig, read: Bytes, folder: Path = Path()) -> Image:
    """A picture and its mask by their paths, as seen from a folder. Raises: DataError for one that cannot be read."""
    picture = decode(read.read(folder / image, ".images", image), str(folder / image), config.max_pixels, whole=True)
    return _joined(picture, read.read(folder / mask, ".masks", mask), str(folder / mask), config)


def _joined(image: Image, data: bytes, name: str, config: MasksConfig) -> Image:
    mask = decode_mask(data, name, config.legend(), config.max_pixels)
    if mask.shape != image.shape[:2]:
        raise DataError(
            f"{name}: has {mask.shape[0]} x {mask.shape[1]} pixels, its picture {image.shape.height} x"
            f" {image.shape.width}; give each pixel a label"
        )
    return replace(image, mask=mask)


def _table(path: Path, config: MasksConfig, read: Bytes, masked: bool) -> Scanned:
    how = Table(config.format, config.delimiter, config.max_line_bytes, "data.path_key and data.mask_key")
    keys = [config.path_key, config.mask_key] if masked else [config.path_key]
    return scan_list(path, how, keys, read, lambda row: _row(path, row, keys, config, read))


def _row(path: Path, row: Row, keys: list[str], config: MasksConfig, read: Bytes) -> Image:
    names = [text_cell(str(path), row, key, "none") for key in keys]
    if not all(names):
        raise BadLine(str(path), row.line, "empty path", "a path is empty; fill it or remove the row")
    try:
        if len(names) > 1:
            return picture_with_mask(names[0], names[1], config, read, path.parent)
        file = path.parent / names[0]
        return decode(read.read(file, ".images", names[0]), str(file), config.max_pixels, whole=True)
    except DataError as error:
        raise DataError(f"{path}:{row.line}: {error.message}") from None


def _folder(path: Path, target: Path | None, config: MasksConfig, read: Bytes) -> Scanned:
    if target is None:
        raise DataError(
            f"{path}: where are its masks? name their folder: data.train_target (valid_target, test_target)"
        )
    pictures, masks = _files(path, read, ""), _files(target, read, "_target")
    for name in sorted(pictures.keys() | masks.keys()):
        if name not in masks:
            yield DataError(f"{pictures[name]}: has no mask {target / name}.png; add it or remove the picture")
        elif name not in pictures:
            yield DataError(f"{masks[name]}: is the mask of no picture in {path}; add it or remove the mask")
        else:
            yield caught(_pair, pictures[name], masks[name], config, read)


def _pair(picture: Path, mask: Path, config: MasksConfig, read: Bytes) -> Image:
    image = decode(read.read(picture, "", picture.name), str(picture), config.max_pixels, whole=True)
    return _joined(image, read.read(mask, "_target", mask.name), str(mask), config)


def _files(folder: Path, read: Bytes, role: str) -> dict[str, Path]:
    """The pictures of a folder by their names without endings; the bytes of all files are taken in."""
    files: dict[str, Path] = {}
    for entry in entries_of(folder):
        if entry.is_dir():
            raise DataError(f"{entry}: is a folder; put the files right into {folder}")
        read.read(entry, role, entry.name)
        if entry.suffix.lower() not in PICTURES:
            continue
        if entry.stem in files:
            raise DataError(f"{entry}: {files[entry.stem].name} has the same name; rename one of them")
        files[entry.stem] = entry
    if not files:
        raise DataError(f"{folder}: no PNG or JPEG files in it")
    return files


def _npz(path: Path, config: MasksConfig, read: Bytes, masked: bool) -> Scanned:
    arrays = parse_npz(read.read(path), str(path), (config.images_key, config.masks_key), max_bytes=config.max_bytes)
    images = as_images(arrays[config.images_key], path, config)
    masks = arrays.get(config.masks_key) if masked else None
    if masked and masks is None:
        raise DataError(f"{path}: has no array '{config.masks_key}'; add it, or set data.masks_key")
    if masks is not None and (masks.ndim != 3 or masks.shape != images.shape[:3]):
        raise DataError(
            f"{path}: masks of shape {masks.shape} for images of {images.shape[:3]}; give each pixel a label"
        )
    legend = config.legend()
    for number, pixels in enumerate(map(as_bytes, images)):
        name = f"{path}[{number}]"
        mask = None if masks is None else caught(as_labels, masks[number], name, legend)
        yield mask if isinstance(mask, DataError) else Image(name, pixels, mask=mask)


def scan_of(config: MasksConfig) -> Scan:
    """How `load_parts` reads the parts of a recipe."""
    return lambda part, read: scan_masks(*files_of(config, part), config, read)


def load_masks(config: MasksConfig) -> tuple[Loaded, list[int]]:
    """Reads and splits the masked pictures of a recipe, as `load_parts`; and the labels that are told apart, in order.

    Raises: DataError: as `load_parts`; masks of a single label, or of more labels than can be told apart.
    """
    loaded, legend = load_parts(config, scan_of(config)), config.legend()
    notes = list(loaded.notes)
    counts = {part: _counts(images) for part, images in loaded.parts.items() if len(images)}
    named = np.arange(len(config.classes)) if config.classes else np.flatnonzero(counts["train"][:-1])
    numbers = [int(label) for label in named if label != config.ignore]
    if len(numbers) < 2 or np.count_nonzero(counts["train"][:-1]) < 2:
        raise DataError(f"{config.train}: all pixels have one label, or none; there is nothing to tell apart")
    if len(numbers) > MAX_CLASSES:
        raise DataError(
            f"{len(numbers)} labels; {MAX_CLASSES} at most can be told apart: join some, or set data.ignore"
        )
    for part, label_counts in counts.items():
        notes += _notes(part, loaded.parts[part], label_counts, numbers, legend)
    return replace(loaded, classes=[legend.name(label) for label in numbers], notes=tuple(notes)), numbers


def classes_of(masks: Int16[np.ndarray, "*shape"], numbers: list[int]) -> UInt8[np.ndarray, "*shape"]:
    """Labels as places in the list of labels, `NO_CLASS` where none counts; all that the list lacks are its length.

    >>> classes_of(np.array([[3, 7, 5, -1]], np.int16), [3, 5]).tolist()
    [[0, 2, 1, 255]]
    """
    table = np.full(LABELS + 1, len(numbers), np.uint8)
    table[numbers] = np.arange(len(numbers))
    # the last place is that of -1
    table[NOWHERE] = NO_CLASS
    return table[masks]


def _counts(images: ImageSet) -> np.ndarray:
    """How many pixels have each label; in the last place those that count nowhere."""
    assert images.masks is not None
    counts = np.zeros(LABELS + 1, np.int64)
    for mask in images.masks:
        counts += np.roll(np.bincount(mask.ravel().astype(np.int64) + 1, minlength=LABELS + 1), -1)
    return counts


def _notes(part: str, images: ImageSet, counts: np.ndarray, numbers: list[int], legend: Legend) -> list[str]:
    """What a part is like, and what of it training lacks."""
    total, nowhere = max(1, int(counts[:-1].sum())), int(counts[-1])
    shown = sorted(numbers, key=lambda label: -counts[label])
    named = ", ".join(f"{legend.name(label)} {counts[label] / total:.1%}" for label in shown[:_NAMED])
    more = ", ..." if len(shown) > _NAMED else ""
    left = f"; {nowhere / (total + nowhere):.1%} count nowhere" if nowhere else ""
    notes = [f"{part}: {len(images):,} images; pixels: {named}{more}{left}"]
    others = [label for label in np.flatnonzero(counts[:-1]).tolist() if label not in numbers]
    if others:
        listed = ", ".join(f"{legend.name(label)} {counts[label] / total:.1%}" for label in others[:_NAMED])
        notes.append(f"{part}: labels that training lacks, so that they cannot be got right: {listed}")
    return notes


def _colour(text: str) -> Colour:
    if not re.fullmatch("#[0-9a-fA-F]{6}", text):
        raise ValueError(f"colour '{text}' is none; write it as #rrggbb, such as #00ff7f")
    return to_rgb(text)
