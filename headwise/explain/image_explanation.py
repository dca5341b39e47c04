"""Where a classifier of images looked: its attention over the image, as numbers, table and pictures."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, UInt8

from headwise.errors import ConfigError, unknown
from headwise.explain.explanation import Explanation, Heads
from headwise.explain.values import FORMATS, Drawing


@dataclass(frozen=True)
class ImageExplanation:
    """The attention of every layer while a model read an image, laid over the image.

    Args:
        attention: one row a head: what the class token looks at, or, without one, what all places look at on average.
        pixels: the image as the model read it.
        grid: rows and columns of the places that are looked at.
        class_tokens: how many keys come before those of the grid.
    """

    attention: Explanation
    pixels: UInt8[np.ndarray, "height width channels"]
    grid: tuple[int, int]
    class_tokens: int

    @property
    def source(self) -> str:
        """The name of the image."""
        return self.attention.source

    @property
    def output(self) -> str:
        """The class, and its probability."""
        return self.attention.output

    @property
    def row_error(self) -> float:
        """Largest difference from 1 of a sum over the keys."""
        return self.attention.row_error

    def layer_name(self, layer: str | int | None = None) -> str:
        """The name of a layer, by name or number from 0; the last if None. Raises: ConfigError if it is not there."""
        return self.attention.layer_name(-1 if layer is None else layer)

    def weights(self, layer: str | int | None = None, heads: Heads = None) -> Float[np.ndarray, "rows columns"]:
        """How much is looked at each place of the grid: the mean of some heads of one layer, or of all its heads.

        Raises:
            ConfigError: for a layer or a head that is not there.
        """
        return self._placed(self.attention.layers[self.layer_name(layer)].mean(heads)[None])[0]

    def caption(self, layer: str | int | None = None, heads: Heads = None) -> str:
        """The name of the layer, which of its heads are meant, and what the class token gives to itself."""
        name = self.layer_name(layer)
        told = self.attention.caption(name, heads)
        if not self.class_tokens:
            return told
        itself = self.attention.layers[name].mean(heads)[0, : self.class_tokens].sum()
        return f"{told}, {itself:.0%} of it on the class token itself"

    def table(self, layer: str | int | None = None, heads: Heads = None, *, top: int = 3) -> str:
        """The places that are looked at most, as row,column from 0, for a terminal."""
        return self.attention.table(self.layer_name(layer), heads, top=top)

    def page(self, layer: str | int | None = None, heads: Heads = None) -> Drawing:
        """One picture: the image, the map of a layer over it, and every head of every layer as a small map."""
        # matplotlib is imported where something is drawn
        from headwise.explain.image_pages import image_page

        name, names = self.layer_name(layer), list(self.attention.layers)
        return image_page(
            self.pixels,
            self.weights(name, heads),
            [self._placed(self.attention.layers[other].weights) for other in names],
            chosen=[(names.index(name), head) for head in self.attention.layers[name].numbers(heads)],
            title="\n".join([f"{self.source} → {self.output}", *self.caption(name, heads).split(", ", 1)]),
        )

    def save(self, path: str | os.PathLike[str], layer: str | int | None = None, heads: Heads = None) -> Path:
        """Draws the page into a PNG, SVG or PDF file, by the suffix of `path`; arguments as in `weights`.

        Raises:
            ConfigError: for a layer, a head or a suffix that is not there.
        """
        from headwise.explain.canvas import save

        return save(self.page(layer, heads), path)

    def write(
        self,
        folder: str | os.PathLike[str],
        formats: Sequence[str] = ("png",),
        layer: str | int | None = None,
        heads: Heads = None,
        *,
        every: bool = False,
    ) -> list[Path]:
        """Saves the page as `attention.png`, in every format; returns the paths.

        Args:
            layer, heads: as in `weights`.
            every: a page for each layer too, under its name.

        Raises:
            ConfigError: for a format that cannot be drawn, or a layer or a head that is not there.
        """
        for kind in formats:
            if kind not in FORMATS:
                raise ConfigError(unknown("format", kind, FORMATS))
        drawn = {"attention": (layer, heads)}
        if every:
            drawn |= {name.replace(".", "-"): (name, None) for name in self.attention.layers}
        return [self.save(Path(folder) / f"{name}.{kind}", *shown) for name, shown in drawn.items() for kind in formats]

    def _placed(self, weights: Float[np.ndarray, "heads queries keys"]) -> Float[np.ndarray, "heads rows columns"]:
        return weights[:, 0, self.class_tokens :].reshape(-1, *self.grid)
