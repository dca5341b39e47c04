"""Labelled images: folders of classes, CSV lists of paths, IDX and .npz files; every fault is named with its file."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Shaped, UInt8
from pydantic import Field, model_validator

from headwise.config import DataFile
from headwise.data.bad_lines import BadLine, caught
from headwise.data.files import MAX_LINE_BYTES, Bytes, digested, is_hidden, require_file
from headwise.data.idx import EACH_BYTES, check_size, is_idx, parse_idx, parse_npz
from headwise.data.splits import files_of
from headwise.data.tables import Key, Row, Table, scan_rows
from headwise.errors import DataError
from headwise.tasks.images.picture_files import decode
from headwise.tasks.images.pixels import MAX_CHANNELS, Image, PicturesConfig

ImageFormat = Literal["auto", "folder", "csv", "idx", "npz"]

PICTURES = (".png", ".jpg", ".jpeg")
_PARTS = {"train", "test", "val", "valid", "validation"}
_LEFT_BY_SYSTEMS = ("thumbs.db", "desktop.ini")
Scanned = Iterator[Image | DataError]  # an image, or why there is none


class ImagesConfig(PicturesConfig):
    """Which labelled images to read, and what they are made into."""

    train: DataFile = Field(description="folder with a folder of pictures for each class; CSV, IDX or .npz file")
    train_target: DataFile | None = Field(
        None, description="IDX file of train's labels; if absent, the name of train with labels-idx1 for images-idx3"
    )
    valid: DataFile | None = Field(None, description="images to validate; without them a part of train is held out")
    valid_target: DataFile | None = Field(None, description="IDX file of valid's labels, as train_target")
    test: DataFile | None = Field(None, description="images to test; without them a part of train is held out")
    test_target: DataFile | None = Field(None, description="IDX file of test's labels, as train_target")
    format: ImageFormat = Field("auto", description="auto (by name, else by content), folder, csv, idx or npz")
    path_key: str = Field("path", description="column of the picture's path in CSV, as seen from the CSV file")
    label_key: str = Field("label", description="column of the class in CSV")
    images_key: str = Field("images", description="array of images in .npz: (images, height, width) or channels last")
    labels_key: str = Field("labels", description="array of the labels in .npz: numbers or texts")
    classes: list[str] = Field(default=[], description="names of the classes where labels are numbers from 0")

    @model_validator(mode="after")
    def _classes_differ(self) -> "ImagesConfig":
        if len(set(self.classes)) != len(self.classes):
            raise ValueError("classes must have different names")
        return self


def scan_images(
    path: Path, target: Path | None, config: ImagesConfig, read: Bytes | None = None, *, labelled: bool = True
) -> Scanned:
    """The images of a folder or file, one after another; one that cannot be read comes out as the error that says why.

    Args:
        target: IDX file of the labels of an IDX file; None: told from its name.
        config: format, keys, classes and limits; its paths are not read.
        read: collects what was read.
        labelled: whether an image without a label is a fault.

    Raises: DataError: `file: ...`, the folder or file cannot be read any further.
    """
    read = Bytes(config.max_bytes) if read is None else read
    if config.format == "folder" or (config.format == "auto" and path.is_dir()):
        yield from _folder(path, config, read)
        return
    require_file(path)
    if config.format == "csv" or (config.format == "auto" and path.suffix.lower() == ".csv"):
        yield from _csv(path, config, read, labelled)
        return
    data = read.read(path)
    kind = _format(path, data) if config.format == "auto" else config.format
    if kind == "picture":
        if labelled:
            raise DataError(f"{path}: is one picture without a label; name a folder of classes, CSV, IDX or .npz")
        yield caught(decode, data, str(path), config.max_pixels)
        return
    arguments = path, data, config, read, labelled
    yield from _idx(*arguments, target) if kind == "idx" else _npz(*arguments)


def scan_of(config: ImagesConfig) -> Callable[[str, Bytes], Scanned]:
    """How `load_parts` reads the parts of a recipe."""
    return lambda part, read: scan_images(*files_of(config, part), config, read)


def labels_beside(path: Path) -> Path | None:
    """The file of labels that belongs to an IDX file of images by its name, if it is there.

    >>> labels_beside(Path("train-images-idx3-ubyte.gz"))
    """
    labels = path.with_name(path.name.replace("images-idx3", "labels-idx1").replace("images.idx3", "labels.idx1"))
    return labels if labels != path and labels.exists() else None


def _format(path: Path, data: bytes) -> str:
    ending = path.suffix.lower()
    if ending == ".npz":
        return "npz"
    if data.startswith((b"\x89PNG", b"\xff\xd8")) or ending in PICTURES:
        return "picture"
    if is_idx(data) or "idx" in path.name:
        return "idx"
    raise DataError(
        f"{path}: no folder, PNG, JPEG, CSV, IDX or .npz file; convert it, or set data.format to see what is wrong"
    )


def _folder(path: Path, config: ImagesConfig, read: Bytes) -> Scanned:
    entries = entries_of(path)
    for entry in filter(Path.is_file, entries):
        read.read(entry, shown=entry.name)
        if entry.suffix.lower() in PICTURES:
            yield DataError(f"{entry}: stands in no folder of a class; move it into one or remove it")
    classes = [entry for entry in entries if entry.is_dir()]
    if not classes:
        raise DataError(f"{path}: has no folders; put the pictures of each class into a folder of its name")
    if {entry.name.lower() for entry in classes} <= _PARTS:
        raise DataError(f"{path}: its folders are parts, not classes; name them as data.train and data.test")
    for folder in classes:
        pictures = [entry for entry in entries_of(folder) if entry.name.lower() not in _LEFT_BY_SYSTEMS]
        for other in set(entries_of(folder)) - set(pictures):
            read.read(other, shown=f"{folder.name}/{other.name}")
        if not pictures:
            yield DataError(f"{folder}: is empty; put pictures of the class into it or remove it")
        for picture in pictures:
            yield caught(_picture, picture, "", f"{folder.name}/{picture.name}", config, read, folder.name)


def entries_of(folder: Path) -> list[Path]:
    """What a folder holds, but for hidden files, in order. Raises: DataError: it cannot be opened."""
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise DataError(f"{folder}: cannot be opened: {error.strerror}") from None
    return [entry for entry in entries if not is_hidden(entry.name)]


def _picture(path: Path, role: str, shown: str, config: ImagesConfig, read: Bytes, label: str | None) -> Image:
    return decode(read.read(path, role, shown), str(path), config.max_pixels, label)


def scan_list(path: Path, table: Table, keys: Sequence[Key], read: Bytes, make: Callable[[Row], Image]) -> Scanned:
    """The images of a table of paths, a row each; or the error that says why there is none.

    Args:
        read: takes in the digest of the table.
        make: the image of a row. Raises: DataError, of a row.
    """
    with digested({"": path}) as digests:
        read.note(digests[""])
        for row in scan_rows(path, table, keys):
            yield row if isinstance(row, BadLine) else caught(make, row)


def _csv(path: Path, config: ImagesConfig, read: Bytes, labelled: bool) -> Scanned:
    keys = [config.path_key, config.label_key] if labelled else [config.path_key]

    def image(row: Row) -> Image:
        name, *label = (row.cells[key].strip() for key in keys)
        if not name or label == [""]:
            what = "label" if name else "path"
            raise BadLine(str(path), row.line, f"empty {what}", f"the {what} is empty; fill it or remove the line")
        try:
            return _picture(path.parent / name, ".images", name, config, read, label[0] if label else None)
        except DataError as error:
            raise DataError(f"{path}:{row.line}: {error.message}") from None

    table = Table("csv", ",", MAX_LINE_BYTES, "data.path_key and data.label_key", numbered=False)
    yield from scan_list(path, table, keys, read, image)


def _idx(path: Path, data: bytes, config: ImagesConfig, read: Bytes, labelled: bool, target: Path | None) -> Scanned:
    images = parse_idx(data, str(path), config.max_bytes)
    if images.ndim == 1:
        raise DataError(f"{path}: holds labels, not images; name the file of the images, and these as its target")
    target = labels_beside(path) if target is None else target
    if target is None and labelled:
        raise DataError(f"{path}: where are its labels? name their file: data.train_target (valid_target, test_target)")
    labels = None
    if target is not None and labelled:
        labels = parse_idx(read.read(target, "_target"), str(target), config.max_bytes)
        if labels.ndim != 1:
            raise DataError(f"{target}: has {labels.ndim} axes; labels have one")
    yield from _rows(path, images, labels, config)


def _npz(path: Path, data: bytes, config: ImagesConfig, read: Bytes, labelled: bool) -> Scanned:
    arrays = parse_npz(data, str(path), (config.images_key, config.labels_key), max_bytes=config.max_bytes)
    labels = arrays.get(config.labels_key) if labelled else None
    if labels is None and labelled:
        raise DataError(f"{path}: has no array '{config.labels_key}'; add it, or set data.labels_key")
    if labels is not None and (labels.ndim != 1 or labels.dtype.kind not in "iuU"):
        raise DataError(
            f"{path}: labels are {labels.dtype} of {labels.ndim} axes; give one whole number or text an image"
        )
    yield from _rows(path, arrays[config.images_key], labels, config)


def as_images(
    images: np.ndarray, path: Path, config: PicturesConfig
) -> Shaped[np.ndarray, "images height width channels"]:
    """An array of images with channels last, each of which `as_bytes` takes. Raises: DataError `path: ...`."""
    images = images[..., None] if images.ndim == 3 else images
    if images.ndim != 4 or not all(images.shape[1:]) or images.shape[3] > MAX_CHANNELS:
        shape = " x ".join(map(str, images.shape))
        raise DataError(f"{path}: images of shape {shape}; give (images, height, width) or channels last")
    if images.shape[1] * images.shape[2] > config.max_pixels:
        raise DataError(f"{path}: images of more than {config.max_pixels:,} pixels; make them smaller")
    # all of them as they are, and one while it is made the size that the model reads
    size = images.nbytes + len(images) * EACH_BYTES + 12 * images.shape[1] * images.shape[2]
    check_size(size, f"{path}: has {len(images):,} images", config.max_bytes)
    fractions = images.dtype.kind == "f" and images.size and images.min() >= 0 and images.max() <= 1
    if images.dtype not in (np.uint8, np.uint16) and not fractions:
        raise DataError(
            f"{path}: images are {images.dtype}; give bytes from 0 to 255 (uint8), uint16, or fractions from 0 to 1"
        )
    return images


def as_bytes(image: np.ndarray) -> UInt8[np.ndarray, "height width channels"]:
    """One of `as_images` as numbers from 0 to 255: one at a time, so that they do not take memory twice."""
    if image.dtype == np.uint8:
        return image
    scaled = image >> 8 if image.dtype == np.uint16 else np.rint(image * 255.0)
    return scaled.astype(np.uint8)


def _rows(path: Path, images: np.ndarray, labels: np.ndarray | None, config: ImagesConfig) -> Scanned:
    images = as_images(images, path, config)
    if labels is not None and len(labels) != len(images):
        raise DataError(f"{path}: {len(images):,} images but {len(labels):,} labels; give each image its label")
    for number, pixels in enumerate(map(as_bytes, images)):
        name = f"{path}[{number}]"
        label = None if labels is None else caught(_named, labels[number], name, config)
        yield label if isinstance(label, DataError) else Image(name, pixels, label)


def _named(label: object, place: str, config: ImagesConfig) -> str:
    text = str(label)
    if not config.classes or isinstance(label, str):
        return text
    if not 0 <= int(text) < len(config.classes):
        raise DataError(f"{place}: label {text}, but data.classes names {len(config.classes)}, from 0; name them all")
    return config.classes[int(text)]
