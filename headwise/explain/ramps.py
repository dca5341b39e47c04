"""Colour: sequential and diverging ramps with equal steps in OKLab, and colours to tell lines, heads and classes apart.

Pages and figures take every colour from here.
"""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from headwise.errors import ConfigError, unknown

if TYPE_CHECKING:
    from matplotlib.colors import ListedColormap

SIZE = 256

# control colours, from zero (the page) upwards; a diverging ramp has one arm towards zero and one away from it
CONTROLS: dict[str, tuple[str, ...]] = {
    "ink light": ("#f8fafd #bee6ff #87cdf7 #5bb0eb #458fd2 #3970b7 #305199 #2b3771 #202148",),
    "ink dark": ("#15171d #232d4c #2d4978 #2c6c9d #2a92b5 #3cb5bd #74d4b3 #c3e8a2 #fbf9d3",),
    "grey light": ("#f8fafd #26282e",),
    "grey dark": ("#15171d #e8ecf4",),
    "diverging": ("#183d86 #356eb2 #62a0dd #a8cdef #f6f7f8", "#f8f6f5 #f6c49d #e2924b #b56627 #893a0e"),
    "diverging dark": ("#cfe3ff #8fbcf0 #4a86c8 #2a4f82 #15171d", "#15171d #6b3d12 #b56627 #eda45f #ffe0bd"),
}

# Okabe and Ito (2008), with a grey for their black: fills. Above eight heads position and label must tell them apart
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#666666", "#f0e442")
# the same hues for lines and letters, darkened for a white page and lightened for a black one: 3 to 1 at least, found
# by a search for the largest smallest distance in OKLab under normal sight and three deficiencies
LINES = {
    "light": ("#0063a6", "#dc3000", "#008765", "#be5f92", "#b88642", "#139ac9", "#5b5e5e", "#707416"),
    "dark": ("#4ac2ff", "#ef8f4f", "#76b989", "#d998cc", "#f2c36e", "#98e0ff", "#939093", "#fff679"),
}
# the eleven basic colour terms of English (Berlin and Kay 1969); black and white stay visible on either page
_NAMED = {
    "blue": PALETTE[0],
    "red": PALETTE[1],
    "green": PALETTE[2],
    "pink": PALETTE[3],
    "orange": PALETTE[4],
    "gray": PALETTE[6],
    "grey": PALETTE[6],
    "yellow": PALETTE[7],
    "purple": "#7d4aa5",
    "brown": "#7a4a1e",
    "black": "#33343a",
    "white": "#d8dae0",
}
_GOLDEN = np.pi * (3 - np.sqrt(5))

_LMS_FROM_LINEAR = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_LAB_FROM_LMS = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def oklab(colours: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, "n 3"]:
    """sRGB in [0, 1] as OKLab: lightness, green to red, blue to yellow. Source: Ottosson 2020."""
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    return np.cbrt(linear @ _LMS_FROM_LINEAR.T) @ _LAB_FROM_LMS.T


def srgb(colours: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, "n 3"]:
    """OKLab as sRGB in [0, 1]; what lies outside the screen's colours is clipped."""
    lms = colours @ np.linalg.inv(_LAB_FROM_LMS).T
    linear = np.clip(lms**3 @ np.linalg.inv(_LMS_FROM_LINEAR).T, 0.0, 1.0)
    return np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)


@cache
def ramp(name: str) -> Float[np.ndarray, "entries 3"]:
    """256 sRGB colours, equally far from each other in OKLab along the curve through the control colours.

    Args:
        name: "ink light" (zero is a white page), "ink dark" (zero is a black page), "diverging" (zero in the middle) or
            "diverging dark" (the same, on a black page).

    >>> ramp("ink light").shape
    (256, 3)
    """
    if name not in CONTROLS:
        raise ConfigError(unknown("colour ramp", name, CONTROLS))
    arms = CONTROLS[name]
    colours = np.concatenate([_resampled(arm.split(), SIZE // len(arms)) for arm in arms])
    colours.setflags(write=False)
    return colours


@cache
def colormap(name: str) -> "ListedColormap":
    """The ramp as a matplotlib colormap."""
    from matplotlib.colors import ListedColormap

    return ListedColormap(ramp(name), name=f"headwise {name}")


def hexadecimal(name: str) -> list[str]:
    """The ramp as a page writes colours.

    >>> hexadecimal("ink light")[0], len(hexadecimal("ink dark"))
    ('#f8fafd', 256)
    """
    return _written(ramp(name))


def class_colours(classes: Sequence[str]) -> dict[str, str]:
    """The colour of each class, by its place among all classes of a model; the same in pages, figures and reports.

    A class named by a basic colour term has that colour. The others take the rest of `PALETTE` in its order; beyond
    eight the hue turns by the golden angle, so that no two classes share a colour.

    >>> class_colours(["cat", "dog"]), class_colours(["Red", "cat", "blue"])
    ({'cat': '#0072b2', 'dog': '#d55e00'}, {'Red': '#d55e00', 'cat': '#009e73', 'blue': '#0072b2'})
    """
    named = {name: _NAMED[word] for name in classes if (word := name.strip().lower()) in _NAMED}
    turns = np.arange(len(classes))
    hues, lightness = _GOLDEN * turns, np.array([0.5, 0.65, 0.8])[turns % 3]
    turned = srgb(np.stack([lightness, 0.1 * np.cos(hues), 0.1 * np.sin(hues)], axis=1))
    free = (colour for colour in (*PALETTE, *_written(turned)) if colour not in named.values())
    return {name: named.get(name) or next(free) for name in classes}


def to_rgb(colour: str) -> tuple[int, int, int]:
    """Red, green and blue of #rrggbb.

    >>> to_rgb("#ff0009")
    (255, 0, 9)
    """
    red, green, blue = bytes.fromhex(colour.removeprefix("#"))
    return red, green, blue


def _written(colours: Float[np.ndarray, "n 3"]) -> list[str]:
    return [f"#{bytes(np.rint(colour * 255).astype(np.uint8)).hex()}" for colour in colours]


def _resampled(controls: list[str], size: int) -> Float[np.ndarray, "size 3"]:
    """`size` points at equal arc length on the polyline through the controls, drawn in OKLab."""
    rgb = np.array([to_rgb(control) for control in controls]) / 255
    points = oklab(rgb)
    length = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1))])
    steps = np.linspace(0.0, length[-1], size)
    return srgb(np.stack([np.interp(steps, length, points[:, axis]) for axis in range(3)], axis=1))
