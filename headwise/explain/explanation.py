"""The attention of a model over one input and one output, as numbers, table and pictures."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

from headwise.errors import ConfigError, ShapeError, Unsupported, unknown
from headwise.explain.alignment import focus, table
from headwise.explain.places import Places, Tokens
from headwise.explain.pooling import OnDemand, Pooled, Whole, block_for, pooled, whole
from headwise.explain.values import LEGENDS, Drawing, Legend, require_formats

Heads = int | Sequence[int] | None
# "cross": keys are of another sequence; "pooled": one row, an answer; "tags": keys are tags of the rows
Kind = Literal["self", "cross", "pooled", "tags"]

POOLING = "pooling"
_EXACT = 1e-2  # weights of a softmax sum to one within this


@dataclass(frozen=True)
class Layer:
    """The weights of each head of one attention layer, with labels for rows and columns.

    Args:
        source: the weights, or what makes them; then `part` makes some rows of a long input alone.
        queries, keys: a label for each row and each column.
        kind: "cross" if the keys are another sequence, "pooled" if the only row is an answer for all keys; "tags" if
            the keys are tags and the weights their probabilities, which is no attention.
        causal: no query sees a later key.
        mask: which pairs may meet, beside weights that are there; None: all that `causal` does.

    >>> layer = Layer(np.full((2, 700, 700), 1 / 700), ["a"] * 700, ["a"] * 700, "self")
    >>> layer.part([1], slice(7, 9)).shape, layer.pooled(1).means.shape
    ((1, 2, 700), (350, 350))
    """

    source: Float[np.ndarray, "heads queries keys"] | OnDemand
    queries: list[str]
    keys: list[str]
    kind: Kind
    causal: bool = False
    mask: Bool[np.ndarray, "#heads #queries #keys"] | None = None

    @cached_property
    def weights(self) -> Float[np.ndarray, "heads queries keys"]:
        """All weights, made when they are first asked for. Raises: Unsupported for more than memory should hold."""
        return self.source if isinstance(self.source, np.ndarray) else whole(self.source)

    @cached_property
    def allowed(self) -> Bool[np.ndarray, "#heads #queries #keys"] | None:
        """Which pairs the mask allows; None: all that `causal` does."""
        return self.mask if isinstance(self.source, np.ndarray) else self.source.allowed()

    @property
    def shape(self) -> tuple[int, int, int]:
        """Heads, queries, keys."""
        heads, queries, keys = self.source.shape
        return heads, queries, keys

    def part(
        self, heads: Heads = None, queries: slice = slice(None), keys: slice = slice(None)
    ) -> Float[np.ndarray, "heads queries keys"]:
        """Exact weights of these heads, rows and columns; of an input of any length the others are not made.

        Raises: ConfigError for an unknown head; ShapeError for what is no slice of neighbours.
        """
        for asked in (queries, keys):
            if not isinstance(asked, slice) or asked.step not in (None, 1):
                raise ShapeError(f"rows and columns are slices of neighbours, such as slice(0, 8), not {asked}")
        if isinstance(self.source, np.ndarray):
            return self.source[self.numbers(heads)][:, queries, keys]
        return self.source.part(self.numbers(heads), queries, keys).astype(np.float64)

    def pooled(self, head: int, block: int | None = None) -> Pooled:
        """A head as a map of means and maxima of blocks of `block` x `block` weights.

        Args:
            block: a power of two; None: the smallest with which the map has at most 512 rows and columns.

        Raises: ConfigError for an unknown head; ShapeError for another block.
        """
        if not isinstance(head, int):
            raise ConfigError(f"a map of blocks is of one head, by its number, not of {head}")
        (number,) = self.numbers(head)
        source = Whole(self.source, self.mask) if isinstance(self.source, np.ndarray) else self.source
        return pooled(source, number, block_for(*self.shape[1:]) if block is None else block)

    @property
    def heading(self) -> str:
        """The heading of its table."""
        return "the likeliest tags" if self.kind == "tags" else "what each token looks at"

    def mean(self, heads: Heads = None) -> Float[np.ndarray, "queries keys"]:
        """The mean of these heads, or of all. Raises: ConfigError for an unknown head."""
        return self.weights[self.numbers(heads)].mean(axis=0)

    def numbers(self, heads: Heads) -> list[int]:
        """The numbers of these heads, or of all. Raises: ConfigError for an unknown head."""
        count = self.shape[0]
        chosen = list(range(count)) if heads is None else [heads] if isinstance(heads, int) else list(heads)
        for head in chosen:
            if not 0 <= head < count:
                raise ConfigError(f"head {head} is not there; this layer has heads 0 to {count - 1}")
        if not chosen:
            raise ConfigError("no head is named; leave heads out for all of them")
        return chosen


def part_of(name: str) -> str:
    """The part of a model that a layer is in: its encoder, its decoder, or what its name begins with.

    >>> part_of("model.decoder.layers.0.self_attn"), part_of("transformer.h.0.attn")
    ('decoder', 'transformer')
    """
    parts = name.split(".")
    return next((part for part in parts if part in ("encoder", "decoder")), parts[0])


@runtime_checkable
class Explained(Protocol):
    """The result of `Predictor.explain`: pictures in a folder, and lines of text."""

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
    """The attention of every layer of a model over `source` and `output`.

    Args:
        layers: by their names in the model, from the first to the last.
        draw: draws a layer, or all layers if None, in place of a map; its arguments are this and those of `page`.
        note: lines of text beside the pictures, such as a table of other reasons for the output.
        places: what rows and columns stand for, where they are no tokens.
        tokens: words and special tokens; they belong to each layer with the same labels.
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
        """The largest difference of the sum of a row from 1."""
        return max(float(np.abs(layer.weights.sum(axis=-1) - 1.0).max()) for layer in self.layers.values())

    def shown(self) -> list[str]:
        """Names of the layers to draw: those from output to input if there are any, else all.

        Probabilities of tags are among them only where there is nothing else.
        """
        attended = [name for name, layer in self.layers.items() if layer.kind != "tags"] or list(self.layers)
        return [name for name in attended if self.layers[name].kind != "self"] or attended

    def _numbered(self) -> list[str]:
        """The layers that a number selects from; the pooling, which has a name, is among them only if it is alone."""
        names = self.shown()
        if {self.layers[name].kind for name in names} != {"pooled"}:
            return names
        return [name for name, layer in self.layers.items() if layer.kind == "self"] or names

    def most_focused(self) -> str:
        """The layer whose mean over heads has the largest `focus`.

        Layers differ; neither the first nor the last need be the one that aligns words.

        Raises: Unsupported if the model has no attention.
        """
        if not self.layers:
            raise Unsupported("this model has no attention, so there is nothing to show")
        return max(self.shown(), key=lambda name: focus(self.layers[name].mean()))

    def pictured(self, layer: str | int | None) -> str:
        """The name of a layer as in `layer_name`; None: the last one of `shown`."""
        return self.layer_name(self.shown()[-1] if layer is None else layer)

    def layer_name(self, layer: str | int | None) -> str:
        """The name of a layer.

        Args:
            layer: name, `pooling` for the layer that makes one vector of the sequence, or number from 0 (-1 is the
                last) among the other layers of `shown`; the most focused if None.
        Raises: ConfigError for an unknown layer.
        """
        if layer is None:
            return self.most_focused()
        if isinstance(layer, int):
            names = self._numbered()
            kind = f"{self.layers[names[0]].kind}-attention"
            if not -len(names) <= layer < len(names):
                raise ConfigError(f"layer {layer} is not there; the model has {len(names)} {kind} layers, from 0")
            return names[layer]
        pooled = [name for name, entry in self.layers.items() if entry.kind == "pooled"]
        if layer == POOLING and len(pooled) == 1:
            return pooled[0]
        if layer not in self.layers:
            raise ConfigError(unknown("layer", layer, self.layers))
        return layer

    def weights(self, layer: str | int | None = None, heads: Heads = None) -> Float[np.ndarray, "queries keys"]:
        """The mean of some heads of one layer, or of all its heads; arguments as in `save`."""
        return self.layers[self.layer_name(layer)].mean(heads)

    def values(self, name: str, heads: Heads = None) -> Float[np.ndarray, "queries keys"]:
        """The numbers of a layer that are drawn: the mean of these heads."""
        return self.layers[name].mean(heads)

    def legend(self, name: str) -> Legend:
        """What the map of a layer shows."""
        return LEGENDS[self.layers[name].kind]

    def caption(self, layer: str | int | None = None, heads: Heads = None) -> str:
        """The name of the layer, and of its heads."""
        name = self.layer_name(layer)
        chosen, count = self.layers[name].numbers(heads), self.layers[name].shape[0]
        if self.layers[name].kind == "tags":
            return name
        if len(chosen) == 1:
            return f"{name}, {'its only head' if count == 1 else f'head {chosen[0]}'}"
        among = "" if heads is None else ": " + ", ".join(map(str, chosen))
        return f"{name}, mean of {len(chosen)} heads{among}"

    def table(self, layer: str | int | None = None, heads: Heads = None, *, top: int = 3) -> str:
        """The strongest keys of each query, for a terminal."""
        drawn = self.layers[self.layer_name(layer)]
        return table(drawn.mean(heads), drawn.queries, drawn.keys, top=top)

    def lines(self, layer: str | int | None = None, heads: Heads = None, *, top: int = 3) -> list[str]:
        """The table of a layer, the note, and how close the sums of rows are to one."""
        heading = f"{self.caption(layer, heads)}: {self.layers[self.layer_name(layer)].heading}"
        note = ["", self.note] if self.note else []
        table = self.table(layer, heads, top=top)
        sums = f"rows sum to one within {self.row_error:.0e}"
        if self.row_error > _EXACT:
            sums = f"rows need not sum to one here: they differ from it by up to {self.row_error:.2g}"
        return [heading, table, *note, "", sums]

    def page(self, layer: str | int | None = None, heads: Heads = None) -> Drawing:
        """One picture: a layer as a large map, and every head of every layer of its kind as a small one."""
        if self.draw is not None:
            return self.draw(self, layer, heads)
        from headwise.explain.figures import page

        name = self.layer_name(layer)
        large = self.layers[name]
        # those of the same kind in the same part of the model
        small = [other for other in self.layers if self._group(other) == self._group(name)]
        return page(
            self.values(name, heads),
            large.queries,
            large.keys,
            [self.layers[other].weights for other in small],
            chosen=[(small.index(name), head) for head in large.numbers(heads)],
            title=f"{self._title()}\n{self.caption(layer, heads)}",
            keep=_allowed(large, heads),
            legend=self.legend(name),
        )

    def save(self, path: str | os.PathLike[str], layer: str | int | None = None, heads: Heads = None) -> Path:
        """Draws the page into a PNG, SVG or PDF file, by the suffix of `path`.

        Args:
            layer: name, or number from 0 among those of `shown` (-1 is the last); the most focused if None.
            heads: one number from 0, or several, whose mean is drawn; all if None.
        Raises: ConfigError for an unknown layer, head or suffix.
        """
        from headwise.explain.canvas import save

        return save(self.page(layer, heads), path)

    def figures(self) -> dict[str, Drawing]:
        """A figure for every layer, by file name: its heads, or the picture of `draw`."""
        if self.draw is not None:
            return {name.replace(".", "-"): self.draw(self, name, None) for name in self.layers}
        from headwise.explain import figures

        return {
            name.replace(".", "-"): figures.heads(
                layer.weights if layer.shape[0] > 1 else self.values(name)[None],
                layer.queries,
                layer.keys,
                title=f"{self._title()}\n{name}",
                keep=_allowed(layer),
                legend=self.legend(name),
            )
            for name, layer in self.layers.items()
        }

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
        Raises: ConfigError for a format that cannot be drawn.
        """
        from headwise.explain.canvas import save

        require_formats(formats)
        drawn = {"attention": self.page(layer, heads)} | (self.figures() if every else {})
        return [save(figure, Path(folder) / f"{name}.{kind}") for name, figure in drawn.items() for kind in formats]

    def _group(self, name: str) -> tuple[str, str]:
        return self.layers[name].kind, name.partition(".")[0]

    def _title(self) -> str:
        return f"{self.source}\n→ {self.output}"


def _allowed(layer: Layer, heads: Heads = None) -> np.ndarray | None:
    """The pairs that the mask of any of these heads allows; None: all."""
    if layer.allowed is None:
        return np.tri(len(layer.queries), dtype=bool) if layer.causal else None
    return np.asarray(np.broadcast_to(layer.allowed, layer.shape)[layer.numbers(heads)].any(axis=0))
