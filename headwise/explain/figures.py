"""Pictures of attention: one map, the heads of a layer, all layers and heads, an alignment.

Rows are queries ("attends from"), columns are keys ("attends to"), in every figure.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from headwise.explain import maps
from headwise.explain.canvas import Picture, picture
from headwise.explain.values import KEY, QUERY, SOURCE, TARGET, Array, array

LARGEST = 10.0  # inches of a map's longer side
NUMBERED = 150  # cells that are still written as numbers
THUMBNAIL = 48  # cells along a side of a small map; a longer side is pooled


def heatmap(
    weights: Float[Array, "queries keys"],
    queries: Sequence[str],
    keys: Sequence[str],
    *,
    title: str = "",
    scale: maps.Scale = "sqrt",
    keep: Bool[Array, "queries keys"] | None = None,
    annotate: bool | None = None,
    maximum: float | None = None,
) -> Picture:
    """One map of weights, with tokens as labels; zero is the page colour.

    Args:
        weights: one head, or a mean of heads.
        queries: a label for each row.
        keys: a label for each column.
        scale: how a weight becomes a colour; "log" starts at 1e-4.
        keep: True where the mask allows a weight; other cells are hatched.
        annotate: write the weights into the cells; by itself only where there are few.
        maximum: the weight at the dark end of the ramp; by itself the largest one shown.

    Raises:
        ShapeError: if labels and weights do not fit.

    >>> heatmap(np.eye(2), ["chez", "moi"], ["i", "home"], title="cross-attention").axes[0].get_title()
    'cross-attention'
    """
    values, kept = array(weights), _kept(keep)
    maps.checked(values, [("queries", len(queries)), ("keys", len(keys))])
    rows, tops = maps.labels(queries), maps.labels(keys)
    numbered = is_numbered(values) if annotate is None else annotate
    cell = cell_inches(max(values.shape), numbered)
    width, height = cell * values.shape[1], cell * values.shape[0]
    figure = picture(width + rows.inches + 1.8, max(height, 1.3) + maps.columns_height(tops, cell) + 1.1)
    axes = figure.subplots()
    norm = maps.norm(scale, maximum or maps.largest(values, kept))
    image = maps.draw(axes, values, norm, kept)
    maps.label_rows(axes, rows, cell)
    maps.label_columns(axes, tops, cell)
    if numbered:
        maps.number_cells(axes, values, norm, kept)
    maps.name_axes(axes, QUERY, KEY, title)
    maps.colour_bar(axes, image, scale, (width, height))
    maps.caption(axes, values, kept)
    return figure


def alignment(
    weights: Float[Array, "targets sources"],
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    *,
    title: str = "",
    scale: maps.Scale = "sqrt",
) -> Picture:
    """Cross-attention of a translation; the strongest source token of each target token is framed.

    >>> alignment(np.eye(2), ["go", "."], ["va", "!"]).axes[0].get_ylabel()
    'target token (attends from)'
    """
    values = array(weights)
    figure = heatmap(values, target_tokens, source_tokens, title=title, scale=scale)
    axes = figure.axes[0]
    maps.outline(axes, strongest(values))
    maps.name_axes(axes, TARGET, SOURCE, title)
    return figure


def heads(
    weights: Float[Array, "heads queries keys"],
    queries: Sequence[str],
    keys: Sequence[str],
    *,
    title: str = "",
    scale: maps.Scale = "sqrt",
    keep: Bool[Array, "queries keys"] | None = None,
    names: Sequence[str] | None = None,
) -> Picture:
    """A grid with one map for each head; all share one colour scale, so they can be compared.

    Args:
        names: what to write above each map; by itself "head 0", "head 1", ...
        queries, keys, scale, keep: as in `heatmap`.

    >>> len(heads(np.ones((3, 2, 2)) / 2, ["a", "b"], ["a", "b"]).axes)
    4
    """
    values, kept = array(weights), _kept(keep)
    titles = [f"head {i}" for i in range(len(values))] if names is None else names
    maps.checked(values, [("heads", len(titles)), ("queries", len(queries)), ("keys", len(keys))])
    rows, tops = maps.labels(queries), maps.labels(keys)
    across = min(len(values), 4)
    down = -(-len(values) // across)
    cell = min(0.3, max(maps.LINE_INCHES, 2.2 / max(values.shape[1:])), 3.5 / max(values.shape[1:]))
    tall = cell * values.shape[1] + maps.columns_height(tops, cell) + 0.45
    figure = picture(across * (cell * values.shape[2] + 0.2) + rows.inches + 1.8, down * tall + 0.8)
    grid = figure.subplots(down, across, squeeze=False).ravel()
    norm = maps.norm(scale, max(maps.largest(head, kept) for head in values))
    for number, axes in enumerate(grid[: len(values)]):
        image = maps.draw(axes, values[number], norm, kept)
        maps.label_columns(axes, tops, cell)
        maps.name_map(axes, titles[number], maps.columns_height(tops, cell))
        maps.label_rows(axes, rows if number % across == 0 else rows.blank(), cell)
    for axes in grid[len(values) :]:
        axes.remove()
    maps.name_grid(figure, QUERY, KEY, title)
    maps.shared_colour_bar(figure, image, scale)
    return figure


def layers_heads(
    weights: Sequence[Float[Array, "heads queries keys"]],
    *,
    title: str = "",
    scale: maps.Scale = "sqrt",
    names: Sequence[str] | None = None,
) -> Picture:
    """All heads of all layers as small maps: rows are layers, columns are heads; one colour scale for all.

    A map of more than 48 rows or columns is pooled by its maximum, so that a single strong link is never averaged
    away; the title says so.

    Args:
        weights: one array for each layer; the layers may differ in the number of heads.
        names: a label for each layer; by itself "layer 0", "layer 1", ...
        title, scale: as in `heatmap`.

    >>> layers_heads([np.ones((3, 2, 2)) / 2] * 5).axes[0].get_xticklabels()[2].get_text()
    'head 2'
    """
    layers = [array(layer) for layer in weights]
    rows = maps.labels([f"layer {i}" for i in range(len(layers))] if names is None else names)
    maps.checked(np.empty(len(layers)), [("layers", len(rows.texts))])
    across = max(len(layer) for layer in layers)
    columns = maps.labels([f"head {i}" for i in range(across)])
    inches = min(1.1, LARGEST / max(len(layers), across))
    figure = picture(across * inches + rows.inches + 1.8, max(len(layers) * inches, 1.3) + 1.2)
    axes = figure.subplots()
    norm = maps.norm(scale, max(maps.largest(layer, None) for layer in layers))
    image = maps.draw_small(axes, [[pooled(head) for head in layer] for layer in layers], norm)
    maps.label_rows(axes, rows, inches)
    maps.label_columns(axes, columns, inches)
    sides = sorted({side for layer in layers for side in layer.shape[1:] if side > THUMBNAIL})
    notes = [f"{side}→{-(-side // -(-side // THUMBNAIL))} max" for side in sides]
    maps.name_axes(axes, "", "", ", ".join([title, *notes]) if title else ", ".join(notes))
    maps.colour_bar(axes, image, scale, (across * inches, len(layers) * inches))
    return figure


def strongest(values: np.ndarray) -> list[tuple[int, int]]:
    """The cell (row, column) of the largest weight of each row."""
    return [(row, int(column)) for row, column in enumerate(values.argmax(axis=1))]


def is_numbered(values: np.ndarray) -> bool:
    """Whether a map has so few cells that each is written as a number too."""
    return values.size <= NUMBERED


def cell_inches(longest: int, numbered: bool) -> float:
    """Side of a cell in inches: room for a number, else for a line of text, else what a page leaves."""
    return min(0.38 if numbered else max(maps.LINE_INCHES * 1.2, 4.0 / longest), LARGEST / longest)


def pooled(head: np.ndarray) -> np.ndarray:
    """The largest weight of each block, such that no side is longer than a thumbnail."""
    for axis in (0, 1):
        block = -(-head.shape[axis] // THUMBNAIL)
        head = np.maximum.reduceat(head, np.arange(0, head.shape[axis], block), axis=axis)
    return head


def _kept(keep: Array | None) -> np.ndarray | None:
    return None if keep is None else array(keep).astype(bool)
