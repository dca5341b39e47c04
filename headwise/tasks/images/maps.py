"""Attention over an image and labels of its pixels, drawn."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int64, UInt8

from headwise.explain.places import PixelLabels
from headwise.explain.values import Drawing, require_formats
from headwise.labels import percent
from headwise.tasks.images.mask_pictures import written

if TYPE_CHECKING:
    from headwise.explain.explanation import Explanation, Heads

# a layer, and a head of it
Head = tuple[int, int]


@dataclass(frozen=True)
class GridMap:
    """What draws attention to the places of an image, row by row, whose keys come after those of class tokens.

    Args:
        pixels: the image as the model read it.
        grid: rows and columns of the places that are looked at.
    """

    pixels: UInt8[np.ndarray, "height width channels"]
    grid: tuple[int, int]

    def placed(self, weights: Float[np.ndarray, "*maps keys"]) -> Float[np.ndarray, "maps rows columns"]:
        """Weights where they lie in the image; those of class tokens are left out."""
        rows, columns = self.grid
        return weights[..., weights.shape[-1] - rows * columns :].reshape(-1, rows, columns)

    def small_maps(self, explanation: "Explanation", name: str, heads: "Heads") -> tuple[list[np.ndarray], list[Head]]:
        """Every head of every layer as a map, and those of them that the map of this layer and heads is the mean of."""
        layer = list(explanation.layers).index(name)
        framed = [(layer, head) for head in explanation.layers[name].numbers(heads)]
        maps = {
            other: entry.weights if entry.shape[0] > 1 else explanation.values(other)
            for other, entry in explanation.layers.items()
        }
        return [self.placed(weights) for weights in maps.values()], framed


@dataclass(frozen=True)
class ImageMap(GridMap):
    """Draws an explanation of one query over the keys of an image."""

    def __call__(self, explanation: "Explanation", layer: str | int | None, heads: "Heads") -> Drawing:
        """The image, the map of a layer over it (the last if None), and every head of every layer as a small map."""
        # matplotlib is imported where something is drawn
        from headwise.tasks.images.pages import image_page

        name = explanation.pictured(layer)
        weights = explanation.values(name, heads)
        class_tokens = weights.shape[1] - self.grid[0] * self.grid[1]
        caption = explanation.caption(name, heads).replace(", ", "\n", 1)
        if class_tokens:
            caption += f", {percent(weights[0, :class_tokens].sum())} of it on the class token itself"
        small, framed = self.small_maps(explanation, name, heads)
        title = f"{explanation.source} → {explanation.output}\n{caption}"
        return image_page(
            self.pixels, self.placed(weights)[0], small, chosen=framed, title=title, legend=explanation.legend(name)
        )


@dataclass(frozen=True)
class LabelMap(GridMap):
    """Draws an explanation of one pixel over the places of an image.

    Args:
        predicted: the number of the class of each pixel.
        truth: the same, as its mask has it; beyond the classes where none counts.
        legend: name and colour of each class.
        pixel: row and column of the pixel.
        covered: height and width of what the grid lies over, which may go beyond the image.
    """

    predicted: Int64[np.ndarray, "height width"]
    truth: Int64[np.ndarray, "height width"] | None
    legend: Sequence[tuple[str, tuple[int, int, int]]]
    pixel: tuple[int, int]
    covered: tuple[int, int]

    @property
    def labels(self) -> PixelLabels:
        """The prediction and the truth, without the picture."""
        return PixelLabels(self.predicted, self.truth, [(name, written(colour)) for name, colour in self.legend])

    def __call__(self, explanation: "Explanation", layer: str | int | None, heads: "Heads") -> Drawing:
        """Image, truth, prediction, and the map of a layer over the image (the clearest if None), all heads below."""
        from headwise.tasks.images.pages import Looks

        name = explanation.layer_name(layer)
        weights = self.placed(explanation.values(name, heads))[0]
        looks = Looks(self.pixel, self.covered, weights, *self.small_maps(explanation, name, heads))
        return self.page(f"{explanation.source} → {explanation.output}\n{explanation.caption(name, heads)}", looks)

    def page(self, title: str, looks: object = None) -> Drawing:
        """Image, truth and prediction; and what a pixel looks at, if anything."""
        from headwise.tasks.images.pages import label_page

        labels = (
            {"predicted": self.predicted} if self.truth is None else {"truth": self.truth, "predicted": self.predicted}
        )
        return label_page(self.pixels, labels, self.legend, looks, title=title)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Labelled:
    """The labels of pixels of a model without attention: an `Explained` without a map.

    Args:
        source: the name of the image.
        output: its prediction, in a few words.
        draw: makes the picture.
        shares: a line for each class.
    """

    source: str
    output: str
    draw: LabelMap
    shares: Sequence[str]

    def lines(self, layer: str | int | None = None, heads: "Heads" = None, *, top: int = 3) -> list[str]:
        """The share of each class; this model has no layers to choose from."""
        return [*self.shares, "", "this model has no attention: there is nothing that a pixel looks at"]

    def write(
        self,
        folder: str | os.PathLike[str],
        formats: Sequence[str] = ("png",),
        layer: str | int | None = None,
        heads: "Heads" = None,
        *,
        every: bool = False,
    ) -> list[Path]:
        """Saves the picture as `labels.png`, in every format; returns the paths. Raises: ConfigError for others."""
        from headwise.explain.canvas import save

        require_formats(formats)
        page = self.draw.page(f"{self.source} → {self.output}")
        return [save(page, Path(folder) / f"labels.{kind}") for kind in formats]


@dataclass(frozen=True)
class WordMaps(GridMap):
    """Draws an explanation of words over the places of an image."""

    def __call__(self, explanation: "Explanation", layer: str | int | None, heads: "Heads") -> Drawing:
        """The image, and over it what each word looks at in one layer; a layer of words or places alone as a map."""
        name = explanation.layer_name(layer)
        chosen = explanation.layers[name]
        if chosen.kind != "cross":
            return replace(explanation, draw=None).page(name, heads)
        from headwise.tasks.images.pages import word_page

        title = f"{explanation.source} → {explanation.output}\n{explanation.caption(name, heads)}"
        return word_page(self.pixels, self.placed(explanation.values(name, heads)), chosen.queries, title=title)
