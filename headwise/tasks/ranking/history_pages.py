"""One page about choices: for each candidate the weights of the items of a history, as bars in their order."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from headwise.explain import maps
from headwise.explain.canvas import PAGE, SMALL, TEXT, Picture, picture
from headwise.explain.ramps import PALETTE
from headwise.explain.values import Array, array

_OTHERS = "#9ec4e0"  # a lighter shade of the first colour
BAR = 0.3  # inches of a bar
PANEL = 0.75  # inches of the bars of a candidate


def history_page(
    weights: Float[Array, "candidates items"], candidates: Sequence[str], items: Sequence[str], *, title: str = ""
) -> Picture:
    """A row of bars for each candidate, all to one scale; weights may be below zero.

    The weight of a row that is furthest from zero is filled darker; items that are the candidate itself are framed.

    Args:
        weights: how much each item counts for each candidate.
        items: the history, the latest one last.

    Raises: ShapeError: if labels and weights do not fit.

    >>> drawn = history_page(np.array([[0.1, 0.9]]), ["hat"], ["shoe", "hat"], title="pooling")
    >>> [label.get_text() for label in drawn.axes[0].get_xticklabels()]
    ['shoe', 'hat']
    """
    values = array(weights)
    maps.check_shape(values, [("candidates", len(candidates)), ("items", len(items))])
    tops, names = maps.labels(items), maps.labels(candidates)
    left = names.inches + 0.75
    width = float(np.clip(BAR * len(items), 2.0, PAGE - left))
    above = maps.columns_height(tops, width / len(items))
    lead = PANEL + 0.1
    figure = picture(PAGE, 0.3 + lead * len(candidates) + above + maps.title_height(title), free=True)
    limits = min(0.0, float(values.min())) * 1.05, max(0.0, float(values.max())) * 1.05 or 1.0
    for number, (row, name) in enumerate(zip(values, candidates, strict=True)):
        axes = figure.place(left, 0.3 + lead * (len(candidates) - 1 - number), width, PANEL)
        _bars(axes, row, name, items)
        axes.set(ylim=limits, xlim=(-0.6, len(items) - 0.4))
        # aside from the numbers of its axis
        aside = -0.45 / width
        how: dict[str, Any] = {"fontsize": TEXT, "fontfamily": names.fonts}
        axes.text(aside, 0.5, names.texts[number], ha="right", va="center", transform=axes.transAxes, **how)
        axes.set_xticks([])
    maps.label_columns(figure.axes[0], tops, width / len(items))
    figure.axes[-1].xaxis.set_label_position("bottom")
    figure.axes[-1].set_xlabel(
        "weight of each item of the history, the latest on the right; framed: the candidate", fontsize=SMALL
    )
    maps.name_page(figure, title)
    return figure


def _bars(axes: Axes, row: Float[np.ndarray, "items"], name: str, items: Sequence[str]) -> None:
    places = np.arange(len(row))
    shades = [PALETTE[0] if place == int(np.abs(row).argmax()) else _OTHERS for place in places]
    framed = [1.5 if item == name else 0.0 for item in items]
    axes.bar(places, row, color=shades, width=0.8, edgecolor=maps.OUTLINE, linewidth=framed)
    axes.axhline(0.0, color="#444444", linewidth=0.8)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=3))
    axes.tick_params(labelsize=SMALL, width=0.6, length=2.5)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
