"""Captioned images: tables of paths and captions, .npz files; every image once, with all that is said of it."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from headwise.config import DataFile
from headwise.data.bad_lines import BadLine, caught
from headwise.data.files import MAX_LINE_BYTES, Bytes, digested, resolve
from headwise.data.idx import parse_npz
from headwise.data.tables import Delimiter, Row, Table, scan_rows, text_cell
from headwise.data.text import Normalize, clean
from headwise.errors import DataError
from headwise.tasks.images.image_sets import Loaded, Scan, load_parts, spanned
from headwise.tasks.images.images import PICTURES, Scanned, as_bytes, as_images
from headwise.tasks.images.picture_files import decode
from headwise.tasks.images.pixels import Image, PicturesConfig

CaptionFormat = Literal["auto", "csv", "tsv", "jsonl", "npz"]


class CaptionsConfig(PicturesConfig):
    """Which captioned images to read, and what they are made into."""

    train: DataFile = Field(description="CSV, TSV or JSON lines of paths and captions, or an .npz file of both")
    valid: DataFile | None = Field(None, description="images to validate; without them a part of train is held out")
    test: DataFile | None = Field(None, description="images to test; without them a part of train is held out")
    format: CaptionFormat = Field("auto", description="auto (by name, else by content), csv, tsv, jsonl or npz")
    delimiter: Delimiter = Field(",", description="what parts the columns of a CSV file: one character")
    path_key: str = Field("path", description="column, or field of JSON lines, of the picture's path, as seen from it")
    caption_key: str = Field("caption", description="column, or field, of the caption; a path may have several")
    images_key: str = Field("images", description="array of the images in .npz, as for image-classify")
    captions_key: str = Field(
        "captions", description="array of texts in .npz: one an image, or (images, captions) with empty ones left out"
    )
    max_len: int = Field(64, ge=1, description="longest caption, in tokens; longer ones are not trained on")
    max_line_bytes: int = Field(MAX_LINE_BYTES, ge=1, description="longer lines are refused")


def captions_of(image: Image | str) -> list[str]:
    """The captions that a label holds, a line each.

    >>> captions_of("a red square\\na square")
    ['a red square', 'a square']
    """
    label = image if isinstance(image, str) else image.label or ""
    return label.split("\n") if label else []


def scan_captions(
    path: Path,
    config: CaptionsConfig,
    normalize: Normalize = "nfc",
    read: Bytes | None = None,
    *,
    captioned: bool = True,
) -> Scanned:
    """The images of a file, each once, its label the captions, a line each; or the error that says why there is none.

    Args:
        config: format, keys and limits; its paths are not read.
        normalize: the Unicode form of captions.
        read: collects what was read.
        captioned: whether an image without a caption is a fault; a file may then be a picture too.

    Raises: DataError: `file: ...`, the file cannot be read any further.
    """
    read = Bytes(config.max_bytes) if read is None else read
    if not captioned and path.suffix.lower() in PICTURES:
        yield caught(lambda: decode(read.read(path), str(path), config.max_pixels))
    elif config.format == "npz" or (config.format == "auto" and path.suffix.lower() == ".npz"):
        yield from _npz(path, config, normalize, read, captioned)
    else:
        yield from _table(path, config, normalize, read, captioned)


def _table(path: Path, config: CaptionsConfig, normalize: Normalize, read: Bytes, captioned: bool) -> Scanned:
    how = Table(config.format, config.delimiter, config.max_line_bytes, "data.path_key and data.caption_key")
    keys = [config.path_key, config.caption_key] if captioned else [config.path_key]
    by_name: dict[str, tuple[int, list[str]]] = {}
    with digested({"": path}) as digests:
        for row in scan_rows(path, how, keys):
            entry = row if isinstance(row, BadLine) else caught(_entry, str(path), row, config, normalize, captioned)
            if isinstance(entry, DataError):
                yield entry
            else:
                name, line, captions = entry
                by_name.setdefault(name, (line, []))[1].extend(captions)
    read.note(digests[""])
    for name, (line, captions) in by_name.items():
        yield caught(_picture, path, line, name, captions, config, read)


def _entry(
    path: str, row: Row, config: CaptionsConfig, normalize: Normalize, captioned: bool
) -> tuple[str, int, list[str]]:
    """The path of a row, its line and its captions."""
    name = text_cell(path, row, config.path_key, "none")
    if not name:
        raise BadLine(path, row.line, "empty path", "the path is empty; fill it or remove the row")
    return name, row.line, _captions(path, row, config.caption_key, normalize) if captioned else []


def _captions(path: str, row: Row, key: str, normalize: Normalize) -> list[str]:
    value = row.cells[key]
    if not isinstance(value, list):
        value = [value]
    captions = [text_cell(path, replace(row, cells={key: caption}), key, normalize) for caption in value]
    if not captions or not all(captions):
        raise BadLine(path, row.line, "empty caption", "the caption is empty; write one or remove the row")
    return captions


def _picture(path: Path, line: int, name: str, captions: list[str], config: CaptionsConfig, read: Bytes) -> Image:
    file = path.parent / name
    try:
        return decode(read.read(file, ".images", name), str(file), config.max_pixels, _label(captions))
    except DataError as error:
        raise DataError(f"{path}:{line}: {error.message}") from None


def _npz(path: Path, config: CaptionsConfig, normalize: Normalize, read: Bytes, captioned: bool) -> Scanned:
    arrays = parse_npz(read.read(path), str(path), (config.images_key, config.captions_key), max_bytes=config.max_bytes)
    images = as_images(arrays[config.images_key], path, config)
    texts = arrays.get(config.captions_key) if captioned else None
    if captioned and texts is None:
        raise DataError(f"{path}: has no array '{config.captions_key}'; add it, or set data.captions_key")
    if texts is not None and (texts.dtype.kind != "U" or texts.ndim not in (1, 2) or len(texts) != len(images)):
        raise DataError(
            f"{path}: captions are {texts.dtype} of shape {texts.shape} for {len(images):,} images; give texts, of"
            " shape (images,) or (images, captions)"
        )
    for number, pixels in enumerate(images):
        own = [] if texts is None else np.atleast_1d(texts[number]).tolist()
        yield caught(_row, f"{path}[{number}]", pixels, own, normalize, captioned)


def _row(name: str, pixels: np.ndarray, captions: list[str], normalize: Normalize, captioned: bool) -> Image:
    try:
        cleaned = list(filter(None, (clean(text, normalize) for text in captions)))
    except DataError as error:
        raise DataError(f"{name}: {error.message}") from None
    if captioned and not cleaned:
        raise DataError(f"{name}: has no caption; write one or leave the image out")
    return Image(name, as_bytes(pixels), _label(cleaned))


def _label(captions: list[str]) -> str | None:
    """Different captions, a line each: cleaned text has no line ends."""
    return "\n".join(dict.fromkeys(captions)) or None


def load_captions(config: CaptionsConfig, normalize: Normalize) -> Loaded:
    """Reads and splits the captioned images of a recipe, as `load_parts`; all captions of an image are in one part.

    Raises: DataError: as `load_parts`.
    """
    loaded = load_parts(config, scan_of(config, normalize))
    notes = list(loaded.notes)
    for part, images in loaded.parts.items():
        if len(images):
            counts = [len(captions_of(label)) for label in images.labels]
            captions = f"{spanned(counts)} caption{'s' if max(counts) > 1 else ''}"
            notes.append(f"{part}: {len(images):,} images with {captions} each")
    return replace(loaded, notes=tuple(notes))


def scan_of(config: CaptionsConfig, normalize: Normalize = "nfc") -> Scan:
    """How `load_parts` reads the parts of a recipe."""
    return lambda part, read: scan_captions(resolve(getattr(config, part)), config, normalize, read)
