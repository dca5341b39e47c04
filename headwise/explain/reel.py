"""The film of a run as it is looked at: frames, what their axes are, and what every head did over the training."""

import json
import os
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from headwise.config import Config, build
from headwise.errors import CheckpointError, ConfigError, unknown
from headwise.explain.heads import POSITIONAL, Flag, Odd, is_one_sequence
from headwise.runs.film import Film

# frames that are kept in memory
_KEPT = 8


class _Layer(Config):
    """Of a layer in a probe what its rows and columns are."""

    kind: str
    causal: bool
    queries: list[str]
    keys: list[str]


class _Probe(Config):
    """An input and its answer."""

    source: str
    target: str | None
    output: str
    layers: dict[str, _Layer]


class _Facts(Config):
    """What a frame says of itself."""

    step: int
    statistics: list[str]
    probes: list[_Probe]
    flags: dict[str, list[tuple[int, Odd, int]]]


class Axes(NamedTuple):
    """What a layer was in a probe: its rows and columns, and what the model answered there."""

    queries: list[str]
    keys: list[str]
    kind: str
    causal: bool
    output: str


class Reel:
    """The film in a run folder, as it is now.

    Raises: ConfigError where there is none; CheckpointError naming a file that is damaged, then and later.
    """

    def __init__(self, run: str | os.PathLike[str]) -> None:
        self._film = Film.read(Path(run))
        self._frames: OrderedDict[int, tuple[dict[str, np.ndarray], _Facts]] = OrderedDict()
        self._curves: dict[str, np.ndarray] = {}
        if not self.steps:
            raise ConfigError(f"{run}: has no film; train with film.every=50 for a frame every 50 steps")

    @property
    def steps(self) -> list[int]:
        """The steps that it has frames of, the first one first."""
        return self._film.steps

    @property
    def identity(self) -> str:
        """What tells it apart from others; a film that goes on is another."""
        return self._film.identity

    @property
    def statistics(self) -> list[str]:
        """The names of what `curves` has, in its order."""
        return self._facts(self.steps[-1]).statistics

    @property
    def probes(self) -> list[dict[str, Any]]:
        """Of each probe `source`, `target` (null: the model's own answer) and the `output` at the last step."""
        return [one.model_dump(exclude={"layers"}) for one in self._facts(self.steps[-1]).probes]

    @property
    def layers(self) -> dict[str, int]:
        """The layers in the order of the model, and how many heads each has."""
        tensors, facts = self._frame(self.steps[-1])
        names = dict.fromkeys(name for one in facts.probes for name in one.layers)
        return {name: tensors[f"heads/{name}"].shape[1] for name in names}

    @property
    def flags(self) -> dict[str, list[Flag]]:
        """The heads that choose no key at the last step, by layer."""
        found = self._facts(self.steps[-1]).flags
        return {layer: [Flag(*one) for one in flags] for layer, flags in found.items()}

    def axes(self, step: int, probe: int, layer: str) -> Axes:
        """What the rows and columns of a layer are. Raises: ConfigError for what is not there."""
        one = self._probe(step, probe)
        if layer not in one.layers:
            raise ConfigError(unknown("layer", layer, one.layers))
        found = one.layers[layer]
        return Axes(found.queries, found.keys, found.kind, found.causal, one.output)

    def weights(self, step: int, probe: int, layer: str) -> Float[np.ndarray, "heads queries keys"]:
        """Exact weights. Raises: ConfigError for what is not there."""
        self.axes(step, probe, layer)
        return self._frame(step)[0][f"{probe}/{layer}"]

    def allowed(self, step: int, probe: int, layer: str) -> Bool[np.ndarray, "#heads queries keys"]:
        """Which pairs the mask of a layer allows. Raises: ConfigError for what is not there."""
        axes, found = self.axes(step, probe, layer), self._frame(step)[0].get(f"mask/{probe}/{layer}")
        if found is not None:
            return found > 0
        # frames of before have no masks
        whole = np.ones((1, len(axes.queries), len(axes.keys)), dtype=bool)
        return np.tril(whole) if axes.causal else whole

    def curves(self, layer: str) -> Float[np.ndarray, "steps statistics heads"]:
        """What the heads of a layer did, means over the probes, from the first frame to the last.

        Statistics that compare positions are NaN where queries and keys are of two sequences.

        Raises: ConfigError for a layer that is not there.
        """
        if layer not in self.layers:
            raise ConfigError(unknown("layer", layer, self.layers))
        if not self._curves:
            rows = [self._frame(step)[0] for step in self.steps]
            try:
                self._curves = {name: np.stack([row[f"heads/{name}"] for row in rows]) for name in self.layers}
            except (KeyError, ValueError):
                raise CheckpointError(f"{self._film.folder}: its frames are not of one model") from None
            for name in self.layers:
                self._curves[name][:, self._meaningless(name)] = np.nan
        return self._curves[layer]

    def _meaningless(self, layer: str) -> list[int]:
        """The statistics that mean nothing for a layer."""
        known = [one.layers[layer] for one in self._facts(self.steps[-1]).probes if layer in one.layers]
        if all(is_one_sequence(one.kind, len(one.queries), len(one.keys)) for one in known):
            return []
        return [self.statistics.index(name) for name in POSITIONAL if name in self.statistics]

    def _probe(self, step: int, probe: int) -> _Probe:
        if step not in self.steps:
            raise ConfigError(f"step {step} has no frame; the film has {len(self.steps)}, up to step {self.steps[-1]}")
        found = self._facts(step).probes
        if not 0 <= probe < len(found):
            raise ConfigError(f"probe {probe} is not there; there are {len(found)}, from 0")
        return found[probe]

    def _facts(self, step: int) -> _Facts:
        return self._frame(step)[1]

    def _frame(self, step: int) -> tuple[dict[str, np.ndarray], _Facts]:
        if step not in self._frames:
            tensors, texts = self._film.frame(step)
            found = {name: tensor.float().numpy() for name, tensor in tensors.items()}
            name = f"{self._film.folder}: the frame of step {step}"
            try:
                facts = build(_Facts, json.loads(texts["film"]), name)
            except (LookupError, ValueError, RecursionError, ConfigError) as error:
                raise CheckpointError(f"{name} does not say what it is: {error}") from None
            _check(found, facts, name)
            self._frames[step] = found, facts
        self._frames.move_to_end(step)
        while len(self._frames) > _KEPT:
            self._frames.popitem(last=False)
        return self._frames[step]


def _check(tensors: Mapping[str, np.ndarray], facts: _Facts, name: str) -> None:
    """Raises: CheckpointError where the tensors of a frame are not those that it says it has."""
    shapes = {key: tensor.shape for key, tensor in tensors.items()}
    for number, probe in enumerate(facts.probes):
        for layer, one in probe.layers.items():
            statistics, *heads = shapes.get(f"heads/{layer}", (0,))
            if len(heads) != 1 or shapes.get(f"{number}/{layer}") != (*heads, len(one.queries), len(one.keys)):
                raise CheckpointError(f"{name}: the weights of {layer} are not of the shape that it says")
            mask = shapes.get(f"mask/{number}/{layer}", (1, len(one.queries), len(one.keys)))
            if mask not in [(count, len(one.queries), len(one.keys)) for count in (1, *heads)]:
                raise CheckpointError(f"{name}: the mask of {layer} is not of the shape that it says")
            if statistics != len(facts.statistics):
                raise CheckpointError(f"{name}: the statistics of {layer} are not those that it names")
    if not facts.probes:
        raise CheckpointError(f"{name} is of no probe")


def rows_of(reel: Reel, statistic: str, layer: str = "") -> list[dict[str, Any]]:
    """One statistic of every head that has it at every step: rows with "head", "step" and the statistic's name.

    Args:
        layer: only layers whose names contain this.

    Raises: ConfigError for a statistic that is not there.
    """
    if statistic not in reel.statistics:
        raise ConfigError(unknown("statistic", statistic, reel.statistics))
    place = reel.statistics.index(statistic)
    rows = []
    for name in reel.layers:
        if layer in name:
            found = reel.curves(name)[:, place]
            for step, heads in zip(reel.steps, found, strict=True):
                rows += [
                    {"head": f"{name}, head {head}", "step": step, statistic: float(value)}
                    for head, value in enumerate(heads)
                    if np.isfinite(value)
                ]
    return rows
