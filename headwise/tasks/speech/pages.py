"""One page about a recording: its spectrogram, and below it, over the same seconds, what is looked at."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from headwise.errors import ShapeError
from headwise.explain import maps
from headwise.explain.canvas import PAGE, SMALL, TEXT, Picture, picture
from headwise.tasks.speech.marks import Mark

HEIGHT = 1.2  # inches of the spectrogram
ROW = 0.2  # inches of a query
STRIP = 0.2  # inches of the labels in time
_SHADES = ("#d9e2f1", "#f3f5f9")


def sound_page(
    spectrogram: Float[np.ndarray, "bands frames"],
    seconds: float,
    weights: Float[np.ndarray, "queries places"],
    labels: Sequence[str],
    *,
    title: str = "",
    marks: Sequence[Mark] = (),
) -> Picture:
    """The spectrogram, the lowest band at the bottom, labels in time below it, and a row of weights for each query.

    Args:
        seconds: how long the recording is.
        weights: how much each query looks at each place; places share the seconds evenly.
        labels: of the queries.
        marks: labels in time; a label is written where its stretch is wide enough.

    Raises: ShapeError: if there is no place or no query.

    >>> drawn = sound_page(np.zeros((4, 9)), 0.09, np.eye(3), ["a", "b", "c"])
    >>> [axes.get_ylabel() for axes in drawn.axes[:2]]
    ['mel band', '']
    """
    if not weights.size:
        raise ShapeError(f"nothing to draw: weights of shape {weights.shape}")
    rows = maps.labels(list(labels))
    below, between = max(ROW * len(weights), 0.3), STRIP if marks else 0.0
    left = max(rows.inches, 0.3) + 0.35
    width = PAGE - left - maps.BAR_INCHES
    figure = picture(PAGE, 0.45 + below + 0.08 + between + HEIGHT + 0.08 + maps.title_height(title), free=True)
    boxes = [(left, below + between + 0.53, width, HEIGHT), (left, 0.45, width, below)]
    boxes += [(left, below + 0.49, width, between)] if marks else []
    upper, lower, *strip = (figure.place(*box) for box in boxes)
    for axes in strip:
        _draw_marks(axes, marks, seconds, width)
    upper.imshow(spectrogram, origin="lower", aspect="auto", cmap="gray_r", extent=(0, seconds, 0, len(spectrogram)))
    upper.set_xticks([])
    upper.set_ylabel("mel band", fontsize=TEXT)
    upper.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    image = maps.draw(lower, weights, maps.norm(weights))
    image.set_extent((0, seconds, len(weights) - 0.5, -0.5))
    lower.set_aspect("auto")
    lower.set_xlim(0, seconds)
    lower.set_ylim(len(weights) - 0.5, -0.5)
    lower.xaxis.set_major_locator(MaxNLocator(nbins=8))
    lower.set_yticks(range(len(weights)), rows.texts, fontfamily=rows.fonts)
    for axes in (upper, lower):
        axes.tick_params(labelsize=SMALL, width=0.6, length=2.5)
        for spine in axes.spines.values():
            spine.set_edgecolor(maps.EDGE)
    lower.set_xlabel("time, s", fontsize=TEXT)
    maps.colour_bar(lower if below > HEIGHT else upper, image, (width, max(below, HEIGHT)))
    maps.name_page(figure, title)
    return figure


def _draw_marks(axes: Axes, marks: Sequence[Mark], seconds: float, width: float) -> None:
    """A strip of stretches in turns of two shades, each with its label."""
    labels = maps.labels([mark.label for mark in marks])
    for number, (mark, text) in enumerate(zip(marks, labels.texts, strict=True)):
        axes.axvspan(mark.start, mark.end, facecolor=_SHADES[number % 2], edgecolor="#b8bcc6", linewidth=0.4)
        if maps.Labels([text], labels.fonts).inches < (mark.end - mark.start) / seconds * width:
            middle = (mark.start + mark.end) / 2
            axes.text(
                middle,
                0.5,
                text,
                ha="center",
                va="center",
                fontsize=SMALL,
                fontfamily=labels.fonts,
                clip_on=True,
            )
    axes.set_xlim(0, seconds)
    axes.set_ylim(0, 1)
    axes.set_xticks([])
    axes.set_yticks([])
