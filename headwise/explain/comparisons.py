"""Costs over a size, and what a cost buys: pictures of a comparison."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from headwise.errors import DataError
from headwise.explain.canvas import COLUMN, PAGE, SOFT, Picture, picture
from headwise.explain.curves import LINE_STYLES, colour, legend, name_axes
from headwise.labels import literal, visible

# the most marks of sizes below a panel
_MARKS = 6
# over such a range powers of ten are marks enough
_FAR = 100
# beyond this ratio of values, all above 0, an axis of conditions is logarithmic
_WIDE = 30
_TITLE_CHARACTERS = 105
# each with a colour and a mark of its own
_OUTCOMES = ("holds", "refuted", "undecided")

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
    figure = picture(PAGE if len(panels) > 1 else COLUMN, 2.2)
    marks: dict[str, Any] = {}
    for axes, (down, lines) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        for name, points in lines.items():
            number = names.index(name)
            style = f"o{LINE_STYLES[number // 8 % len(LINE_STYLES)]}"
            (marks[name],) = axes.plot(
                *zip(*points, strict=True), style, markersize=2.5, linewidth=1.2, color=colour(number)
            )
        sizes = sorted({size for points in lines.values() for size, _ in points})
        shown = sizes[:: -(-len(sizes) // _MARKS)]
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(shown, [f"{size:g}" for size in shown])
        axes.xaxis.set_minor_locator(NullLocator())
        _mark_plainly(axes, [value for points in lines.values() for _, value in points])
        name_axes(axes, across, down)
        axes.grid(visible=True, linewidth=0.4, alpha=0.5)
    legend(figure, list(marks.values()), list(marks), "")
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
    'accuracy, %'
    """
    if not sides:
        raise DataError("there is nothing to draw: no side")
    figure = picture(COLUMN, 2.2)
    axes = figure.subplots()
    axes.plot(*zip(*(sides[name][:2] for name in front), strict=True), "--", color=SOFT, linewidth=0.8, zorder=1)
    marks = [
        axes.errorbar(
            [cost],
            [score],
            yerr=[[reach], [reach]] if reach else None,
            fmt="o",
            markersize=4,
            capsize=2.5,
            linewidth=1.2,
            color=colour(number),
        )
        for number, (cost, score, reach) in enumerate(sides.values())
    ]
    axes.set_xlim(0, 1.1 * max(cost for cost, _, _ in sides.values()))
    name_axes(axes, across, down)
    axes.grid(visible=True, linewidth=0.4, alpha=0.5)
    legend(figure, [*marks], list(sides), "")
    return figure


def forest(
    conditions: Mapping[str, tuple[float, float | None, float | None, str]], across: str, title: str = ""
) -> Picture:
    """A row for each condition: its value, the interval around it, and what a rule makes of it, as colour and mark.

    Args:
        conditions: by their words, value, low, high (None: without limit) and outcome: "holds", "refuted" or
            "undecided".
        across: the words of the axis.
        title: above all; what is longer than the picture is wide goes on in the next line.
    Raises: DataError: nothing to draw.

    >>> drawn = forest({"wide heads": (0.9, 0.8, 1.0, "holds"), "narrow heads": (0.4, 0.3, 0.5, "refuted")}, "weight")
    >>> [label.get_text() for label in drawn.axes[0].get_yticklabels()]
    ['wide heads', 'narrow heads']
    """
    if not conditions:
        raise DataError("there is nothing to draw: no condition")
    figure = picture(PAGE, 0.6 + 0.22 * len(conditions))
    axes = figure.subplots()
    marks: dict[str, Any] = {}
    for row, (value, low, high, outcome) in enumerate(conditions.values()):
        number = _OUTCOMES.index(outcome)
        marks[outcome] = axes.errorbar(
            [value],
            [row],
            # an end without limit is not drawn; rounding may put a value a little outside
            xerr=[[0.0 if low is None else max(0.0, value - low)], [0.0 if high is None else max(0.0, high - value)]],
            fmt="osD"[number],
            markersize=4,
            capsize=2.5,
            linewidth=1.2,
            color=colour(number),
        )
    axes.set_yticks(range(len(conditions)), [literal(visible(words)) for words in conditions])
    axes.set_ylim(len(conditions) - 0.5, -0.5)
    shown = [end for row in conditions.values() for end in row[:3] if end is not None]
    if min(shown) > 0 and max(shown) > _WIDE * min(shown):
        axes.set_xscale("log")
    name_axes(axes, across, "")
    axes.grid(visible=True, axis="x", linewidth=0.4, alpha=0.5)
    legend(figure, list(marks.values()), list(marks), "\n".join(textwrap.wrap(title, _TITLE_CHARACTERS)))
    return figure
