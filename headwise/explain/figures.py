"""Pictures of attention: a page with one layer and all heads of all layers, and the heads of one layer.

Rows are queries ("attends from"), columns are keys ("attends to"), in every figure.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from headwise.explain import maps
from headwise.explain.canvas import PAGE, TEXT, Picture, picture
from headwise.explain.heads import pooled
from headwise.explain.values import LEGENDS, Array, Legend, array

TALLEST = 8.0  # inches of a map
CELL = 0.36  # inches of a cell with its weight written into it, and at least
NUMBERED = 0.29
THUMBNAIL = 48  # cells along a side of a small map; a longer side is pooled
SMALL_SIDE = 0.9  # inches of a small map's side at most
READABLE = 0.45  # and at least, where they stand beside the large one
BESIDE = 0.55  # inches between the two, for the numbers of layers
ACROSS = 4  # maps of heads side by side
GAP = 0.15  # inches between the map and the small maps below it


def page(
    weights: Float[Array, "queries keys"],
    queries: Sequence[str],
    keys: Sequence[str],
    layers: Sequence[Float[Array, "_ _ _"]],
    *,
    chosen: Sequence[tuple[int, int]] = (),
    title: str = "",
    keep: Bool[Array, "queries keys"] | None = None,
    legend: Legend = LEGENDS["self"],
) -> Picture:
    """A map of weights with tokens as labels, and a grid of small maps: a row for each layer, a column for each head.

    Map and grid have a colour scale each; zero is the page colour. A single head is not drawn twice. Small maps of more
    than 48 rows or columns are pooled by their maximum, so that no strong weight is averaged away.

    Args:
        queries, keys: a label for each row and each column.
        chosen: (layer, head) of the small maps whose mean is the large one; they are framed.
        keep: True where the mask allows a weight; other cells are hatched.
        legend: what rows, columns and numbers are.
    Raises: ShapeError if labels and weights do not fit.

    >>> import numpy as np
    >>> drawn = page(np.eye(2), ["va", "!"], ["go", "."], [np.ones((3, 2, 2)) / 2])
    >>> [text.get_text() for text in drawn.axes[1].get_xticklabels()]
    ['head 0', 'head 1', 'head 2']
    """
    values, allowed = array(weights), None if keep is None else array(keep).astype(bool)
    maps.check_shape(values, [("queries", len(queries)), ("keys", len(keys))])
    rows, tops = maps.labels(queries), maps.labels(keys)
    size = _sizes(max(rows.inches, 0.5) + 0.35, values.shape, [len(layer) for layer in layers])
    cell, upper, numbered, several = size.cell, size.upper, size.numbered, sum(map(len, layers)) > 1
    below = GAP + 0.2 + size.lower[1] if several and not size.beside else 0.0
    note = 0.2 if numbered or (allowed is not None and not allowed.all()) else 0.0
    bottom = 0.05 + below + note + max(0.0, 1.3 - upper[1])  # the colour bar may be taller than the map
    above = maps.title_height(title) + 0.2 + maps.columns_height(tops, cell)
    figure = picture(PAGE, bottom + upper[1] + above, free=True)
    axes = figure.place(size.left, bottom, *upper)
    norm = maps.norm(values, keep=allowed, signed=legend.signed)
    image = maps.draw(axes, values, norm, allowed)
    maps.label_rows(axes, rows, cell)
    maps.label_columns(axes, tops, cell)
    if numbered:
        maps.number_cells(axes, values, norm, allowed)
    maps.outline(axes, list(enumerate(np.abs(values).argmax(axis=1).tolist())) if legend.framed else [])
    maps.name_axes(axes, legend.rows, legend.keys)
    maps.name_page(figure, title)
    maps.colour_bar(axes, image, upper, legend.quantity)
    maps.caption(axes, values, allowed, numbered=numbered)
    if several:
        small = [pooled(array(layer), THUMBNAIL) for layer in layers]
        under = bottom + upper[1] - size.lower[1] if size.beside else 0.05
        maps.draw_heads(figure.place(size.aside, under, *size.lower), small, size.side, chosen)
    return figure


class _Sizes(NamedTuple):
    """Inches on a page: `left` of the large map and `aside` of the small ones, which stand beside it or below it."""

    left: float
    cell: float
    numbered: bool
    upper: tuple[float, float]
    beside: bool
    aside: float
    side: float
    lower: tuple[float, float]


def _sizes(left: float, shape: Sequence[int], heads: Sequence[int]) -> _Sizes:
    """How large maps are: cells with room for a number, else for a line of text, else for what a page leaves.

    Args:
        shape: rows and columns of the large map.
        heads: of each layer.
    """
    rows, columns = shape
    most = min((PAGE - left - maps.BAR_INCHES) / columns, TALLEST / rows)
    numbered = most >= NUMBERED
    cell = min(most, CELL if numbered else max(maps.LINE_INCHES * 1.2, 4.0 / max(rows, columns)))
    aside = left + cell * columns + maps.BAR_INCHES + BESIDE
    side = min(SMALL_SIDE, (PAGE - aside) / max(heads), cell * rows / len(heads))
    beside = side >= READABLE
    if not beside:
        aside, side = left, min(SMALL_SIDE, (PAGE - left) / max(heads))
    upper, lower = (cell * columns, cell * rows), (side * max(heads), side * len(heads))
    return _Sizes(left, cell, numbered, upper, beside, aside, side, lower)


def heads(
    weights: Float[Array, "heads queries keys"],
    queries: Sequence[str],
    keys: Sequence[str],
    *,
    title: str = "",
    keep: Bool[Array, "queries keys"] | None = None,
    legend: Legend = LEGENDS["self"],
) -> Picture:
    """A grid with one map for each head; all share one colour scale, so they can be compared.

    Args:
        queries, keys, keep, legend: as in `page`.

    >>> import numpy as np
    >>> len(heads(np.ones((3, 2, 2)) / 2, ["a", "b"], ["a", "b"]).axes)
    3
    """
    values, allowed = array(weights), None if keep is None else array(keep).astype(bool)
    maps.check_shape(values, [("heads", len(values)), ("queries", len(queries)), ("keys", len(keys))])
    rows, tops = maps.labels(queries), maps.labels(keys)
    across = min(len(values), ACROSS)
    down = -(-len(values) // across)
    left, right = max(rows.inches, 0.5) + 0.35, maps.BAR_INCHES
    room = (PAGE - left - right) / across - 0.12
    cell = min(0.3, room / values.shape[2], TALLEST / values.shape[1])
    size = cell * values.shape[2], cell * values.shape[1]
    lead = maps.columns_height(tops, cell) + 0.2
    above = maps.title_height(title) + 0.2
    height = above + max(down * (size[1] + lead + 0.1), 1.7) + 0.25
    figure = picture(PAGE, height, free=True)
    norm = maps.norm(*values, keep=allowed, signed=legend.signed)
    for number, weight in enumerate(values):
        row, column = divmod(number, across)
        top = height - above - row * (size[1] + lead + 0.1) - lead
        axes = figure.place(left + column * (size[0] + 0.12), top - size[1], *size)
        image = maps.draw(axes, weight, norm, allowed)
        maps.label_columns(axes, tops, cell)
        maps.name_map(axes, f"head {number}", maps.columns_height(tops, cell))
        maps.label_rows(axes, rows if column == 0 else rows.blank(), cell)
        if column == 0:
            axes.set_ylabel(legend.rows, fontsize=TEXT)
    last = figure.axes[across - 1]
    maps.colour_bar(last, image, size, legend.quantity)
    first = figure.axes[0]
    first.text(0, 1 + (lead + 0.02) / size[1], legend.keys, fontsize=TEXT, transform=first.transAxes)
    maps.name_page(figure, title)
    return figure
