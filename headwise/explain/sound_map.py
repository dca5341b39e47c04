"""Pictures of an explanation whose keys are places in time: its weights below the spectrogram."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from headwise.explain.values import Drawing

if TYPE_CHECKING:
    from headwise.explain.explanation import Explanation, Heads


@dataclass(frozen=True)
class SoundMap:
    """Draws an explanation over the places of a recording.

    Args:
        spectrogram: as the model hears it, the lowest band first.
        seconds: how long the recording is.
    """

    spectrogram: Float[np.ndarray, "bands frames"]
    seconds: float

    def __call__(self, found: "Explanation", layer: str | int | None, heads: "Heads") -> Drawing:
        """The spectrogram, and below it each query's weights over time; where frames look at frames, their mean.

        Raises: ConfigError as `Explanation.save`.
        """
        # matplotlib is imported where something is drawn
        from headwise.explain.sound_pages import sound_page

        name = found.layer_name(-1 if layer is None else layer)
        one = found.layers[name]
        weights, labels = one.mean(heads), one.queries
        if one.kind == "self":
            weights, labels = weights.mean(axis=0, keepdims=True), ["mean"]
        title = f"{found.source} → {found.output}\n{found.caption(name, heads)}"
        return sound_page(self.spectrogram, self.seconds, weights, labels, title=title)
