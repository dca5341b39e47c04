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

    def __call__(self, explanation: "Explanation", layer: str | int | None, heads: "Heads") -> Drawing:
        """The image, the map of a layer over it (the last if None), and every head of every layer as a small map.

        Raises: ConfigError as `Explanation.save`.
        """
        # matplotlib is imported where something is drawn
        from headwise.tasks.images.pages import image_page

        name, names = explanation.pictured(layer), list(explanation.layers)
        chosen = explanation.layers[name]
        caption = explanation.caption(name, heads).replace(", ", "\n", 1)
        if self.class_tokens:
            itself = chosen.mean(heads)[0, : self.class_tokens].sum()
            caption += f", {percent(itself)} of it on the class token itself"
        return image_page(
            self.pixels,
            self.placed(chosen.mean(heads)[None])[0],
            [self.placed(entry.weights) for entry in explanation.layers.values()],
            chosen=[(names.index(name), head) for head in chosen.numbers(heads)],
            title=f"{explanation.source} → {explanation.output}\n{caption}",
        )

    def placed(self, weights: Float[np.ndarray, "heads 1 keys"]) -> Float[np.ndarray, "heads rows columns"]:
        """The weights of the only query, where they lie in the image."""
        return weights[:, 0, self.class_tokens :].reshape(-1, *self.grid)


@dataclass(frozen=True)
class LabelMap:
    """Draws an explanation of one pixel over the places of an image; the weights of class tokens come first.

    Args:
        pixels: the image as the model read it.
        said: the number of the class of each pixel.
        truth: the same, as its mask has it; beyond the classes where none counts.
        legend: name and colour of each class.
        pixel: row and column of the pixel.
        covered: height and width of what the grid lies over, which may go beyond the image.
        grid: rows and columns of the places that are looked at.
    """

    pixels: UInt8[np.ndarray, "height width channels"]
    said: Int64[np.ndarray, "height width"]
    truth: Int64[np.ndarray, "height width"] | None
    legend: Sequence[tuple[str, tuple[int, int, int]]]
    pixel: tuple[int, int]
    covered: tuple[int, int]
    grid: tuple[int, int]

    @property
    def labels(self) -> PixelLabels:
        """What is said and the truth, without the picture."""
        return PixelLabels(self.said, self.truth, [(name, f"#{bytes(colour).hex()}") for name, colour in self.legend])

    def __call__(self, explanation: "Explanation", layer: str | int | None, heads: "Heads") -> Drawing:
        """Image, truth, what is said, and the map of a layer over the image (the clearest if None), all heads below.

        Raises: ConfigError as `Explanation.save`.
        """
        # matplotlib is imported where something is drawn
        from headwise.tasks.images.pages import Looks

        name, names = explanation.layer_name(layer), list(explanation.layers)
        chosen = explanation.layers[name]
        looks = Looks(
            self.pixel,
            self.covered,
            self.placed(chosen.mean(heads)[None])[0],
            [self.placed(entry.weights) for entry in explanation.layers.values()],
            [(names.index(name), head) for head in chosen.numbers(heads)],
        )
        return self.page(f"{explanation.source} → {explanation.output}\n{explanation.caption(name, heads)}", looks)

    def page(self, title: str, looks: object = None) -> Drawing:
        """Image, truth and what is said; and what a pixel looks at, if anything."""
        from headwise.tasks.images.pages import label_page

        labels = {"said": self.said} if self.truth is None else {"truth": self.truth, "said": self.said}
        return label_page(self.pixels, labels, self.legend, looks, title=title)  # type: ignore[arg-type]

    def placed(self, weights: Float[np.ndarray, "heads 1 keys"]) -> Float[np.ndarray, "heads rows columns"]:
        """The weights of the pixel, where they lie in the image; those of class tokens are left out."""
        rows, columns = self.grid
        return weights[:, 0, weights.shape[2] - rows * columns :].reshape(-1, rows, columns)


@dataclass(frozen=True)
class Labelled:
    """What a model without attention says of the pixels of an image: an `Explained` with nothing to look at.

    Args:
        source: the name of the image.
        output: what is said of it, in a few words.
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
class WordMaps:
    """Draws an explanation of words over the places of an image, row by row.

    Args:
        pixels: the image as the model read it.
        grid: rows and columns of the places that are looked at.
    """

    pixels: UInt8[np.ndarray, "height width channels"]
    grid: tuple[int, int]

    def __call__(self, explanation: "Explanation", layer: str | int | None, heads: "Heads") -> Drawing:
        """The image, and over it what each word looks at in one layer; a layer of words or places alone as a map.

        Raises: ConfigError as `Explanation.save`.
        """
        name = explanation.layer_name(layer)
        chosen = explanation.layers[name]
        if chosen.kind != "cross":
            return replace(explanation, draw=None).page(name, heads)
        # matplotlib is imported where something is drawn
        from headwise.tasks.images.pages import word_page

        title = f"{explanation.source} → {explanation.output}\n{explanation.caption(name, heads)}"
        return word_page(self.pixels, self.placed(chosen.mean(heads)), chosen.queries, title=title)

    def placed(self, weights: Float[np.ndarray, "words keys"]) -> Float[np.ndarray, "words rows columns"]:
        """The weights of each word, where they lie in the image."""
        return weights.reshape(-1, *self.grid)
