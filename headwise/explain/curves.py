"""Line plots: the course of a training, and measurements with the interval over repeated ones."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from headwise.errors import DataError
from headwise.explain import fonts
from headwise.explain.canvas import COLUMN, SMALL, SOFT, TEXT, Picture, picture
from headwise.explain.ramps import LINES
from headwise.labels import columns, literal, shorten, visible

LINE_STYLES = ("-", "--", "-.", ":")

# what keys of recipes, scores of `evaluate` and statistics of heads are called along an axis
_WORDS = {
    "num_heads": "number of heads",
    "num_kv_heads": "number of key and value heads",
    "num_layers": "number of layers",
    "encoder_layers": "encoder layers",
    "decoder_layers": "decoder layers",
    "d_model": "width of the vectors",
    "d_ff": "width of the feed-forward layers",
    "mechanism": "attention mechanism",
    "position": "position scheme",
    "normalizer": "normalizer of the scores",
    "score": "attention score",
    "limit": "training examples",
    "learning_rate": "learning rate",
    "label_smoothing": "label smoothing",
    "max_steps": "training steps",
    "max_epochs": "training epochs",
    "batch_tokens": "tokens in a batch",
    "vocab_size": "size of the vocabulary",
    "bleu": "BLEU",
    "chrf": "chrF",
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougeL": "ROUGE-L",
    "wer": "word error rate, %",
    "cer": "character error rate, %",
    "accuracy": "accuracy, %",
    "accuracy_seen": "accuracy on words of training, %",
    "accuracy_unseen": "accuracy on other words, %",
    "pixel_accuracy": "accuracy of pixels, %",
    "exact": "exact answers, %",
    "macro_f1": "macro F1, %",
    "mean_iou": "mean IoU, %",
    "auc": "AUC, %",
    "loss": "loss, nats",
    "perplexity": "perplexity",
    "word_perplexity": "perplexity of words",
    "bits_per_char": "bits per character",
    "mae": "mean absolute error",
    "rmse": "root mean square error",
    "mse": "mean square error",
    "r2": "R²",
    "distance": "mean distance, tokens",
    "entropy": "entropy, share of the largest",
    "diagonal": "weight of the own position",
    "first": "weight of the first key",
    "redundancy": "similarity to other heads",
}
# scores that `evaluate` gives as shares of 1, not in percent
_SHARES = {
    *("accuracy", "accuracy_seen", "accuracy_unseen", "pixel_accuracy", "exact", "macro_f1", "mean_iou", "auc"),
}
# other numbers of a log (times, counts, rates) are not drawn
DRAWN = ("loss", "bleu", "chrf", "accuracy", "perplexity")
# a logarithmic axis is for at most so many numbers, the largest so many times the smallest
_WIDE = 8.0
# a plot is at least this share of its largest value high
_FLAT = 0.02
_HEIGHT = 1.9  # inches of a plot over numbers
_ROW = 0.3  # inches of a name beside a plot
_LINE = 0.16  # inches of a line of a legend
_LETTER = 0.068  # inches of a column of text of a legend or a tick
_LONGEST = 32  # columns of a name


def half_width(error: float, freedom: int, level: float = 0.95) -> float:
    """Half an interval around what has this standard error, by Student's t with so many degrees of freedom.

    >>> round(half_width(1.0, 2), 3)
    4.303
    """
    # scipy takes longer to import than a plot to draw
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + level) / 2)) * error


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

    @property
    def interval(self) -> float:
        """Half the 95 % interval of the mean, by Student's t; 0 of one value, which has none.

        >>> round(Mean.of([1.0, 2.0, 3.0]).interval, 3)
        2.484
        """
        return half_width(self.spread / self.count**0.5, self.count - 1) if self.count > 1 else 0.0

    def __str__(self) -> str:
        digits = 2 if abs(self.value) >= 10 else 4
        spread = f" ± {self.spread:.{digits}f}" if self.count > 1 else ""
        return f"{self.value:.{digits}f}{spread}"


# an int is no float to a checker of annotations
Series = Mapping[str, Sequence[tuple[float | int | str, Mean]]]


def axis_name(key: str) -> str:
    """What a key of a recipe, a score or a statistic is called along an axis; as it stands where it has no words.

    >>> axis_name("model.num_heads"), axis_name("wer"), axis_name("decoding.beam")
    ('number of heads', 'word error rate, %', 'decoding.beam')
    """
    return _WORDS.get(key.rpartition(".")[2], key)


def lines(series: Series, *, across: str, down: str, title: str = "") -> Picture:
    """One line for each series over numbers, or over names side by side; bars are 95 % intervals of the means.

    At most eight numbers, of which the largest is eight times the smallest or more, stand on a logarithmic axis.

    Args:
        across, down: names of the axes, as for `axis_name`; shares of 1 are drawn in percent.
    Raises: DataError: nothing to draw.

    >>> drawn = lines({"rnn": [(1, Mean(0.9, 0.0, 1)), (2, Mean(0.8, 0.1, 3))]}, across="num_heads", down="accuracy")
    >>> drawn.axes[0].get_xlabel(), [text.get_text() for text in drawn.legends[0].get_texts()]
    ('number of heads', ['95 % interval over 3 seeds'])
    """
    xs = [x for row in series.values() for x, _ in row]
    if not xs:
        raise DataError("there is nothing to draw: no measurement")
    numeric = all(not isinstance(x, str) for x in xs)
    names = list(dict.fromkeys(map(str, xs)))
    figure = picture(COLUMN, _HEIGHT if numeric else max(1.2, 0.6 + _ROW * len(names)))
    axes = figure.subplots()
    for number, (name, row) in enumerate(series.items()):
        means = [mean for _, mean in row]
        values, reach = [mean.value for mean in means], [mean.interval for mean in means]
        bars = reach if any(mean.count > 1 for mean in means) else None
        how: dict[str, Any] = {"markersize": 3, "capsize": 2.5, "linewidth": 1.2, "label": name}
        how["color"] = colour(number)
        if numeric:
            style = LINE_STYLES[number % len(LINE_STYLES)]
            axes.errorbar([float(x) for x, _ in row], values, yerr=bars, fmt=f"o{style}", **how)
        else:
            # those of one name beside each other, between it and the next
            aside = 0.5 * ((number + 0.5) / len(series) - 0.5)
            axes.errorbar(values, [names.index(str(x)) + aside for x, _ in row], xerr=bars, fmt="o", **how)
    _keep_small_differences_small(axes, [mean.value for row in series.values() for _, mean in row], numeric)
    if numeric:
        _use_logarithm_if_wide(axes, sorted({float(x) for x in xs}))
        name_axes(axes, across, down)
    else:
        texts = [shorten(visible(name), _LONGEST) for name in names]
        axes.set_yticks(range(len(names)), list(map(literal, texts)), fontfamily=fonts.families(texts))
        axes.set_ylim(len(names) - 0.5, -0.5)
        name_axes(axes, down, across)
    axes.grid(visible=True, axis="y" if numeric else "x", linewidth=0.4, alpha=0.5)
    marks, texts = (axes.get_legend_handles_labels()[0], list(series)) if len(series) > 1 else ([], [])
    if counts := sorted({mean.count for row in series.values() for _, mean in row} - {1}):
        many = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
        marks.append(Line2D([], [], color=SOFT, marker="|", markersize=5, linewidth=1.2))
        texts.append(f"95 % interval over {many} seeds")
    legend(figure, marks, texts, title)
    return figure


def training_curve(rows: Iterable[Mapping[str, object]], *, title: str = "") -> Picture:
    """Loss and metrics over the steps of a run, from the rows of its `metrics.jsonl`.

    Raises: DataError if no row has a step and a number.

    >>> training_curve([{"step": 1, "loss": 5.0}, {"step": 2, "metrics": {"bleu": 3.0}}]).axes[1].get_ylabel()
    'BLEU'
    """
    series = _series(rows)
    if not series:
        raise DataError("no row has a `step` and a number besides; is this the metrics.jsonl of a run?")
    names = list(dict.fromkeys(metric for metric, _ in series))
    figure = picture(COLUMN, 0.4 + 1.15 * len(names))
    grid = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    parts = "training", "validation"
    for axes, metric in zip(grid, names, strict=True):
        for number, part in enumerate(parts):
            if points := series.get((metric, part)):
                steps, values = zip(*points, strict=True)
                marker = "o" if len(steps) < 40 else ""
                axes.plot(steps, values, marker=marker, markersize=2.5, color=colour(number), label=part, linewidth=1.1)
        name_axes(axes, "step" if axes is grid[-1] else "", metric)
    marks = {label: mark for axes in grid for mark, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    legend(figure, list(marks.values()), list(marks), title)
    return figure


def colour(number: int) -> str:
    """The colour of a line, distinct from those before it; after eight they repeat."""
    return LINES["light"][number % len(LINES["light"])]


def name_axes(axes: Axes, across: str, down: str) -> None:
    """Writes what both axes show, as `axis_name` has it, in the style of all plots; shares are in percent."""
    axes.set_xlabel(axis_name(across), fontsize=TEXT)
    axes.set_ylabel(axis_name(down), fontsize=TEXT)
    axes.tick_params(labelsize=SMALL, width=0.6, length=2.5)
    for name, axis in ((across, axes.xaxis), (down, axes.yaxis)):
        if name in _SHARES:
            axis.set_major_formatter(PercentFormatter(1.0, symbol=""))
            # intervals of few values reach beyond what a share can be
            low, high = axis.get_view_interval()
            axis.set_view_interval(max(low, -0.02), min(high, 1.02), ignore=True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def legend(figure: Picture, marks: list[Any], texts: list[str], title: str) -> None:
    """Title and legend above the plots, which keep their height; as many names side by side as fit."""
    width, height = figure.get_size_inches()
    texts, title = [shorten(visible(text), _LONGEST) for text in texts], "\n".join(map(visible, title.split("\n")))
    if not marks:
        figure.suptitle(title, fontsize=TEXT, parse_math=False)
        return
    across = max(1, int(width / (_LETTER * max(map(columns, texts)) + 0.55)))
    figure.set_figheight(height + _LINE * (-(-len(texts) // across) + (title.count("\n") + 1 if title else 0)))
    figure.legend(
        marks,
        list(map(literal, texts)),
        loc="outside upper left",
        ncols=across,
        frameon=False,
        prop={"size": SMALL, "family": fonts.families(texts)},
        title=literal(title),
        title_fontsize=TEXT,
        alignment="left",
    )


def _keep_small_differences_small(axes: Axes, values: list[float], upright: bool) -> None:
    """Values that hardly differ do not fill the plot."""
    if max(values) - min(values) < _FLAT * max(map(abs, values)):
        middle = (max(values) + min(values)) / 2
        limits = middle - _FLAT * abs(middle), middle + _FLAT * abs(middle)
        axes.set_ylim(*limits) if upright else axes.set_xlim(*limits)


def _use_logarithm_if_wide(axes: Axes, xs: list[float]) -> None:
    if len(xs) <= _WIDE and 0 < _WIDE * xs[0] <= xs[-1]:
        axes.set_xscale("log")
        axes.set_xticks(xs, [_tick(x) for x in xs])
        axes.minorticks_off()


def _tick(x: float) -> str:
    """A number below an axis; means, such as 13.39 places, with two digits, so that neighbours do not touch."""
    return f"{x:g}" if x < 1 or x == int(x) else f"{x:.1f}" if x < 10 else f"{x:.0f}"


def _series(rows: Iterable[Mapping[str, object]]) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """The drawn numbers by name and part of the data, each as (step, value) in the order of the steps; finite ones."""
    series: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in rows:
        step, metrics = row.get("step"), row.get("metrics")
        if not isinstance(step, int | float):
            continue
        valid = metrics.items() if isinstance(metrics, Mapping) else ()
        numbers = [(name, "training", value) for name, value in row.items()]
        numbers += [(name, "validation", value) for name, value in valid]
        for name, part, value in numbers:
            if name.endswith(DRAWN) and isinstance(value, int | float) and np.isfinite(value):
                series.setdefault((name, part), []).append((float(step), float(value)))
    return {name: sorted(points) for name, points in series.items()}
