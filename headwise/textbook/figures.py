"""The book's plots: curves, heat maps and curves that grow, by pyplot, so that a notebook shows them by itself."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from headwise.errors import ShapeError
from headwise.textbook.training import as_number

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
        figsize: inches.
    Raises: ShapeError: not four axes, or titles that are not one for each column.
    """
    if matrices.ndim != 4 or 0 in matrices.shape:
        raise ShapeError(
            f"matrices must be (rows, columns, queries, keys), none of them 0; got {tuple(matrices.shape)}"
        )
    values = matrices.detach().float().cpu().numpy()
    rows, columns = values.shape[:2]
    if titles is not None and len(titles) != columns:
        raise ShapeError(f"{len(titles)} titles for {columns} columns of heat maps; give one for each column")
    figure, grid = pyplot().subplots(rows, columns, figsize=figsize, sharex=True, sharey=True, squeeze=False)
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
    xscale: str = "linear",
    yscale: str = "linear",
    fmts: Sequence[str] = STYLES,
    figsize: tuple[float, float] = (3.5, 2.5),
    axes: "Axes | None" = None,
) -> None:
    """Draws curves; `d2l.plt` draws into the same figure afterwards, and `d2l.plt.gcf()` is the figure.

    Args:
        X: where the points are, for all curves; or, without Y, the curves themselves.
        Y: a curve, or several: a sequence of curves, or a matrix with a curve in each row.
        legend: a name for each curve.
        fmts: colour and style of the curves, by turns.
        figsize: inches.
        axes: cleared and drawn into; None: a new figure.
    """
    curves = _curves(X if Y is None else Y)
    if axes is None:
        _, axes = pyplot().subplots(figsize=figsize)
    axes.cla()
    for number, curve in enumerate(curves):
        points = np.arange(len(curve)) if Y is None else _array(X)
        axes.plot(points, curve, fmts[number % len(fmts)])
    set_axes(axes, xlabel, ylabel, xlim, ylim, xscale, yscale, legend)


def set_axes(
    axes: "Axes",
    xlabel: str | None,
    ylabel: str | None,
    xlim: Sequence[float] | None,
    ylim: Sequence[float] | None,
    xscale: str,
    yscale: str,
    legend: Sequence[str] | None,
) -> None:
    """Labels, limits, scales ("linear", "log") and legend of axes, and a grid; None: as they are."""
    settings = {"xlabel": xlabel, "ylabel": ylabel, "xscale": xscale, "yscale": yscale, "xlim": xlim, "ylim": ylim}
    axes.set(**{name: value for name, value in settings.items() if value is not None})
    if legend:
        axes.legend(legend)
    axes.grid()


def set_figsize(figsize: tuple[float, float] = (3.5, 2.5)) -> None:
    """The size of the figures that are made from now on, in inches."""
    pyplot().rcParams["figure.figsize"] = figsize


def use_svg_display() -> None:
    """Figures are shown as SVG in a notebook; elsewhere this does nothing."""
    if (shell := _notebook()) is not None:
        shell.run_line_magic("config", "InlineBackend.figure_formats = ['svg']")


def show_list_len_pair_hist(
    legend: Sequence[str], xlabel: str, ylabel: str, xlist: Sequence[Sequence[Any]], ylist: Sequence[Sequence[Any]]
) -> None:
    """Draws a histogram of the lengths of lists, for two lists of lists side by side."""
    _, axes = pyplot().subplots(figsize=(3.5, 2.5))
    _, _, bars = axes.hist([[len(row) for row in lists] for lists in (xlist, ylist)])
    axes.set(xlabel=xlabel, ylabel=ylabel)
    for bar in bars[1].patches:
        bar.set_hatch("/")
    axes.legend(legend)


class Animator:
    """Curves that grow point by point: a notebook shows them again at each point, a script has one figure.

    Args:
        legend, xlim, ylim, xscale, yscale, fmts: as in `plot`.
        nrows, ncols: of a grid of axes; the curves are in the first.
        figsize: inches.

    >>> animator = Animator(xlabel="epoch", ylabel="loss", xlim=[1, 5], legend=["train", "valid"])
    >>> animator.add(1, (0.9, None))
    >>> animator.add(2, (0.5, 0.7))
    >>> [line.get_xydata().tolist() for line in animator.axes[0].lines]
    [[[1.0, 0.9], [2.0, 0.5]], [[2.0, 0.7]]]
    """

    def __init__(
        self,
        xlabel: str | None = None,
        ylabel: str | None = None,
        legend: Sequence[str] | None = None,
        xlim: Sequence[float] | None = None,
        ylim: Sequence[float] | None = None,
        xscale: str = "linear",
        yscale: str = "linear",
        fmts: Sequence[str] = STYLES,
        nrows: int = 1,
        ncols: int = 1,
        figsize: tuple[float, float] = (3.5, 2.5),
    ):
        self.fig, grid = pyplot().subplots(nrows, ncols, figsize=figsize, squeeze=False)
        self.axes = list(grid.flat)
        self.fmts = fmts
        self._axes_settings = xlabel, ylabel, xlim, ylim, xscale, yscale, legend
        self._points: list[list[tuple[float, float]]] = []

    def add(self, x: Any, y: Any) -> None:
        """Adds a point to each curve and draws.

        Args:
            x: one for all curves, or one for each.
            y: a number, or one for each curve; None adds nothing to its curve.
        """
        ys = list(y) if np.ndim(y) else [y]
        xs = list(x) if np.ndim(x) else [x] * len(ys)
        self._points += [[] for _ in range(len(ys) - len(self._points))]
        for points, px, py in zip(self._points, xs, ys, strict=False):
            if px is not None and py is not None:
                points.append((as_number(px), as_number(py)))
        axes = self.axes[0]
        axes.cla()
        for number, points in enumerate(self._points):
            axes.plot(*(np.array(points).reshape(-1, 2).T), self.fmts[number % len(self.fmts)])
        set_axes(axes, *self._axes_settings)
        if (shell := _notebook()) is not None:
            shell.display_pub.clear_output(wait=True)
            sys.modules["IPython.display"].display(self.fig)


def _curves(values: Any) -> list[np.ndarray]:
    if isinstance(values, Sequence) and values and not np.isscalar(values[0]):
        return [_array(curve) for curve in values]
    return list(np.atleast_2d(_array(values)))


def _array(values: Any) -> np.ndarray:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def pyplot() -> Any:
    """`matplotlib.pyplot`, loaded when something is drawn."""
    from matplotlib import pyplot as module

    return module


def _notebook() -> Any:
    """The shell of the notebook that this runs in; None in a script or a terminal."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell if getattr(shell, "kernel", None) is not None else None
