"""Costs over a size, and what a cost buys: pictures of a comparison."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from headwise.errors import DataError
from headwise.explain.canvas import Picture, picture
from headwise.explain.curves import LINE_STYLES, TEXT_SIZE, colour

# the most marks of sizes below a panel
_MARKS = 6
# over such a range powers of ten are marks enough
_FAR = 100

Line = Sequence[tuple[float, float]]


def scaling(panels: Mapping[str, Mapping[str, Line]], across: str) -> Picture:
    """A panel for each quantity, a line for each name, through (size, value) above 0.

    Args:
        panels: by the words of the axis, the lines by name.
        across: the words of the axis of sizes.
    Raises: DataError: nothing to draw.

    >>> drawn = scaling({"operations": {"attention": [(256, 1e6), (512, 4e6)]}}, "length in tokens")
    >>> drawn.axes[0].get_yscale()
    'log'
    """
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    if not names:
        raise DataError("there is nothing to draw: no measurement")
    figure = picture(1.2 + 2.4 * len(panels), 3.0)
    for place, (axes, (down, lines)) in enumerate(
        zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True)
    ):
        for name, points in lines.items():
            number = names.index(name)
            style = LINE_STYLES[number // 8 % len(LINE_STYLES)]
            axes.plot(
                *zip(*points, strict=True),
                style,
                marker="o",
                markersize=3,
                linewidth=1.3,
                color=colour(number),
                label=name,
            )
        sizes = sorted({size for points in lines.values() for size, _ in points})
        marks = sizes[:: -(-len(sizes) // _MARKS)]
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(marks, [f"{mark:g}" for mark in marks])
        axes.xaxis.set_minor_locator(NullLocator())
        _mark_plainly(axes, [value for points in lines.values() for _, value in points])
        axes.set_xlabel(across, fontsize=TEXT_SIZE)
        axes.set_ylabel(down, fontsize=TEXT_SIZE)
        axes.tick_params(labelsize=TEXT_SIZE - 1)
        axes.grid(visible=True, linewidth=0.4, alpha=0.5)
        if place == len(panels) - 1:
            axes.legend(frameon=False, fontsize=TEXT_SIZE - 1, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _mark_plainly(axes: Axes, values: Sequence[float]) -> None:
    """Powers of ten at the side, and where they are few 2 and 5 between them; as numbers."""
    between = (1.0,) if max(values) > _FAR * min(values) else (1.0, 2.0, 5.0)
    axes.yaxis.set_major_locator(LogLocator(subs=between))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def frontier(
    sides: Mapping[str, tuple[float, float, float]], front: Sequence[str], *, across: str, down: str
) -> Picture:
    """Each side at its cost and its score, with the interval; a line through those that none is better than.

    Args:
        sides: by name, cost, score, and half its interval (0: unknown).
        front: the names along the line, from the cheapest.
    Raises: DataError: nothing to draw.

    >>> drawn = frontier({"a": (1.0, 0.5, 0.1), "b": (2.0, 0.9, 0.1)}, ["a", "b"], across="ms", down="accuracy")
    >>> drawn.axes[0].get_ylabel()
    'accuracy'
    """
    if not sides:
        raise DataError("there is nothing to draw: no side")
    figure = picture(4.6, 3.2)
    axes = figure.subplots()
    axes.plot(*zip(*(sides[name][:2] for name in front), strict=True), "--", color="#8a8f99", linewidth=1, zorder=1)
    for number, (name, (cost, score, reach)) in enumerate(sides.items()):
        mark: dict[str, Any] = {
            "fmt": "o",
            "markersize": 4.5,
            "capsize": 2.5,
            "linewidth": 1.2,
            "color": colour(number),
            "label": name,
        }
        axes.errorbar([cost], [score], yerr=[[reach], [reach]] if reach else None, **mark)
    axes.set_xlabel(across, fontsize=TEXT_SIZE)
    axes.set_ylabel(down, fontsize=TEXT_SIZE)
    axes.set_xlim(0, 1.1 * max(cost for cost, _, _ in sides.values()))
    axes.tick_params(labelsize=TEXT_SIZE - 1)
    axes.grid(visible=True, linewidth=0.4, alpha=0.5)
    axes.legend(frameon=False, fontsize=TEXT_SIZE - 1, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
