"""Curves of measurements: one line for each series, with the spread of repeated ones."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from headwise.errors import DataError
from headwise.explain.canvas import Picture, picture
from headwise.explain.curves import LINE_STYLES, TEXT_SIZE, colour, named

_WIDE = 8.0
_FLAT = 0.02
# lines that a legend may name without hiding them
_INSIDE = 3


@dataclass(frozen=True)
class Mean:
    """Mean and spread (standard deviation, 0 of one value) of repeated measurements, and how many there were."""

    value: float
    spread: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Mean":
        """That of these values. Raises: DataError for none.

        >>> Mean.of([1.0, 2.0, 3.0])
        Mean(value=2.0, spread=1.0, count=3)
        """
        if not values:
            raise DataError("there is no mean of no values")
        mean = math.fsum(values) / len(values)
        square = math.fsum((value - mean) ** 2 for value in values)
        return cls(mean, math.sqrt(square / (len(values) - 1)) if len(values) > 1 else 0.0, len(values))

    def __str__(self) -> str:
        digits = 2 if abs(self.value) >= 10 else 4
        spread = f" ± {self.spread:.{digits}f}" if self.count > 1 else ""
        return f"{self.value:.{digits}f}{spread}"


# an int is no float to a checker of annotations
Series = Mapping[str, Sequence[tuple[float | int | str, Mean]]]


def lines(series: Series, *, across: str, down: str, title: str = "") -> Picture:
    """One line for each series over numbers, or over names side by side; bars show the spread.

    At most eight numbers, of which the largest is eight times the smallest or more, stand on a logarithmic axis.

    Raises:
        DataError: nothing to draw.

    >>> drawn = lines({"rnn": [(1, Mean(0.9, 0.0, 1)), (2, Mean(0.8, 0.1, 3))]}, across="distance", down="accuracy")
    >>> drawn.axes[0].get_xlabel()
    'distance'
    """
    points = [place for row in series.values() for place, _ in row]
    if not points:
        raise DataError("there is nothing to draw: no measurement")
    numeric = all(not isinstance(place, str) for place in points)
    names = list(dict.fromkeys(map(str, points)))
    figure = picture(5.6, 3.2)
    axes = figure.subplots()
    for number, (name, row) in enumerate(series.items()):
        places = [float(place) if numeric else float(names.index(str(place))) for place, _ in row]
        _line(axes, number, name, places, [mean for _, mean in row])
    _not_flatter(axes, [mean.value for row in series.values() for _, mean in row])
    if not numeric:
        axes.set_xticks(range(len(names)), names)
    elif _far_apart(sorted({float(place) for place in points})):
        _logarithmic(axes, sorted({float(place) for place in points}))
    named(axes, across, down, title)
    axes.grid(visible=True, axis="y", linewidth=0.4, alpha=0.5)
    if len(series) > 1:
        legend = axes.legend(frameon=False, fontsize=TEXT_SIZE - 1)
        if len(series) > _INSIDE:
            legend.set_loc("center left")
            legend.set_bbox_to_anchor((1.0, 0.5))
    return figure


def _line(axes: Axes, number: int, name: str, places: list[float], means: list[Mean]) -> None:
    axes.errorbar(
        places,
        [mean.value for mean in means],
        yerr=[mean.spread for mean in means] if any(mean.count > 1 for mean in means) else None,
        fmt=LINE_STYLES[number % len(LINE_STYLES)],
        marker="o",
        markersize=3.5,
        capsize=2.5,
        linewidth=1.3,
        color=colour(number),
        label=name,
    )


def _not_flatter(axes: Axes, values: list[float]) -> None:
    """Differences that are none shall not fill the picture."""
    if max(values) - min(values) < _FLAT * max(map(abs, values)):
        middle = (max(values) + min(values)) / 2
        axes.set_ylim(middle - _FLAT * abs(middle), middle + _FLAT * abs(middle))


def _far_apart(places: list[float]) -> bool:
    return len(places) <= _WIDE and 0 < _WIDE * places[0] <= places[-1]


def _logarithmic(axes: Axes, places: list[float]) -> None:
    axes.set_xscale("log")
    axes.set_xticks(places, [f"{place:g}" for place in places])
    axes.minorticks_off()
