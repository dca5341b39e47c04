"""One page about a forecast: the numbers of a series, and below them, over the same steps, what is looked at."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

from headwise.errors import ShapeError
from headwise.explain import maps
from headwise.explain.canvas import PAGE, SMALL, TEXT, Picture, picture
from headwise.explain.curves import colour

HEIGHT = 1.1  # inches of the numbers of a column
ROW = 0.17  # inches of a query
PANELS = 4  # columns that are drawn


def series_page(
    names: Sequence[str],
    past: Float[np.ndarray, "length targets"],
    ahead: Float[np.ndarray, "horizon targets"],
    truth: Float[np.ndarray, "horizon targets"] | None,
    weights: Float[np.ndarray, "queries places"],
    labels: Sequence[str],
    *,
    title: str = "",
) -> Picture:
    """The history and the forecast of the first four columns, each in a panel, and a row of weights for each query.

    Args:
        truth: what came in place of the forecast, if that is known.
        weights: how much each query looks at each step; the first place is the first step of the history.

    Raises: ShapeError: if there is no place or no query.

    >>> drawn = series_page(["a"], np.ones((5, 1)), np.ones((2, 1)), None, np.eye(5)[-2:], ["+1", "+2"])
    >>> [axes.get_ylabel() for axes in drawn.axes[:2]]
    ['a', '']
    """
    if not weights.size:
        raise ShapeError(f"nothing to draw: weights of shape {weights.shape}")
    shown = min(len(names), PANELS)
    rows, shown = maps.labels(list(labels)), min(len(names), PANELS)
    below, left = max(ROW * len(weights), 0.3), max(rows.inches, 0.4) + 0.35
    width = PAGE - left - maps.BAR_INCHES
    figure = picture(PAGE, 0.45 + below + shown * HEIGHT + 0.25 + maps.title_height(title), free=True)
    boxes = [(left, below + 0.53 + HEIGHT * place, width, HEIGHT - 0.1) for place in reversed(range(shown))]
    panels = [figure.place(*box) for box in [*boxes, (left, 0.45, width, below)]]
    limits = (0.5 - len(past), len(ahead) + 0.5)
    for column, axes in enumerate(panels[:-1]):
        _numbers(axes, past[:, column], ahead[:, column], None if truth is None else truth[:, column])
        axes.set_ylabel(maps.labels([names[column]]).texts[0], fontsize=TEXT)
        axes.set_xlim(limits)
        axes.set_xticks([])
        axes.tick_params(labelsize=SMALL, width=0.6, length=2.5)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    how = {"frameon": False, "fontsize": SMALL, "ncols": 3, "borderpad": 0}
    panels[0].legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), **how)
    image = _weights(panels[-1], weights, rows, 1 - len(past), limits)
    tallest, tall = (panels[-1], below) if below > HEIGHT else (panels[-2], HEIGHT - 0.1)
    maps.colour_bar(tallest, image, (width, tall))
    maps.name_page(figure, title)
    return figure


def _numbers(axes: Axes, past: np.ndarray, ahead: np.ndarray, truth: np.ndarray | None) -> None:
    """The line of a column; the forecast begins at the last number that is known."""
    steps, last = np.arange(len(ahead) + 1), past[-1:]
    axes.plot(np.arange(1 - len(past), 1), past, color="0.25", linewidth=1.2, label="history")
    if truth is not None:
        axes.plot(steps, np.concatenate((last, truth)), color="0.6", linewidth=1.2, label="truth")
    forecast = np.concatenate((last, ahead))
    axes.plot(steps, forecast, "--", color=colour(0), linewidth=1.3, label="forecast", marker=".", markersize=4)
    axes.axvline(0.5, color="0.8", linewidth=0.8)


def _weights(axes: Axes, weights: np.ndarray, rows: maps.Labels, first: int, limits: tuple[float, float]) -> AxesImage:
    """Rows of weights, the first place at step `first`; 0 is the last step of the history."""
    image = maps.draw(axes, weights, maps.norm(weights))
    image.set_extent((first - 0.5, first + weights.shape[1] - 0.5, len(weights) - 0.5, -0.5))
    axes.set_aspect("auto")
    axes.set_xlim(limits)
    axes.set_ylim(len(weights) - 0.5, -0.5)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=10, integer=True))
    axes.set_yticks(range(len(weights)), rows.texts, fontfamily=rows.fonts)
    axes.tick_params(labelsize=SMALL, width=0.6)
    axes.set_xlabel("step; 0 is the last known one", fontsize=TEXT)
    return image
