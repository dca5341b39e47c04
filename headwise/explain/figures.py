"""Pictures of attention: a page with one layer above all heads of all layers, and the heads of one layer.

Rows are queries ("attends from"), columns are keys ("attends to"), in every figure.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from headwise.explain import maps
from headwise.explain.canvas import Picture, picture
from headwise.explain.heads import pooled
from headwise.explain.values import LEGENDS, Array, Legend, array

LARGEST = 10.0  # inches of a map's longer side
NUMBERED = 150  # a map of at most so many cells has its weights written into them
THUMBNAIL = 48  # cells along a side of a small map; a longer side is pooled
SMALL = 1.1  # inches of a small map's side
WIDEST = 9.0  # inches of a row of small maps
GAP = 0.45  # inches between the map and the small maps below it


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
    numbered, longest, across = values.size <= NUMBERED, max(values.shape), max(map(len, layers))
    # room for a number, else for a line of text, else what a page leaves
    cell = min(0.38 if numbered else max(maps.LINE_INCHES * 1.2, 4.0 / longest), LARGEST / longest)
    side = min(SMALL, WIDEST / across)
    upper, lower = (cell * values.shape[1], cell * values.shape[0]), (side * across, side * len(layers))
    below = GAP + 0.35 + lower[1] if sum(map(len, layers)) > 1 else 0.0
    above = maps.columns_height(tops, cell) + 0.25 + 0.2 * (title.count("\n") + 1)
    left, bottom = max(rows.inches, 0.6) + 0.4, 0.1  # of both, in inches
    height = above + max(upper[1], 1.3) + below + bottom  # the colour bar may be taller than the map
    figure = picture(left + max(upper[0], lower[0]) + 0.9, height, free=True)
    axes = figure.place(left, height - above - upper[1], *upper)
    norm = maps.norm(values, keep=allowed, signed=legend.signed)
    image = maps.draw(axes, values, norm, allowed)
    maps.label_rows(axes, rows, cell)
    maps.label_columns(axes, tops, cell)
    if numbered:
        maps.number_cells(axes, values, norm, allowed)
    maps.outline(axes, list(enumerate(np.abs(values).argmax(axis=1).tolist())) if legend.framed else [])
    maps.name_axes(axes, legend.rows, legend.keys, title)
    maps.colour_bar(axes, image, upper, legend.quantity)
    maps.caption(axes, values, allowed)
    if below:
        small = [pooled(array(layer), THUMBNAIL) for layer in layers]
        maps.draw_heads(figure.place(left, bottom, *lower), small, side, chosen)
    return figure


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
    4
    """
    values, allowed = array(weights), None if keep is None else array(keep).astype(bool)
    maps.check_shape(values, [("heads", len(values)), ("queries", len(queries)), ("keys", len(keys))])
    rows, tops = maps.labels(queries), maps.labels(keys)
    across = min(len(values), 4)
    down = -(-len(values) // across)
    cell = min(0.3, max(maps.LINE_INCHES, 2.2 / max(values.shape[1:])), 3.5 / max(values.shape[1:]))
    tall = cell * values.shape[1] + maps.columns_height(tops, cell) + 0.45
    figure = picture(across * (cell * values.shape[2] + 0.2) + rows.inches + 1.8, down * tall + 0.8)
    grid = figure.subplots(down, across, squeeze=False).ravel()
    norm = maps.norm(*values, keep=allowed, signed=legend.signed)
    for number, axes in enumerate(grid[: len(values)]):
        image = maps.draw(axes, values[number], norm, allowed)
        maps.label_columns(axes, tops, cell)
        maps.name_map(axes, f"head {number}", maps.columns_height(tops, cell))
        maps.label_rows(axes, rows if number % across == 0 else rows.blank(), cell)
    for axes in grid[len(values) :]:
        axes.remove()
    maps.name_grid(figure, legend.rows, legend.keys, title)
    maps.shared_colour_bar(figure, image, legend.quantity)
    return figure
