"""Where a model looked: its attention while it read one input and wrote one output, as numbers, table and pictures."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

from headwise.errors import ConfigError, Unsupported, unknown
from headwise.explain.alignment import focus, table
from headwise.explain.places import Places, Tokens
from headwise.explain.values import Drawing, require_formats

Heads = int | Sequence[int] | None

POOLING = "pooling"
_EXACT = 1e-2  # sums further from one are of weights that no softmax made


@dataclass(frozen=True)
class Layer:
    """What one attention layer did: the weights of each head, and what its rows and columns are.

    Args:
        queries, keys: a label for each row and each column.
        kind: "cross" if the keys are of another sequence, "pooled" if the only row is an answer for all of them; "tags"
            if the keys are tags and the weights their probabilities, which is no attention.
        causal: no query sees a later key.
        allowed: which pairs the mask allows; None: all that `causal` does.
    """

    weights: Float[np.ndarray, "heads queries keys"]
    queries: list[str]
    keys: list[str]
    kind: Literal["self", "cross", "pooled", "tags"]
    causal: bool = False
    allowed: Bool[np.ndarray, "#heads #queries #keys"] | None = None

    @property
    def heading(self) -> str:
        """What a table of it lists."""
        return "the likeliest tags" if self.kind == "tags" else "what each token looks at"

    def mean(self, heads: Heads = None) -> Float[np.ndarray, "queries keys"]:
        """The mean of these heads, or of all. Raises: ConfigError for a head that is not there."""
        chosen = self.numbers(heads)
        mean: np.ndarray = self.weights[chosen].mean(axis=0)
        return mean

    def numbers(self, heads: Heads) -> list[int]:
        """The numbers of the heads that are meant. Raises: ConfigError for a head that is not there."""
        chosen = list(range(len(self.weights))) if heads is None else [heads] if isinstance(heads, int) else list(heads)
        for head in chosen:
            if not 0 <= head < len(self.weights):
                raise ConfigError(f"head {head} is not there; this layer has heads 0 to {len(self.weights) - 1}")
        if not chosen:
            raise ConfigError("no head is named; leave heads out for all of them")
        return chosen


@runtime_checkable
class Explained(Protocol):
    """What `Predictor.explain` returns: pictures in a folder, and lines of text."""

    @property
    def source(self) -> str: ...

    @property
    def output(self) -> str: ...

    def lines(self, layer: str | int | None = None, heads: Heads = None, *, top: int = 3) -> list[str]: ...

    def write(
        self,
        folder: str | os.PathLike[str],
        formats: Sequence[str] = ("png",),
        layer: str | int | None = None,
        heads: Heads = None,
        *,
        every: bool = False,
    ) -> list[Path]: ...


@dataclass(frozen=True)
class Explanation:
    """The attention of every layer while a model read `source` and wrote `output`.

    Args:
        layers: by their names in the model, from the first to the last.
        draw: makes the picture of a layer, or of all if None, in place of a map; it gets what `page` gets.
        note: lines to read beside the pictures, such as a table of what else decided.
        places: what rows and columns are where they are no tokens.
        tokens: what is known of tokens; they are those of each layer whose labels are the same.
    """

    source: str
    output: str
    layers: dict[str, Layer]
    draw: Callable[["Explanation", str | int | None, Heads], Drawing] | None = None
    note: str = ""
    places: Places | None = None
    tokens: Sequence[Tokens] = ()

    @property
    def row_error(self) -> float:
        """Largest difference from 1 of a sum over the keys."""
        return max(float(np.abs(layer.weights.sum(axis=-1) - 1.0).max()) for layer in self.layers.values())

    def shown(self) -> list[str]:
        """Names of the layers that a picture is of: those from output to input where there are any, else all.

        Probabilities of tags are among them where nothing else is.
        """
        attended = [name for name, layer in self.layers.items() if layer.kind != "tags"] or list(self.layers)
        return [name for name in attended if self.layers[name].kind != "self"] or attended

    def _numbered(self) -> list[str]:
        """What numbers count: a pooling has a name of its own, unless there is nothing else."""
        shown = self.shown()
        if {self.layers[name].kind for name in shown} != {"pooled"}:
            return shown
        return [name for name, one in self.layers.items() if one.kind == "self"] or shown

    def most_focused(self) -> str:
        """The layer whose mean over heads says most about which key belongs to which query.

        Measured by `focus`. Layers differ, and neither the first nor the last need be the one that aligns words.

        Raises:
            Unsupported: if the model has no attention.
        """
        if not self.layers:
            raise Unsupported("this model has no attention, so there is nothing to show")
        return max(self.shown(), key=lambda name: focus(self.layers[name].mean()))

    def pictured(self, layer: str | int | None) -> str:
        """The name of a layer as `layer_name` has it; None: the last of those that are shown."""
        return self.layer_name(self.shown()[-1] if layer is None else layer)

    def layer_name(self, layer: str | int | None) -> str:
        """The name of a layer.

        Args:
            layer: name, `pooling` for what makes one vector of all places, or number from 0 (-1 is the last) among
                those of `shown` but the pooling; the most focused if None.

        Raises:
            ConfigError: for a layer that is not there.
        """
        if layer is None:
            return self.most_focused()
        if isinstance(layer, int):
            names = self._numbered()
            kind = f"{self.layers[names[0]].kind}-attention"
            if not -len(names) <= layer < len(names):
                raise ConfigError(f"layer {layer} is not there; the model has {len(names)} {kind} layers, from 0")
            return names[layer]
        if layer == POOLING and len(pooled := [name for name, one in self.layers.items() if one.kind == "pooled"]) == 1:
            return pooled[0]
        if layer not in self.layers:
            raise ConfigError(unknown("layer", layer, self.layers))
        return layer

    def weights(self, layer: str | int | None = None, heads: Heads = None) -> Float[np.ndarray, "queries keys"]:
        """The mean of some heads of one layer, or of all its heads; arguments as in `save`."""
        return self.layers[self.layer_name(layer)].mean(heads)

    def caption(self, layer: str | int | None = None, heads: Heads = None) -> str:
        """The name of the layer, and which of its heads are meant."""
        name = self.layer_name(layer)
        chosen, count = self.layers[name].numbers(heads), len(self.layers[name].weights)
        if self.layers[name].kind == "tags":
            return name
        if len(chosen) == 1:
            return f"{name}, {'its only head' if count == 1 else f'head {chosen[0]}'}"
        among = "" if heads is None else ": " + ", ".join(map(str, chosen))
        return f"{name}, mean of {len(chosen)} heads{among}"

    def table(self, layer: str | int | None = None, heads: Heads = None, *, top: int = 3) -> str:
        """The strongest keys of each query, for a terminal."""
        one = self.layers[self.layer_name(layer)]
        return table(one.mean(heads), one.queries, one.keys, top=top)

    def lines(self, layer: str | int | None = None, heads: Heads = None, *, top: int = 3) -> list[str]:
        """The table of a layer, what there is to note, and how far rows are from summing to one."""
        heading = f"{self.caption(layer, heads)}: {self.layers[self.layer_name(layer)].heading}"
        noted = ["", self.note] if self.note else []
        table = self.table(layer, heads, top=top)
        sums = f"rows sum to one within {self.row_error:.0e}"
        if self.row_error > _EXACT:
            sums = f"rows need not sum to one here: they differ from it by up to {self.row_error:.2g}"
        return [heading, table, *noted, "", sums]

    def page(self, layer: str | int | None = None, heads: Heads = None) -> Drawing:
        """One picture: a layer as a large map, and below it every head of every layer of its kind as a small one."""
        if self.draw is not None:
            return self.draw(self, layer, heads)
        # matplotlib is imported where something is drawn
        from headwise.explain.figures import page

        name = self.layer_name(layer)
        one = self.layers[name]
        beside = [other for other in self.layers if self._group(other) == self._group(name)]
        return page(
            one.mean(heads),
            one.queries,
            one.keys,
            [self.layers[other].weights for other in beside],
            chosen=[(beside.index(name), head) for head in one.numbers(heads)],
            title=f"{self._title()}\n{self.caption(layer, heads)}",
            kind=one.kind,
            keep=_seen(one, heads),
        )

    def save(self, path: str | os.PathLike[str], layer: str | int | None = None, heads: Heads = None) -> Path:
        """Draws the page into a PNG, SVG or PDF file, by the suffix of `path`.

        Args:
            layer: name, or number from 0 among those of `shown` (-1 is the last); the most focused if None.
            heads: one number from 0, or several, whose mean is drawn; all if None.

        Raises:
            ConfigError: for a layer, a head or a suffix that is not there.
        """
        from headwise.explain.canvas import save

        return save(self.page(layer, heads), path)

    def show(self, *, height: int = 640) -> Any:
        """The attention in a notebook: a page, which needs no server and loads nothing, as the last line of a cell.

        Args:
            height: of the frame, in pixels.
        Returns: a page, which `.save("attention.html")` writes to a file.
        Raises:
            Unsupported: if the model has no attention.
            ConfigError: for more weights than 32 MB.
        """
        from headwise.explorer.notebook import show

        return show(self, height=height)

    def figures(self) -> dict[str, Drawing]:
        """Every layer as a figure of its own, by file name: its heads, or what `draw` makes of it."""
        if self.draw is not None:
            return {name.replace(".", "-"): self.draw(self, name, None) for name in self.layers}
        from headwise.explain import figures

        drawn: dict[str, Drawing] = {}
        for name, one in self.layers.items():
            title = f"{name}\n{self._title()}"
            drawn[name.replace(".", "-")] = figures.heads(
                one.weights, one.queries, one.keys, title=title, keep=_seen(one)
            )
        return drawn

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
            layer, heads: as in `save`.
            every: every layer too, in a file of its own.

        Raises:
            ConfigError: for a format that cannot be drawn.
        """
        from headwise.explain.canvas import save

        require_formats(formats)
        drawn = {"attention": self.page(layer, heads)} | (self.figures() if every else {})
        return [save(figure, Path(folder) / f"{name}.{kind}") for name, figure in drawn.items() for kind in formats]

    def _group(self, name: str) -> tuple[str, str]:
        return self.layers[name].kind, name.partition(".")[0]

    def _title(self) -> str:
        return f"{self.source}\n→ {self.output}"


def _seen(layer: Layer, heads: Heads = None) -> np.ndarray | None:
    """The pairs that the mask of any of these heads allows; None: all."""
    if layer.allowed is None:
        return np.tri(len(layer.queries), dtype=bool) if layer.causal else None
    return np.asarray(np.broadcast_to(layer.allowed, layer.weights.shape)[layer.numbers(heads)].any(axis=0))
