"""Pictures of an explanation whose keys are steps of a series: its weights below the numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from headwise.explain.values import Drawing

if TYPE_CHECKING:
    from headwise.explain.explanation import Explanation, Heads

# rows of weights that a picture has room for
_ROWS = 24


@dataclass(frozen=True)
class SeriesMap:
    """Draws an explanation over the steps of a series.

    Args:
        names: of the predicted columns.
        truth: what came instead; None: nobody knows.
        reads: the place from whose vector the forecast is made; None: from all of them.
    """

    names: Sequence[str]
    past: Float[np.ndarray, "length targets"]
    ahead: Float[np.ndarray, "horizon targets"]
    truth: Float[np.ndarray, "horizon targets"] | None
    reads: int | None = None

    def __call__(self, explanation: "Explanation", layer: str | int | None, heads: "Heads") -> Drawing:
        """The numbers, and below them the weights: of each step of the forecast, else of the place that is read.

        Where all places are read, their mean. A vector in front of the series is left out of the columns.

        Raises: ConfigError as `Explanation.save`.
        """
        # matplotlib is imported where something is drawn
        from headwise.tasks.series.pages import series_page

        name = explanation.pictured(layer)
        attention = explanation.layers[name]
        weights, labels = attention.mean(heads), attention.queries
        front = attention.kind != "cross" and len(attention.keys) > len(self.past)
        if attention.kind == "self" and self.reads is not None:
            weights, labels = weights[self.reads][None], [labels[self.reads]]
        elif attention.kind == "self":
            weights, labels = weights.mean(axis=0, keepdims=True), ["mean"]
        title = f"{explanation.source}\n{explanation.caption(name, heads)}"
        return series_page(
            self.names, self.past, self.ahead, self.truth, weights[:_ROWS, int(front) :], labels[:_ROWS], title=title
        )
