"""Line plots: the course of a training, and measurements with the spread of repeated ones."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from headwise.errors import DataError
from headwise.explain.canvas import Picture, picture
from headwise.explain.ramps import PALETTE

LINE_STYLES = ("-", "--", "-.", ":")
TEXT_SIZE = 9.0

# other numbers of a log (times, counts, rates) are not drawn
DRAWN = ("loss", "bleu", "chrf", "accuracy", "perplexity")
# a logarithmic axis is for at most so many numbers, the largest so many times the smallest
_WIDE = 8.0
# a plot is at least this share of its largest value high
_FLAT = 0.02
# a legend of more lines stands beside the plot
_INSIDE = 3


@dataclass(frozen=True)
class Mean:
    """Mean and spread (standard deviation, 0 of one value) of repeated measurements, and how many there were."""

    value: float
    spread: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Mean":
        """The mean of these values. Raises: DataError for none.

        >>> Mean.of([1.0, 2.0, 3.0])
        Mean(value=2.0, spread=1.0, count=3)
        """
        if not values:
            raise DataError("there is no mean of no values")
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0, len(values))

    def __str__(self) -> str:
        digits = 2 if abs(self.value) >= 10 else 4
        spread = f" ± {self.spread:.{digits}f}" if self.count > 1 else ""
        return f"{self.value:.{digits}f}{spread}"


# an int is no float to a checker of annotations
Series = Mapping[str, Sequence[tuple[float | int | str, Mean]]]


def lines(series: Series, *, across: str, down: str, title: str = "") -> Picture:
    """One line for each series over numbers, or over names side by side; bars show the spread.

    At most eight numbers, of which the largest is eight times the smallest or more, stand on a logarithmic axis.

    Args:
        across, down: names of the axes.
    Raises: DataError: nothing to draw.

    >>> drawn = lines({"rnn": [(1, Mean(0.9, 0.0, 1)), (2, Mean(0.8, 0.1, 3))]}, across="distance", down="accuracy")
    >>> drawn.axes[0].get_xlabel()
    'distance'
    """
    xs = [x for row in series.values() for x, _ in row]
    if not xs:
        raise DataError("there is nothing to draw: no measurement")
    numeric = all(not isinstance(x, str) for x in xs)
    names = list(dict.fromkeys(map(str, xs)))
    figure = picture(5.6, 3.2)
    axes = figure.subplots()
    for number, (name, row) in enumerate(series.items()):
        means = [mean for _, mean in row]
        axes.errorbar(
            [float(x) if numeric else float(names.index(str(x))) for x, _ in row],
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
    _keep_small_differences_small(axes, [mean.value for row in series.values() for _, mean in row])
    if numeric:
        _use_logarithm_if_wide(axes, sorted({float(x) for x in xs}))
    else:
        axes.set_xticks(range(len(names)), names)
    _name_axes(axes, across, down, title)
    axes.grid(visible=True, axis="y", linewidth=0.4, alpha=0.5)
    if len(series) > 1:
        legend = axes.legend(frameon=False, fontsize=TEXT_SIZE - 1)
        if len(series) > _INSIDE:
            legend.set_loc("center left")
            legend.set_bbox_to_anchor((1.0, 0.5))
    return figure


def training_curve(rows: Iterable[Mapping[str, object]], *, title: str = "") -> Picture:
    """Loss and metrics over the steps of a run, from the rows of its `metrics.jsonl`.

    Raises: DataError if no row has a step and a number.

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
        across, heading = "step" if axes is grid[-1] else "", title if axes is grid[0] else ""
        _name_axes(axes, across, "loss" if len(names) > 1 else names[0], heading)
        if len(names) > 1:
            axes.legend(frameon=False, fontsize=TEXT_SIZE - 1)
    return figure


def colour(number: int) -> str:
    """The colour of a line, distinct from those before it; after eight they repeat."""
    return PALETTE[number % len(PALETTE)]


def _name_axes(axes: Axes, across: str, down: str, title: str) -> None:
    axes.set_xlabel(across, fontsize=TEXT_SIZE)
    axes.set_ylabel(down, fontsize=TEXT_SIZE)
    axes.set_title(title, fontsize=TEXT_SIZE + 1, parse_math=False)
    axes.tick_params(labelsize=TEXT_SIZE - 1)


def _keep_small_differences_small(axes: Axes, values: list[float]) -> None:
    """Values that hardly differ do not fill the height of the plot."""
    if max(values) - min(values) < _FLAT * max(map(abs, values)):
        middle = (max(values) + min(values)) / 2
        axes.set_ylim(middle - _FLAT * abs(middle), middle + _FLAT * abs(middle))


def _use_logarithm_if_wide(axes: Axes, xs: list[float]) -> None:
    if len(xs) <= _WIDE and 0 < _WIDE * xs[0] <= xs[-1]:
        axes.set_xscale("log")
        axes.set_xticks(xs, [f"{x:g}" for x in xs])
        axes.minorticks_off()


def _series(rows: Iterable[Mapping[str, object]]) -> dict[str, list[tuple[float, float]]]:
    """The drawn numbers by name, each as (step, value) in the order of the steps; only finite ones."""
    series: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        step, metrics = row.get("step"), row.get("metrics")
        if not isinstance(step, int | float):
            continue
        valid = {f"valid {name}": value for name, value in metrics.items()} if isinstance(metrics, Mapping) else {}
        for name, value in {**row, **valid}.items():
            if name.endswith(DRAWN) and isinstance(value, int | float) and np.isfinite(value):
                series.setdefault(name, []).append((float(step), float(value)))
    return {name: sorted(points) for name, points in series.items()}
