"""Pictures of an explanation whose only query looks at the places of an image: its maps over the image."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, UInt8

from headwise.explain.values import Drawing
from headwise.labels import percent

if TYPE_CHECKING:
    from headwise.explain.explanation import Explanation, Heads


@dataclass(frozen=True)
class ImageMap:
    """Draws an explanation of one query over the keys of an image, row by row, after those of class tokens.

    Args:
        pixels: the image as the model read it.
        grid: rows and columns of the places that are looked at.
        class_tokens: how many keys come before those of the grid.
    """

    pixels: UInt8[np.ndarray, "height width channels"]
    grid: tuple[int, int]
    class_tokens: int = 0

    def __call__(self, found: "Explanation", layer: str | int | None, heads: "Heads") -> Drawing:
        """The image, the map of a layer over it (the last if None), and every head of every layer as a small map.

        Raises: ConfigError as `Explanation.save`.
        """
        # matplotlib is imported where something is drawn
        from headwise.explain.image_pages import image_page

        name, names = found.pictured(layer), list(found.layers)
        chosen = found.layers[name]
        caption = found.caption(name, heads).replace(", ", "\n", 1)
        if self.class_tokens:
            itself = chosen.mean(heads)[0, : self.class_tokens].sum()
            caption += f", {percent(itself)} of it on the class token itself"
        return image_page(
            self.pixels,
            self.placed(chosen.mean(heads)[None])[0],
            [self.placed(one.weights) for one in found.layers.values()],
            chosen=[(names.index(name), head) for head in chosen.numbers(heads)],
            title=f"{found.source} → {found.output}\n{caption}",
        )

    def placed(self, weights: Float[np.ndarray, "heads 1 keys"]) -> Float[np.ndarray, "heads rows columns"]:
        """The weights of the only query, where they lie in the image."""
        return weights[:, 0, self.class_tokens :].reshape(-1, *self.grid)
