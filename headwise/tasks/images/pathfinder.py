"""Drawn pictures of dashed paths: are the two dots the ends of one path, or of two?"""

import io
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from headwise.data.synthetic import write_drawn
from headwise.errors import ConfigError

CLASSES = ("apart", "joined")
# a path is a row of pixels of which every third is left out; its ends that are asked for are brighter
_DASH, _DOT, _GAP = 128, 255, 3
# pixels that lie between two paths at least, so that no gap of a path is as wide
_APART = 3
_STEPS = [(-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1)]
_PATIENCE = 500
_SMALLEST = 12

Cell = tuple[int, int]


class Drawn(NamedTuple):
    """A picture, and its class."""

    pixels: UInt8[np.ndarray, "side side"]
    label: str


def draw(number: int, side: int = 16, seed: int = 0) -> Drawn:
    """Picture `number` of an endless list: two dashed paths and two dots, at the ends of one or of both.

    Both paths are as long as half to three quarters of a side, and three pixels or more apart everywhere, where a dash
    is two pixels long and a gap one.

    Args:
        side: height and width in pixels, 12 at least.
        seed: another seed gives another list.

    Raises: ConfigError: for a smaller side.

    Source: after Linsley et al. 2018, "Learning long-range spatial dependencies with horizontal gated recurrent units",
    arXiv:1805.08315, as in Tay et al. 2021, "Long Range Arena", arXiv:2011.04006.

    >>> drawn = draw(0)
    >>> drawn.pixels.shape, int((drawn.pixels == 255).sum()), drawn.label
    ((16, 16), 2, 'joined')
    """
    if side < _SMALLEST:
        raise ConfigError(f"side ({side}) must be at least {_SMALLEST} pixels, so that two paths lie apart")
    draws = np.random.default_rng([seed, number])
    label = CLASSES[int(draws.integers(2))]
    paths = _paths(side, draws)
    pixels = np.zeros((side, side), np.uint8)
    for path in paths:
        for place, cell in enumerate(path):
            if place % _GAP < _GAP - 1:
                pixels[cell] = _DASH
    ends = (paths[0][0], paths[0][-1] if label == "joined" else paths[1][0])
    for cell in ends:
        pixels[cell] = _DOT
    return Drawn(pixels, label)


def make(
    folder: Path, seed: int = 1, count: int = 10_000, *, side: int = 16, held_out: int | None = None
) -> dict[Path, int]:
    """Writes `train.npz`, `valid.npz` and `test.npz`, as `image-classify` reads them.

    Args:
        count: pictures to train on; held_out: of each other part, else a tenth.
        side, seed: as of `draw`.

    Raises: ConfigError: a side that is too small; DataError: the folder holds other data under one of these names.
    """
    contents, sizes, number = dict[Path, str | bytes](), dict[Path, int](), 0
    other = held_out or max(1, count // 10)
    for part, size in (("train", count), ("valid", other), ("test", other)):
        drawn = [draw(at, side, seed) for at in range(number, number + size)]
        number += size
        stream = io.BytesIO()
        labels = np.array([picture.label for picture in drawn])
        np.savez(stream, images=np.stack([picture.pixels for picture in drawn]), labels=labels)
        contents[folder / f"{part}.npz"] = stream.getvalue()
        sizes[folder / f"{part}.npz"] = size
    write_drawn(contents)
    return sizes


def _paths(side: int, draws: np.random.Generator) -> list[list[Cell]]:
    """Two paths; where the second finds no room beside the first, both are drawn again."""
    while True:
        paths: list[list[Cell]] = []
        free = np.ones((side, side), bool)
        for _ in range(2):
            path = _path(free, draws)
            if path is None:
                break
            paths.append(path)
            for row, column in path:
                free[max(0, row - _APART) : row + _APART + 1, max(0, column - _APART) : column + _APART + 1] = False
        if len(paths) == 2:
            return paths


def _path(free: np.ndarray, draws: np.random.Generator) -> list[Cell] | None:
    """A walk over free pixels that turns by 45 degrees at most and comes near none of its own; None: it finds none."""
    side = len(free)
    for _ in range(_PATIENCE):
        # both ends lie in a dash
        length = _GAP * int(draws.integers(side // (2 * _GAP), 3 * side // (4 * _GAP) + 1)) + 2
        path = [(int(draws.integers(side)), int(draws.integers(side)))]
        direction = int(draws.integers(8))
        while len(path) < length and _open(free, path):
            direction = (direction + int(draws.choice([-1, 0, 0, 1]))) % 8
            step = _STEPS[direction]
            path.append((path[-1][0] + step[0], path[-1][1] + step[1]))
        if len(path) == length and _open(free, path):
            return path
    return None


def _open(free: np.ndarray, path: list[Cell]) -> bool:
    """Whether the last pixel of a path is free, and near none but the ones before it."""
    row, column = path[-1]
    if not (0 <= row < len(free) and 0 <= column < len(free) and free[row, column]):
        return False
    return all(max(abs(row - other[0]), abs(column - other[1])) >= _APART for other in path[:-_APART])
