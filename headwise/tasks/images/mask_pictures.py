"""Labels of pixels: read from PNG files of numbers, of a palette or of colours; made another size; coloured."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Int16, Shaped

from headwise.errors import DataError
from headwise.explain.ramps import class_colours, to_rgb
from headwise.tasks.images.picture_files import decoded, strips
from headwise.tasks.images.pixels import MAX_PIXELS, Colour, Fit, Shape, place

# what a pixel has that counts nowhere
NOWHERE = -1
LABELS = 256

_BACKGROUND = 40, 40, 48


@dataclass(frozen=True)
class Legend:
    """What the pixels of a mask mean.

    Args:
        names: of the labels from 0; none: every number is a label.
        colours: of the labels from 0, where masks are drawn in colours; none: pixels are numbers.
        ignore: the label that counts nowhere.
    """

    names: Sequence[str] = ()
    colours: Sequence[Colour] = ()
    ignore: int | None = None

    def name(self, label: int) -> str:
        """What a label is called.

        >>> Legend(["sky"]).name(0), Legend().name(3), Legend(colours=[(255, 0, 9)]).name(0)
        ('sky', '3', '#ff0009')
        """
        if self.names:
            return self.names[label]
        return written(self.colours[label]) if self.colours else str(label)

    @cached_property
    def palette(self) -> list[Colour]:
        """The colours of all labels: those of the data, black beyond them; without any, those of classes.

        Label 0, which in most data is the background, is dark.
        """
        if self.colours:
            return [*self.colours, *[(0, 0, 0)] * (LABELS - len(self.colours))]
        names = [*self.names, *map(str, range(len(self.names), LABELS))][1:]
        colours = class_colours(names)
        return [_BACKGROUND, *(to_rgb(colours[name]) for name in names)]


def written(colour: Colour) -> str:
    """A colour as text.

    >>> written((255, 0, 9))
    '#ff0009'
    """
    return f"#{bytes(colour).hex()}"


def decode_mask(
    data: bytes, name: str, legend: Legend, max_pixels: int = MAX_PIXELS
) -> Int16[np.ndarray, "height width"]:
    """The labels in the bytes of a PNG file; `NOWHERE` where the label is the ignored one.

    Grey values and places of a palette are labels; with colours in the legend, the colour of a pixel says its label.

    Raises:
        ConfigError: Pillow is not installed.
        DataError: as `decode`; JPEG, which changes what it stores; colours or labels that the legend lacks.
    """
    if data.startswith(b"\xff\xd8"):
        raise DataError(f"{name}: is a JPEG file, which blurs labels; save masks as PNG")
    return decoded(data, name, max_pixels, lambda picture: _labels(picture, name, legend))


def as_labels(
    values: Shaped[np.ndarray, "height width"], name: str, legend: Legend
) -> Int16[np.ndarray, "height width"]:
    """An array of whole numbers as labels. Raises: DataError `name: ...`, as `decode_mask`."""
    if values.dtype.kind not in "iub":
        raise DataError(f"{name}: labels are {values.dtype}; give whole numbers from 0 to {LABELS - 1}")
    lowest, highest = int(values.min(initial=0)), int(values.max(initial=0))
    if lowest < 0 or highest >= LABELS:
        raise DataError(
            f"{name}: label {lowest if lowest < 0 else highest}; labels are whole numbers from 0 to {LABELS - 1}, one"
            " of which data.ignore may name"
        )
    labels = values.astype(np.int16)
    if legend.ignore is not None:
        labels[values == legend.ignore] = NOWHERE
    named = len(legend.names)
    if named and (highest := int(labels.max(initial=0))) >= named:
        raise DataError(f"{name}: label {highest}, but data.classes names {named}, from 0; name them all")
    return labels


def fitted(mask: Int16[np.ndarray, "height width"], shape: Shape, fit: Fit) -> Int16[np.ndarray, "rows columns"]:
    """The labels in another shape, as `adapted` fits the picture; what is padded counts nowhere.

    >>> fitted(np.array([[1, 2]], np.int16), Shape(2, 2, 3), "pad").tolist()
    [[1, 2], [-1, -1]]
    """
    canvas = np.full(shape[:2], NOWHERE, np.int16)
    rows, columns = place(Shape(len(mask), mask.shape[1], 1), shape, fit)
    canvas[rows, columns] = nearest(mask, rows.stop - rows.start, columns.stop - columns.start)
    return canvas


def restored(labels: Shaped[np.ndarray, "height width"], size: Shape, fit: Fit) -> Shaped[np.ndarray, "rows columns"]:
    """The labels of a fitted picture in the size that it had; the inverse of `fitted` where that loses nothing.

    >>> restored(np.array([[1, 2], [9, 9]], np.uint8), Shape(1, 2, 3), "pad").tolist()
    [[1, 2]]
    """
    rows, columns = place(size, Shape(len(labels), labels.shape[1], 1), fit)
    return nearest(labels[rows, columns], size.height, size.width)


def nearest(labels: Shaped[np.ndarray, "height width"], height: int, width: int) -> Shaped[np.ndarray, "rows columns"]:
    """The labels in another size, each pixel that of the place under its middle.

    >>> nearest(np.array([[1, 2, 3]]), 1, 6).tolist()
    [[1, 1, 2, 2, 3, 3]]
    """
    rows, columns = (
        (2 * np.arange(size) + 1) * have // (2 * size) for size, have in zip((height, width), labels.shape, strict=True)
    )
    return labels[rows[:, None], columns]


def _labels(picture: Any, name: str, legend: Legend) -> Int16[np.ndarray, "height width"]:
    if not legend.colours and picture.mode not in ("1", "L", "P") and not picture.mode.startswith("I"):
        raise DataError(
            f"{name}: is a mask in colours ({picture.mode}); name them in data.colours, or save label numbers as grey"
        )
    width, height = picture.size
    labels = np.empty((height, width), np.int16)
    for rows, part in strips(picture):
        if legend.colours:
            labels[rows] = _of_colours(np.asarray(part.convert("RGB")).astype(np.int64), name, legend, rows.start)
        else:
            labels[rows] = as_labels(np.asarray(part), name, legend)
    return labels


def _of_colours(pixels: np.ndarray, name: str, legend: Legend, top: int) -> np.ndarray:
    codes = pixels @ (1 << 16, 1 << 8, 1)
    legend_codes = np.array(legend.colours, np.int64) @ (1 << 16, 1 << 8, 1)
    order = np.argsort(legend_codes)
    indices = order[np.searchsorted(legend_codes[order], codes).clip(max=len(legend_codes) - 1)]
    wrong = np.argwhere(legend_codes[indices] != codes)
    if len(wrong):
        row, column = wrong[0].tolist()
        colour = written(tuple(pixels[row, column].tolist()))
        raise DataError(
            f"{name}: colour {colour} at row {top + row}, column {column} is not among data.colours; name every colour,"
            " and save masks without smoothing"
        )
    return as_labels(indices, name, legend)
