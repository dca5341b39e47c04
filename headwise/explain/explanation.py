"""Where a model looked: its attention while it read one input and wrote one output, as numbers, table and pictures."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from headwise.errors import ConfigError, Unsupported, unknown
from headwise.explain import figures
from headwise.explain.alignment import focus, table
from headwise.explain.canvas import FORMATS, Picture, save

BOS, EOS = "<bos>", "<eos>"


@dataclass(frozen=True)
class Explanation:
    """The attention of every layer while a model read `source` and wrote `output`.

    Args:
        source_tokens: as the encoder read them, the end token included.
        target_tokens: as the decoder wrote them, the end token included.
        attention: weights of each attention layer, by its name in the model, as (heads, queries, keys).
        kinds: "self" or "cross" for each of them.
        row_error: largest difference from 1 of a sum over the keys.
    """

    source: str
    output: str
    source_tokens: list[str]
    target_tokens: list[str]
    attention: dict[str, Float[np.ndarray, "heads queries keys"]]
    kinds: dict[str, str]
    row_error: float

    def cross(self) -> list[str]:
        """Names of the layers that look from target to source, from the first to the last."""
        return [name for name in self.attention if self.kinds[name] == "cross"]

    def most_focused(self) -> str:
        """The cross-attention layer whose mean over heads says most about which source token belongs to which target.

        Measured by `focus`. Layers differ, and neither the first nor the last need be the one that aligns words.

        Raises:
            Unsupported: if the model has no cross-attention.
        """
        names = self.cross()
        if not names:
            raise Unsupported("this model has no attention from target to source, so there is no alignment to show")
        return max(names, key=lambda name: focus(self.attention[name].mean(axis=0)))

    def alignment(
        self, layer: str | int | None = None, head: int | None = None
    ) -> Float[np.ndarray, "target_tokens source_tokens"]:
        """Weights from target to source tokens: one head, or the mean of the heads, of one layer.

        Args:
            layer: name, or number from 0 among the cross-attention layers (-1 is the last); the most focused if None.
            head: number from 0; the mean of all if None.

        Raises:
            ConfigError: for a layer or head that is not there.
        """
        weights = self.attention[self.layer_name(layer)]
        if head is None:
            mean: np.ndarray = weights.mean(axis=0)
            return mean
        if not 0 <= head < len(weights):
            raise ConfigError(f"head {head} is not there; this layer has heads 0 to {len(weights) - 1}")
        one: np.ndarray = weights[head]
        return one

    def layer_name(self, layer: str | int | None) -> str:
        """The name of a cross-attention layer, as `alignment` takes it."""
        if layer is None:
            return self.most_focused()
        names = self.cross()
        if isinstance(layer, int):
            if not -len(names) <= layer < len(names):
                raise ConfigError(f"layer {layer} is not there; the model has {len(names)} cross-attention layers")
            return names[layer]
        if layer not in names:
            raise ConfigError(unknown("cross-attention layer", layer, names))
        return layer

    def tokens(self, name: str) -> tuple[list[str], list[str]]:
        """What the rows and columns of a layer are: the decoder's own inputs begin with the begin token."""
        if self.kinds[name] == "cross":
            return self.target_tokens, self.source_tokens
        if name.startswith("encoder"):
            return self.source_tokens, self.source_tokens
        inputs = [BOS, *self.target_tokens[:-1]]
        return inputs, inputs

    def table(self, layer: str | int | None = None, *, top: int = 3) -> str:
        """The strongest source tokens of each target token, for a terminal."""
        return table(self.alignment(layer), self.target_tokens, self.source_tokens, top=top)

    def figures(self, layer: str | int | None = None) -> dict[str, Picture]:
        """The alignment, the heads of every layer, and all layers at once for each kind, by file name."""
        drawn: dict[str, Picture] = {}
        title = f"{self.source} → {self.output}"
        if self.cross():
            name = self.layer_name(layer)
            note = f"{title}\n{name}, {_heads(self.attention[name])}"
            drawn["alignment"] = figures.alignment(
                self.alignment(name), self.source_tokens, self.target_tokens, title=note
            )
        for name, weights in self.attention.items():
            queries, keys = self.tokens(name)
            keep = np.tri(len(queries), dtype=bool) if self._is_causal(name) else None
            drawn[name.replace(".", "-")] = figures.heads(weights, queries, keys, title=f"{name}\n{title}", keep=keep)
        groups: dict[str, list[str]] = {"encoder-self": [], "decoder-self": [], "decoder-cross": []}
        for name in self.attention:
            groups[f"{'encoder' if name.startswith('encoder') else 'decoder'}-{self.kinds[name]}"].append(name)
        for group, names in groups.items():
            if len(names) > 1:
                layers = [self.attention[name] for name in names]
                drawn[f"all-{group}"] = figures.layers_heads(layers, title=f"{group} attention\n{title}")
        return drawn

    def write(
        self, folder: str | Path, formats: Sequence[str] = ("png",), layer: str | int | None = None
    ) -> list[Path]:
        """Saves every figure in every format; returns the paths, the alignment first.

        Raises:
            ConfigError: for a format that cannot be drawn.
        """
        for kind in formats:
            if kind not in FORMATS:
                raise ConfigError(unknown("format", kind, FORMATS))
        drawn = self.figures(layer)
        return [save(figure, Path(folder) / f"{name}.{kind}") for name, figure in drawn.items() for kind in formats]

    def _is_causal(self, name: str) -> bool:
        return self.kinds[name] == "self" and not name.startswith("encoder")


def _heads(weights: np.ndarray) -> str:
    return "its only head" if len(weights) == 1 else f"mean of {len(weights)} heads"
