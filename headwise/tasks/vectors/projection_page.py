"""The picture of words as points of a plane."""

from collections.abc import Collection, Mapping

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from headwise.explain.canvas import PAGE, SMALL, TEXT, TITLE, Picture, picture
from headwise.explain.ramps import PALETTE
from headwise.labels import columns, literal, shorten, visible

_HEIGHT = 4.6  # inches
_LONGEST = 18  # columns of a word
# a letter, and the gap to a point, in inches
_LETTER, _GAP = 0.6 * TEXT / 72, 0.14
# where a label may stand beside its point
_SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1), (0.9, 0.8), (-0.9, 0.8), (0.9, -0.8), (-0.9, -0.8))


def projection_page(
    names: list[str],
    points: Float[np.ndarray, "names 2"],
    *,
    groups: Mapping[str, Collection[str]],
    answer: list[str],
    arrows: list[tuple[str, str]],
    title: str,
) -> Picture:
    """Each word of a query in a colour of its own with its neighbours, the answer ringed, arrows of an analogy.

    Args:
        groups: of each word of the query its neighbours.
        answer: words nearest to the query, the best one first.
    """
    figure = picture(PAGE, _HEIGHT)
    axes = figure.subplots()
    place = dict(zip(names, points, strict=True))
    words = list(groups)
    colours = {word: PALETTE[number % len(PALETTE)] for number, word in enumerate(words)}
    owner = {name: word for word in reversed(words) for name in groups[word]} | {word: word for word in words}
    for name, (x, y) in place.items():
        colour = colours.get(owner.get(name, ""), "#444444")
        axes.plot([x], [y], "o", ms=9 if name in words else 5, color=colour, mec="white", zorder=3)
        if name in answer and name not in words:
            ring = 2.0 if name == answer[0] else 0.8
            axes.plot([x], [y], "o", ms=11, mfc="none", mec="black", mew=ring, zorder=4)
    for start, stop in arrows:
        axes.annotate("", place[stop], place[start], arrowprops={"arrowstyle": "->", "color": "#555555", "lw": 1.2})
    _limits(axes, points)
    _labelled(axes, names, points, words)
    _legend(figure, colours, ringed=bool(answer))
    axes.set_title(title, fontsize=TITLE, loc="left")
    axes.set(xticks=[], yticks=[])
    return figure


def _legend(figure: Picture, colours: Mapping[str, str], *, ringed: bool) -> None:
    marks = [Line2D([], [], marker="o", ls="", color=colour) for colour in colours.values()]
    texts = [f"{literal(shorten(visible(word), _LONGEST))} and its neighbours" for word in colours]
    if ringed:
        marks.append(Line2D([], [], marker="o", ls="", mfc="none", mec="black"))
        texts.append("nearest to the query")
    figure.legend(marks, texts, loc="outside lower left", ncols=min(3, len(marks)), frameon=False, fontsize=SMALL)


def _limits(axes: Axes, points: Float[np.ndarray, "names 2"]) -> None:
    """Room for labels on every side."""
    low, high = points.min(0), points.max(0)
    room = np.maximum((high - low) * 0.14, 0.02)
    axes.set_xlim(float(low[0] - room[0]), float(high[0] + room[0]))
    axes.set_ylim(float(low[1] - room[1]), float(high[1] + room[1]))


def _labelled(axes: Axes, names: list[str], points: Float[np.ndarray, "names 2"], bold: list[str]) -> None:
    """Each label on the side of its point where it covers least of what stands there."""
    # sizes in shares of the axes, which fill nearly the whole page
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    spans = np.array([right - left, top - bottom])
    at = (points - [left, bottom]) / spans
    occupied = [(x, y, 0.016, 0.02) for x, y in at]
    for name, (x, y) in zip(names, at, strict=True):
        text = shorten(visible(name), _LONGEST)
        width, height = _LETTER * columns(text) / PAGE, 1.3 * TEXT / 72 / _HEIGHT
        across, up = width / 2 + _GAP / PAGE, height / 2 + _GAP / _HEIGHT
        boxes = [(x + dx * across, y + dy * up, width, height) for dx, dy in _SIDES]
        # equal ones: the first side
        best = min(boxes, key=lambda box: sum(_overlap(box, other) for other in occupied))
        occupied.append(best)
        x, y = np.array(best[:2]) * spans + [left, bottom]
        weight = "bold" if name in bold else "normal"
        axes.text(x, y, literal(text), fontsize=TEXT, ha="center", va="center", weight=weight, zorder=5)


_Box = tuple[float, float, float, float]


def _overlap(box: _Box, other: _Box) -> float:
    """The area that two boxes, by centre and size, have in common, in shares of the page."""
    across = min(box[0] + box[2] / 2, other[0] + other[2] / 2) - max(box[0] - box[2] / 2, other[0] - other[2] / 2)
    up = min(box[1] + box[3] / 2, other[1] + other[3] / 2) - max(box[1] - box[3] / 2, other[1] - other[3] / 2)
    return max(0.0, across) * max(0.0, up)
