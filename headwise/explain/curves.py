"""Pictures that are not of attention weights: the course of a training, and position encodings."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from headwise.errors import DataError, ShapeError
from headwise.explain.canvas import Picture, picture
from headwise.explain.ramps import PALETTE, colormap
from headwise.explain.values import Array, array

LINE_STYLES = ("-", "--", "-.", ":")
TEXT_SIZE = 9.0

# what a log has besides (times, counts, rates) is not drawn
DRAWN = ("loss", "bleu", "chrf", "accuracy", "perplexity")


def positions(matrix: Float[Array, "positions width"], *, title: str = "") -> Picture:
    """Position encodings as a heat map: one row for each position, one column for each dimension; zero is the page.

    >>> positions(np.eye(3)).axes[0].get_xlabel()
    'Column (encoding dimension)'
    """
    values = array(matrix)
    height = float(np.clip(0.1 * values.shape[0], 3.0, 9.0))
    figure = picture(float(np.clip(0.13 * values.shape[1], 3.0, 9.0)) + 1.5, height)
    axes = figure.subplots()
    limit = float(np.abs(values).max(initial=0.0)) or 1.0
    ramp = colormap("diverging")
    image = axes.imshow(values, cmap=ramp, vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
    named(axes, "Column (encoding dimension)", "Row (position)", title)
    figure.colorbar(image, ax=axes, label="value", aspect=30)
    return figure


def position_curves(
    matrix: Float[Array, "positions width"], *, columns: Sequence[int] = (6, 7, 8, 9), title: str = ""
) -> Picture:
    """Some columns of position encodings as curves over the position, told apart by line style and colour.

    Raises:
        ShapeError: for a column that the matrix does not have.

    >>> [line.get_label() for line in position_curves(np.zeros((60, 32))).axes[0].lines]
    ['Col 6', 'Col 7', 'Col 8', 'Col 9']
    """
    values = array(matrix)
    for column in columns:
        if not 0 <= column < values.shape[1]:
            raise ShapeError(f"column {column} is not in 0..{values.shape[1] - 1}, the columns of the encoding")
    figure = picture(6.0, 2.6)
    axes = figure.subplots()
    for number, column in enumerate(columns):
        style = LINE_STYLES[number % len(LINE_STYLES)]
        axes.plot(values[:, column], style, color=colour(number), label=f"Col {column}", linewidth=1.4)
    axes.set_xlim(0, max(len(values) - 1, 1))
    named(axes, "Row (position)", "value", title)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=TEXT_SIZE - 1)
    return figure


def training_curve(rows: Iterable[Mapping[str, object]], *, title: str = "") -> Picture:
    """Loss and scores over the steps of a run, from the rows of its `metrics.jsonl`.

    Raises:
        DataError: if no row has a step and a number.

    >>> training_curve([{"step": 1, "loss": 5.0}, {"step": 2, "metrics": {"bleu": 3.0}}]).axes[1].get_ylabel()
    'valid bleu'
    """
    series = _series(rows)
    if not series:
        raise DataError("no row has a `step` and a number besides; is this the metrics.jsonl of a run?")
    losses = [name for name in series if name.endswith("loss")]
    panels = [losses] * bool(losses) + [[name] for name in series if name not in losses]
    figure = picture(6.5, 1.0 + 1.7 * len(panels))
    grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, names in zip(grid, panels, strict=True):
        for number, name in enumerate(names):
            steps, values = zip(*series[name], strict=True)
            marker = "o" if len(steps) < 40 else ""
            axes.plot(steps, values, marker=marker, markersize=3, color=colour(number), label=name, linewidth=1.2)
        named(axes, "", "loss" if len(names) > 1 else names[0], "")
        if len(names) > 1:
            axes.legend(frameon=False, fontsize=TEXT_SIZE - 1)
    named(grid[-1], "step", grid[-1].get_ylabel(), "")
    named(grid[0], grid[0].get_xlabel(), grid[0].get_ylabel(), title)
    return figure


def colour(number: int) -> str:
    """The colour of a line, easily told from those before it; after eight they repeat."""
    return PALETTE[number % len(PALETTE)]


def named(axes: Axes, across: str, down: str, title: str) -> None:
    """Puts the names of the axes and a title, in the type sizes of all curves."""
    axes.set_xlabel(across, fontsize=TEXT_SIZE)
    axes.set_ylabel(down, fontsize=TEXT_SIZE)
    axes.set_title(title, fontsize=TEXT_SIZE + 1, parse_math=False)
    axes.tick_params(labelsize=TEXT_SIZE - 1)


def _series(rows: Iterable[Mapping[str, object]]) -> dict[str, list[tuple[float, float]]]:
    """Each of the drawn numbers as (step, value) in the order of the steps; what is not finite is left out."""
    series: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        step = row.get("step")
        if not isinstance(step, int | float):
            continue
        for name, value in _numbers(row):
            if name.endswith(DRAWN) and isinstance(value, int | float) and np.isfinite(value):
                series.setdefault(name, []).append((float(step), float(value)))
    return {name: sorted(points) for name, points in series.items()}


def _numbers(row: Mapping[str, object]) -> Iterable[tuple[str, object]]:
    yield from row.items()
    metrics = row.get("metrics")
    if isinstance(metrics, Mapping):
        yield from ((f"valid {name}", value) for name, value in metrics.items())
