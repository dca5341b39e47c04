"""Pictures of an explanation whose queries are words and whose keys are the places of an image: a map for each word."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, UInt8

from headwise.explain.values import Drawing

if TYPE_CHECKING:
    from headwise.explain.explanation import Explanation, Heads


@dataclass(frozen=True)
class WordMaps:
    """Draws an explanation of words over the places of an image, row by row.

    Args:
        pixels: the image as the model read it.
        grid: rows and columns of the places that are looked at.
    """

    pixels: UInt8[np.ndarray, "height width channels"]
    grid: tuple[int, int]

    def __call__(self, found: "Explanation", layer: str | int | None, heads: "Heads") -> Drawing:
        """The image, and over it what each word looks at in one layer; a layer of words or places alone as a map.

        Raises: ConfigError as `Explanation.save`.
        """
        name = found.layer_name(layer)
        chosen = found.layers[name]
        if chosen.kind != "cross":
            return replace(found, draw=None).page(name, heads)
        # matplotlib is imported where something is drawn
        from headwise.explain.image_pages import word_page

        title = f"{found.source} → {found.output}\n{found.caption(name, heads)}"
        return word_page(self.pixels, self.placed(chosen.mean(heads)), chosen.queries, title=title)

    def placed(self, weights: Float[np.ndarray, "words keys"]) -> Float[np.ndarray, "words rows columns"]:
        """The weights of each word, where they lie in the image."""
        return weights.reshape(-1, *self.grid)
