"""The book's plots: curves and heat maps, drawn with pyplot, so that a notebook shows them by itself."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from headwise.errors import ShapeError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLES = ("-", "m--", "g-.", "r:")


def show_heatmaps(
    matrices: Float[Tensor, "rows columns queries keys"],
    xlabel: str,
    ylabel: str,
    titles: Sequence[str] | None = None,
    figsize: tuple[float, float] = (2.5, 2.5),
    cmap: str = "Reds",
) -> None:
    """Draws a grid of heat maps on one colour scale; `matplotlib.pyplot.gcf()` is the figure.

    Args:
        xlabel: under the lowest row.
        ylabel: beside the first column.
        titles: one for each column.
        figsize: inches.
    Raises:
        ShapeError: not four axes, or titles that are not one for each column.
    """
    if matrices.ndim != 4 or 0 in matrices.shape:
        raise ShapeError(
            f"matrices must be (rows, columns, queries, keys), none of them 0; got {tuple(matrices.shape)}"
        )
    values = matrices.detach().float().cpu().numpy()
    rows, columns = values.shape[:2]
    if titles is not None and len(titles) != columns:
        raise ShapeError(f"{len(titles)} titles for {columns} columns of heat maps; give one for each column")
    from matplotlib import pyplot

    figure, grid = pyplot.subplots(rows, columns, figsize=figsize, sharex=True, sharey=True, squeeze=False)
    for (row, column), axes in np.ndenumerate(grid):
        image = axes.imshow(values[row, column], cmap=cmap, vmin=values.min(), vmax=values.max())
        if row == rows - 1:
            axes.set_xlabel(xlabel)
        if column == 0:
            axes.set_ylabel(ylabel)
        if titles is not None:
            axes.set_title(titles[column])
    figure.colorbar(image, ax=grid, shrink=0.6)


def plot(
    X: Any,
    Y: Any = None,
    xlabel: str | None = None,
    ylabel: str | None = None,
    legend: Sequence[str] | None = None,
    xlim: Sequence[float] | None = None,
    ylim: Sequence[float] | None = None,
    figsize: tuple[float, float] = (3.5, 2.5),
) -> None:
    """Draws curves, in four styles by turns; `matplotlib.pyplot.gcf()` is the figure.

    Args:
        X: where the points are, for all curves; or, without Y, the curves themselves.
        Y: a curve, or several: a sequence of curves, or a matrix with a curve in each row.
        legend: a name for each curve.
        figsize: inches.
    """
    from matplotlib import pyplot

    curves = _curves(X if Y is None else Y)
    _, axes = pyplot.subplots(figsize=figsize)
    for number, curve in enumerate(curves):
        points = np.arange(len(curve)) if Y is None else _array(X)
        axes.plot(points, curve, STYLES[number % len(STYLES)])
    _dress(axes, xlabel=xlabel, ylabel=ylabel, xlim=xlim, ylim=ylim)
    if legend:
        axes.legend(legend)
    axes.grid()


def _curves(values: Any) -> list[np.ndarray]:
    if isinstance(values, Sequence) and values and not np.isscalar(values[0]):
        return [_array(curve) for curve in values]
    return list(np.atleast_2d(_array(values)))


def _array(values: Any) -> np.ndarray:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def _dress(axes: "Axes", **settings: Any) -> None:
    axes.set(**{name: value for name, value in settings.items() if value is not None})
