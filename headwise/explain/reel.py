"""The film of a run, read: its frames, the axes of their layers, and the statistics of every head over the training."""

import json
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from headwise.config import Config, build
from headwise.errors import CheckpointError, ConfigError, unknown
from headwise.explain.heads import POSITIONAL, Flag, Odd, is_one_sequence
from headwise.runs.film import Film

# frames in memory
_CACHED = 8


class Axes(Config):
    """The rows and columns of a layer in a probe."""

    kind: str
    causal: bool
    queries: list[str]
    keys: list[str]


class _Probe(Config):
    """An input and its output."""

    source: str
    target: str | None
    output: str
    layers: dict[str, Axes]


class _Facts(Config):
    """The description of a frame."""

    step: int
    statistics: list[str]
    probes: list[_Probe]
    flags: dict[str, list[tuple[int, Odd, int]]]


class Reel:
    """The film in a run folder, as it is now.

    Raises: ConfigError where there is none; CheckpointError naming a damaged file, here and in every method.
    """

    def __init__(self, run: str | os.PathLike[str]) -> None:
        self._film = Film.read(Path(run))
        self._frame = lru_cache(_CACHED)(self._read_frame)
        self._curves: dict[str, np.ndarray] = {}
        self._agreements: dict[str, np.ndarray] = {}
        if not self.steps:
            raise ConfigError(f"{run}: has no film; train with film.every=50 for a frame every 50 steps")

    @property
    def steps(self) -> list[int]:
        """The steps that have a frame, in order."""
        return self._film.steps

    @property
    def identity(self) -> str:
        """A name for this state of the film; another frame changes it."""
        return self._film.identity

    @property
    def statistics(self) -> list[str]:
        """The names of what `curves` has, in its order."""
        return self._facts(self.steps[-1]).statistics

    @property
    def probes(self) -> list[dict[str, Any]]:
        """Of each probe `source`, `target` (null: the model's own answer) and the `output` at the last step."""
        return [probe.model_dump(exclude={"layers"}) for probe in self._facts(self.steps[-1]).probes]

    @property
    def layers(self) -> dict[str, int]:
        """The layers in the order of the model, and how many heads each has."""
        tensors, facts = self._frame(self.steps[-1])
        names = dict.fromkeys(name for probe in facts.probes for name in probe.layers)
        return {name: tensors[f"heads/{name}"].shape[1] for name in names}

    @property
    def flags(self) -> dict[str, list[Flag]]:
        """The heads that choose no key at the last step, by layer."""
        return {layer: [Flag(*flag) for flag in flags] for layer, flags in self._facts(self.steps[-1]).flags.items()}

    def telling(self, layer: str) -> int:
        """The probe whose order turns most often at the last step, of several the longest, where a film opens.

        Raises: ConfigError for an unknown layer.
        """
        if layer not in self.layers:
            raise ConfigError(unknown("layer", layer, self.layers))
        last = self.steps[-1]
        probes = [number for number, probe in enumerate(self._facts(last).probes) if layer in probe.layers]
        maps = {number: self.weights(last, number, layer) for number in probes}
        return max(maps, key=lambda number: (turns(maps[number]), maps[number].shape[1]))

    def axes(self, step: int, probe: int, layer: str) -> Axes:
        """The rows and columns of a layer. Raises: ConfigError for an unknown step, probe or layer."""
        layers = self._probe(step, probe).layers
        if layer not in layers:
            raise ConfigError(unknown("layer", layer, layers))
        return layers[layer]

    def output(self, step: int, probe: int) -> str:
        """The output of the model for a probe. Raises: ConfigError for an unknown step or probe."""
        return self._probe(step, probe).output

    def weights(self, step: int, probe: int, layer: str) -> Float[np.ndarray, "heads queries keys"]:
        """Exact weights. Raises: as `axes`."""
        self.axes(step, probe, layer)
        return self._frame(step)[0][f"{probe}/{layer}"]

    def allowed(self, step: int, probe: int, layer: str) -> Bool[np.ndarray, "#heads queries keys"]:
        """Which pairs the mask of a layer allows. Raises: as `axes`."""
        axes, mask = self.axes(step, probe, layer), self._frame(step)[0].get(f"mask/{probe}/{layer}")
        if mask is not None:
            return mask > 0
        # older films have no masks
        every = np.ones((1, len(axes.queries), len(axes.keys)), dtype=bool)
        return np.tril(every) if axes.causal else every

    def curves(self, layer: str) -> Float[np.ndarray, "steps statistics heads"]:
        """The statistics of the heads of a layer, means over the probes, from the first frame to the last.

        Statistics that compare positions are NaN where queries and keys are of two sequences.

        Raises: ConfigError for an unknown layer.
        """
        if layer not in self.layers:
            raise ConfigError(unknown("layer", layer, self.layers))
        if not self._curves:
            rows = [self._frame(step)[0] for step in self.steps]
            try:
                self._curves = {name: np.stack([row[f"heads/{name}"] for row in rows]) for name in self.layers}
            except (KeyError, ValueError):
                raise CheckpointError(f"{self._film.folder}: its frames belong to different models") from None
            for name in self.layers:
                self._curves[name][:, self._undefined(name)] = np.nan
        return self._curves[layer]

    def agreement(self, layer: str) -> Float[np.ndarray, "steps heads"]:
        """The share of rows, over all probes, that look most at the key that they look at most in the last frame.

        Rows that may attend to fewer than two keys do not count, nor do probes whose tokens are others than at the
        end, as of a model that writes its own answer; NaN where nothing counts.

        Raises: ConfigError for an unknown layer.
        """
        if layer not in self.layers:
            raise ConfigError(unknown("layer", layer, self.layers))
        if layer not in self._agreements:
            self._agreements[layer] = np.stack([self._agreeing(step, layer) for step in self.steps])
        return self._agreements[layer]

    def _agreeing(self, step: int, layer: str) -> Float[np.ndarray, "heads"]:
        last, matches = self.steps[-1], [np.zeros((self.layers[layer], 0), bool)]
        for number, (probe, final) in enumerate(zip(self._facts(step).probes, self._facts(last).probes, strict=False)):
            if layer in final.layers and probe.layers.get(layer) == final.layers[layer]:
                free = self.allowed(last, number, layer).sum(-1).min(0) > 1
                now, end = (self.weights(at, number, layer)[:, free].argmax(-1) for at in (step, last))
                matches.append(now == end)
        rows = np.concatenate(matches, axis=-1)
        return rows.mean(-1) if rows.size else np.full(len(rows), np.nan)

    def _undefined(self, layer: str) -> list[int]:
        """The rows of statistics that compare positions, of a layer over two sequences."""
        axes = [probe.layers[layer] for probe in self._facts(self.steps[-1]).probes if layer in probe.layers]
        if all(is_one_sequence(axis.kind, len(axis.queries), len(axis.keys)) for axis in axes):
            return []
        return [self.statistics.index(name) for name in POSITIONAL if name in self.statistics]

    def _probe(self, step: int, probe: int) -> _Probe:
        if step not in self.steps:
            raise ConfigError(f"step {step} has no frame; the film has {len(self.steps)}, up to step {self.steps[-1]}")
        probes = self._facts(step).probes
        if not 0 <= probe < len(probes):
            raise ConfigError(f"probe {probe} is not there; there are {len(probes)}, from 0")
        return probes[probe]

    def _facts(self, step: int) -> _Facts:
        return self._frame(step)[1]

    def _read_frame(self, step: int) -> tuple[dict[str, np.ndarray], _Facts]:
        tensors, texts = self._film.frame(step)
        arrays = {name: tensor.float().numpy() for name, tensor in tensors.items()}
        name = f"{self._film.folder}: the frame of step {step}"
        try:
            facts = build(_Facts, json.loads(texts["film"]), "description")
        except (LookupError, ValueError, RecursionError, ConfigError) as error:
            raise CheckpointError(f"{name} is damaged: {error}") from None
        _check(arrays, facts, name)
        return arrays, facts


def turns(weights: Float[np.ndarray, "heads queries keys"]) -> int:
    """How many rows, in the mean of the heads, look most at a key before the one that the row before them looks at.

    >>> turns(np.eye(4)[None, [0, 3, 2, 1]])
    2
    """
    peaks = weights.mean(0).argmax(-1) if weights.size else np.zeros(0, int)
    return int((np.diff(peaks) < 0).sum())


def _check(tensors: Mapping[str, np.ndarray], facts: _Facts, name: str) -> None:
    """Raises: CheckpointError where the tensors of a frame contradict its description."""
    shapes = {key: tensor.shape for key, tensor in tensors.items()}
    for number, probe in enumerate(facts.probes):
        for layer, axes in probe.layers.items():
            pairs = len(axes.queries), len(axes.keys)
            statistics, *heads = shapes.get(f"heads/{layer}", (0,))
            if len(heads) != 1 or shapes.get(f"{number}/{layer}") != (*heads, *pairs):
                raise CheckpointError(f"{name}: the weights of {layer} do not have the stated shape")
            if shapes.get(f"mask/{number}/{layer}", (1, *pairs)) not in [(1, *pairs), (*heads, *pairs)]:
                raise CheckpointError(f"{name}: the mask of {layer} does not have the stated shape")
            if statistics != len(facts.statistics):
                raise CheckpointError(f"{name}: the statistics of {layer} are not those that it names")
    if not facts.probes:
        raise CheckpointError(f"{name} has no probe")


def rows_of(reel: Reel, statistic: str, layer: str = "") -> list[dict[str, Any]]:
    """One statistic of every head at every step, where it is defined: rows with "head", "step" and its name.

    Args:
        layer: only layers whose names contain this.
    Raises: ConfigError for an unknown statistic.
    """
    if statistic not in reel.statistics:
        raise ConfigError(unknown("statistic", statistic, reel.statistics))
    row = reel.statistics.index(statistic)
    return [
        {"head": f"{name}, head {head}", "step": step, statistic: float(value)}
        for name in reel.layers
        if layer in name
        for step, heads in zip(reel.steps, reel.curves(name)[:, row], strict=True)
        for head, value in enumerate(heads)
        if np.isfinite(value)
    ]
