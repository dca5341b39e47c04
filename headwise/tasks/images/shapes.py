"""Drawn pictures of two coloured shapes with what stands where: data to try captions and labels of pixels with."""

import itertools
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from headwise.data.synthetic import write_drawn
from headwise.errors import ConfigError
from headwise.tasks.images.picture_files import encode

COLOURS = {"red": (214, 39, 40), "green": (44, 160, 44), "blue": (31, 119, 220), "yellow": (240, 200, 30)}
FORMS = ("square", "circle", "triangle")
RELATIONS = ("above", "left of")
# what background and forms look like in a mask
_PALETTE = [(0, 0, 0), (230, 159, 0), (86, 180, 233), (0, 158, 115)]


class Drawn(NamedTuple):
    """A picture, the number of the form (from 1; 0: none) at each pixel, and what it shows."""

    pixels: UInt8[np.ndarray, "side side 3"]
    forms: UInt8[np.ndarray, "side side"]
    caption: str


def draw(number: int, side: int = 32, seed: int = 0) -> Drawn:
    """Picture `number` of an endless list: two shapes of different kinds, one above or left of the other.

    Args:
        side: height and width in pixels, 16 at least.
        seed: another seed gives another list.

    Raises: ConfigError: for a smaller side.

    >>> drawn = draw(0)
    >>> drawn.pixels.shape, drawn.caption
    ((32, 32, 3), 'a yellow square above a red triangle')
    """
    if side < 16:
        raise ConfigError(f"side ({side}) must be at least 16 pixels, so that a circle is none of the squares")
    draws = np.random.default_rng([seed, number])
    kinds = list(itertools.product(COLOURS, FORMS))
    subject, other = (kinds[at] for at in draws.permutation(len(kinds))[:2])
    relation = RELATIONS[draws.integers(len(RELATIONS))]
    half = side // 2
    first, second = _cells(relation, half, draws)
    pixels = draws.integers(225, 256, (side, side, 3), dtype=np.uint8)
    forms = np.zeros((side, side), np.uint8)
    for (colour, form), (top, left) in ((subject, first), (other, second)):
        size = int(draws.integers(half // 2, half - 1))
        top, left = (place + int(draws.integers(half - size)) for place in (top, left))
        inside = _inside(form, size)
        pixels[top : top + size, left : left + size][inside] = COLOURS[colour]
        forms[top : top + size, left : left + size][inside] = 1 + FORMS.index(form)
    return Drawn(pixels, forms, f"a {' '.join(subject)} {relation} a {' '.join(other)}")


def make(folder: Path, seed: int = 1, count: int = 2000, side: int = 32) -> dict[Path, int]:
    """PNG files and tables of paths, captions and masks: `train.csv` of `count`, `valid.csv`, `test.csv` of a tenth.

    A mask is a PNG file too: 0 where nothing stands, else 1 and on for the forms in the order of `FORMS`.

    Args:
        folder: made where it is missing.
        side, seed: as of `draw`.

    Returns: the tables, and how many pictures each has.

    Raises:
        ConfigError: Pillow is not installed.
        DataError: the folder holds other data under one of these names.
    """
    sizes, number = {}, 0
    for part, size in (("train", count), ("valid", max(1, count // 10)), ("test", max(1, count // 10))):
        drawn = {f"{at:05}.png": draw(at, side, seed) for at in range(number, number + size)}
        number += size
        path = folder / f"{part}.csv"
        rows = [
            "path,caption,mask",
            *(f"pictures/{name},{drawing.caption},masks/{name}" for name, drawing in drawn.items()),
        ]
        table = "".join(f"{row}\n" for row in rows)
        write_drawn({path: table})
        for kind in ("pictures", "masks"):
            (folder / kind).mkdir(parents=True, exist_ok=True)
        for name, drawing in drawn.items():
            (folder / "pictures" / name).write_bytes(encode(drawing.pixels))
            (folder / "masks" / name).write_bytes(encode(drawing.forms, _PALETTE))
        sizes[path] = size
    return sizes


def _cells(relation: str, half: int, draws: np.random.Generator) -> tuple[tuple[int, int], tuple[int, int]]:
    """Where the quarters of the two shapes begin, as (top, left)."""
    across = half * int(draws.integers(2))
    return ((0, across), (half, across)) if relation == "above" else ((across, 0), (across, half))


def _inside(form: str, size: int) -> np.ndarray:
    rows, columns = np.mgrid[:size, :size] - (size - 1) / 2
    if form == "circle":
        inside: np.ndarray = rows**2 + columns**2 <= (size / 2) ** 2
        return inside
    if form == "triangle":
        return np.abs(columns) <= (rows + size / 2) / 2
    return np.ones((size, size), bool)
