"""One page about choices: for each candidate the weights of the items of a history, as bars in their order."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from headwise.explain import maps
from headwise.explain.canvas import Picture, picture
from headwise.explain.ramps import PALETTE
from headwise.explain.values import Array, array

BAR = 0.3  # inches of a bar
PANEL = 1.15  # inches of the bars of a candidate


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
    width = float(np.clip(BAR * len(items), 3.0, 14.0)) + 1.6
    figure = picture(width, 1.3 + PANEL * len(candidates))
    panels = figure.subplots(len(candidates), 1, squeeze=False, sharey=True)[:, 0]
    for axes, row, name in zip(panels, values, candidates, strict=True):
        _bars(axes, row, name, items)
        axes.set_xticks([])
    maps.label_columns(panels[0], maps.labels(items), 0.9 * BAR)
    panels[-1].xaxis.set_label_position("bottom")
    label = "items of the history, the latest on the right; framed: the candidate"
    panels[-1].set_xlabel(label, fontsize=maps.LABEL_SIZE)
    figure.suptitle(maps.title_of(title).texts[0], fontsize=maps.TITLE_SIZE)
    return figure


def _bars(axes: Axes, row: Float[np.ndarray, "items"], name: str, items: Sequence[str]) -> None:
    places = np.arange(len(row))
    shades = [PALETTE[0] if place == int(np.abs(row).argmax()) else "#9ec4e0" for place in places]
    frames = [maps.OUTLINE if item == name else shade for item, shade in zip(items, shades, strict=True)]
    axes.bar(places, row, color=shades, width=0.8, edgecolor=frames, linewidth=1.5)
    axes.axhline(0.0, color="#444444", linewidth=0.8)
    axes.set_ylabel(maps.title_of(name).texts[0], fontsize=maps.TITLE_SIZE, rotation=0, ha="right", va="center")
    axes.tick_params(labelsize=maps.LABEL_SIZE)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
