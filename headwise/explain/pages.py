"""One page about a model: the map of one layer, and below it all heads of all its layers as small maps."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.axes import Axes

from headwise.explain import maps
from headwise.explain.canvas import Picture, picture
from headwise.explain.figures import cell_inches, is_numbered, pooled, strongest
from headwise.explain.values import ANSWER, KEY, QUERY, SOURCE, TAG, TARGET, TOKEN, WORD, Array, array

SMALL = 1.1  # inches of a small map's side
WIDEST = 9.0  # inches of a row of small maps
SIDES = {"self": (QUERY, KEY), "cross": (TARGET, SOURCE), "pooled": (ANSWER, TOKEN), "tags": (WORD, TAG)}
GAP = 0.45  # inches between the map and what stands below it


def page(
    weights: Float[Array, "queries keys"],
    queries: Sequence[str],
    keys: Sequence[str],
    layers: Sequence[Float[Array, "heads queries keys"]],
    *,
    chosen: Sequence[tuple[int, int]] = (),
    title: str = "",
    kind: Literal["self", "cross", "pooled", "tags"] = "self",
    keep: Bool[Array, "queries keys"] | None = None,
) -> Picture:
    """A map of weights with tokens as labels, and a grid of small maps: a row for each layer, a column for each head.

    Each of the two has a colour scale of its own. A single head is not drawn twice.

    Args:
        weights: what the large map shows.
        layers: what the small maps show; one array for each layer.
        chosen: (layer, head) of the small maps that the large one is the mean of; they are framed.
        kind: "cross" if rows are of what was written and columns of what was read, "pooled" if the only row is an
            answer, "tags" if columns are tags of the rows; then the strongest of each row is framed.
        keep: True where the mask allows a weight; other cells are hatched.

    Raises:
        ShapeError: if labels and weights do not fit.

    >>> drawn = page(np.eye(2), ["va", "!"], ["go", "."], [np.ones((3, 2, 2)) / 2])
    >>> [text.get_text() for text in drawn.axes[1].get_xticklabels()]
    ['head 0', 'head 1', 'head 2']
    """
    values, kept = array(weights), None if keep is None else array(keep).astype(bool)
    maps.checked(values, [("queries", len(queries)), ("keys", len(keys))])
    rows, tops = maps.labels(queries), maps.labels(keys)
    numbered = is_numbered(values)
    cell = cell_inches(max(values.shape), numbered)
    side = min(SMALL, WIDEST / max(map(len, layers)))
    upper = cell * values.shape[1], cell * values.shape[0]
    lower = side * max(map(len, layers)), side * len(layers)
    below = GAP + 0.35 + lower[1] if sum(map(len, layers)) > 1 else 0.0
    above = maps.columns_height(tops, cell) + 0.25 + 0.2 * (title.count("\n") + 1)
    # a shared left edge, right of the labels; inches, from the lower left corner
    left, bottom = max(rows.inches, 0.6) + 0.4, 0.1
    # the colour bar may be taller than the map
    size = left + max(upper[0], lower[0]) + 0.9, above + max(upper[1], 1.3) + below + bottom
    figure = picture(*size, free=True)
    axes = _placed(figure, left, size[1] - above - upper[1], upper)
    norm = maps.norm("sqrt", maps.largest(values, kept))
    image = maps.draw(axes, values, norm, kept)
    maps.label_rows(axes, rows, cell)
    maps.label_columns(axes, tops, cell)
    if numbered:
        maps.number_cells(axes, values, norm, kept)
    maps.outline(axes, strongest(values) if kind != "self" else [])
    maps.name_axes(axes, *SIDES[kind], title)
    maps.colour_bar(axes, image, "sqrt", upper, "probability" if kind == "tags" else "attention weight")
    maps.caption(axes, values, kept)
    if below:
        _heads(_placed(figure, left, bottom, lower), [array(layer) for layer in layers], side, chosen)
    return figure


def _heads(axes: Axes, layers: list[np.ndarray], side: float, chosen: Sequence[tuple[int, int]]) -> None:
    norm = maps.norm("sqrt", max(maps.largest(layer, None) for layer in layers))
    maps.draw_small(axes, [[pooled(head) for head in layer] for layer in layers], norm)
    maps.outline(axes, chosen)
    maps.label_rows(axes, maps.labels([f"layer {number}" for number in range(len(layers))]), side)
    across = max(map(len, layers))
    maps.label_columns(axes, maps.labels([f"head {number}" for number in range(across)]), side)


def _placed(figure: Picture, left: float, bottom: float, size: tuple[float, float]) -> Axes:
    """Axes of this size at this place; all in inches."""
    width, height = figure.get_size_inches()
    return figure.add_axes((left / width, bottom / height, size[0] / width, size[1] / height))
