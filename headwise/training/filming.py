"""The film of a training: the attention of every head on a few inputs, and heads that choose no key."""

import json
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from headwise.errors import ConfigError, DataError, HeadwiseError, MachineError, Unsupported
from headwise.explain.heads import STATISTICS, Flag, HeadStatistics, odd_heads
from headwise.labels import visible
from headwise.predictors.looking import allowed
from headwise.predictors.watched_heads import Look, look_at, statistics_of
from headwise.records import LayerRecord
from headwise.runs.checkpoints import Checkpoints
from headwise.runs.film import Film
from headwise.runs.tensors import TensorFile
from headwise.tasks.task import Probe
from headwise.training.session import Session
from headwise.training.validation import evaluation

# a film holds this many frames at least
FRAMES = 16
# kinds of layers with a single row of weights for all positions, which cannot show a head that chooses no key
_NOT_FLAGGED = ("pooled", "tags")
_BYTES = 4

Flags = dict[str, list[Flag]]


class Frame(NamedTuple):
    """The attention at a step: the content of a file, and the heads that choose no key by their layers."""

    content: TensorFile
    flags: Flags


class Filming:
    """Records the attention on the probes of a recipe while it trains, in the first process.

    Weights, random state and order of the data are those of a run without a film.
    """

    def __init__(self, session: Session, checkpoints: Checkpoints, note: Callable[[str], None]) -> None:
        self._session = session
        self._config = session.recipe.film
        self._note = note
        limit = self._config.max_mib << 20
        self._film = Film(checkpoints.run, max(1, self._config.every), limit, checkpoints.check)
        self._probes: list[Probe] = []
        # the latest frame and its step
        self._latest: tuple[int, Frame] | None = None
        # heads that choose no key: at the last validation, and as last reported
        self._flags: Flags = {}
        self._reported: tuple[int, Flags] = (-1, {})

    def begin(self) -> None:
        """Opens the film; a new run gets a frame before its first step.

        Raises: ConfigError for a probe or a target that the model refuses; CheckpointError when the folder is a link.
        """
        if not self._config.every:
            return
        with self._session.averaged_model() as model:
            self._session.processes.once(lambda: self._open(model))

    def follow(self, *, last: bool = False) -> None:
        """A frame of this step, if it is due; of the `last` one in any case, with a report on its heads."""
        step, every = self._session.progress.step, self._config.every
        if not every or not (last or step % every == 0):
            return
        if self._session.processes.once(lambda: bool(self._probes) and (last or self._film.due(step))):
            self._in_first(lambda model: self._add(model, last=last))

    def validated(self) -> None:
        """Reports heads that chose no key at two validations in a row: heads are uniform when training begins."""
        if self._config.every and self._session.processes.once(lambda: bool(self._probes)):
            self._in_first(self._report_lasting)

    def _in_first(self, work: Callable[[Any], None]) -> None:
        with self._session.averaged_model() as model:
            self._session.processes.once(lambda: work(model))

    def _open(self, model: Any) -> None:
        session = self._session
        self._film.resume(session.progress.step, self._note)
        with evaluation(model, session.recipe.seed, session.device):
            predictor = session.task.predictor(model)
            try:
                self._probes = self._fitting(predictor, self._all_probes(predictor))
            except (ConfigError, DataError) as error:
                raise type(error)(f"film: {error}; film.probes and film.targets say what it looks at") from None
        if self._probes and not session.progress.step:
            self._add(model, last=False)

    def _all_probes(self, predictor: Any) -> list[Probe]:
        """The probes and targets of the recipe; else those of the task."""
        task, config = self._session.task, self._config
        if config.targets:
            pairs = zip(config.probes, config.targets, strict=True)
            return [Probe(predictor.parse(text), target) for text, target in pairs]
        return [task.probe(predictor, text) for text in config.probes] or task.probes(predictor)

    def _fitting(self, predictor: Any, probes: list[Probe]) -> list[Probe]:
        """As many of the first probes as a frame has room for, so that a film has at least `FRAMES` frames."""
        room, count = (self._config.max_mib << 20) // FRAMES, 0
        if not probes:
            self._note("film: there is nothing to look at; name inputs in film.probes")
        try:
            for probe in probes:
                room -= sum(_size(record) for _, record in look_at(predictor, *probe).layers.values())
                if room < 0:
                    break
                count += 1
        except Unsupported as error:
            self._note(f"film: {error}; there is no film")
            return []
        if count < len(probes):
            what = f"only the first {count} of {len(probes)} probes have" if count else "the first probe has no"
            self._note(f"film: {what} room in a frame; give shorter probes, or raise film.max_mib")
        return probes[:count]

    def _add(self, model: Any, *, last: bool) -> None:
        step = self._session.progress.step
        if step in self._film.steps or not (last or self._film.due(step)):
            frame = self._look(model) if last else None
        elif (frame := self._look(model)) is not None:
            try:
                self._film.add(step, frame.content, last=last)
            except MachineError as error:
                self._note(f"film: step {step} has no frame: {error}")
        if last and frame is not None:
            self._report(frame.flags)

    def _report_lasting(self, model: Any) -> None:
        if (frame := self._look(model)) is None:
            return
        before, self._flags = self._flags, frame.flags
        lasting = {
            layer: both
            for layer, flags in frame.flags.items()
            if (both := [flag for flag in flags if flag in before.get(layer, [])])
        }
        if lasting != self._reported[1]:
            self._report(lasting)

    def _report(self, flags: Flags) -> None:
        now = (self._session.progress.step, flags)
        if flags and self._reported != now:
            self._note(f"heads that choose no key in the probes of the film: {flags_text(flags)}")
        self._reported = now

    def _look(self, model: Any) -> Frame | None:
        """The frame of this step; None if the attention is not available."""
        session, step = self._session, self._session.progress.step
        if self._latest is None or self._latest[0] != step:
            try:
                with evaluation(model, session.recipe.seed, session.device), warnings.catch_warnings():
                    # warnings about a probe were shown when the film was opened
                    warnings.simplefilter("ignore")
                    predictor = session.task.predictor(model)
                    looks = [look_at(predictor, *probe) for probe in self._probes]
                    self._latest = step, frame_of(looks, [probe.target for probe in self._probes], step)
            except HeadwiseError as error:
                self._note(f"film: step {step} has no frame: {error}")
                return None
        return self._latest[1]


def frame_of(looks: list[Look], targets: list[str | None], step: int) -> Frame:
    """The frame of a step: exact weights (heads, queries, keys) as float32 by "probe/layer", statistics by layer.

    Where a mask forbids pairs, "mask/probe/layer" (heads or 1, queries, keys) has 1 for each pair that it allows.

    Args:
        targets: the forced answers of the model.

    Raises: Unsupported for weights that are not finite.
    """
    tensors: dict[str, torch.Tensor] = {}
    for number, look in enumerate(looks):
        for name, (_, record) in look.layers.items():
            weights = tensors[f"{number}/{name}"] = record.weights()[0].float().cpu().contiguous()
            if not bool(torch.isfinite(weights).all()):
                raise Unsupported(f"the weights of {name} are not finite")
            if (keep := allowed(record)) is not None:
                tensors[f"mask/{number}/{name}"] = torch.from_numpy(keep.astype("uint8"))
    statistics = statistics_of(looks)
    # a file of tensors has finite numbers only; the kind of a layer says which statistics it lacks
    for name, of_heads in statistics.items():
        tensors[f"heads/{name}"] = torch.from_numpy(np.nan_to_num(of_heads.values)).float()
    flags = _flags(looks, statistics) if step else {}
    facts = {
        "step": step,
        "statistics": STATISTICS,
        "probes": [_described(look, target) for look, target in zip(looks, targets, strict=True)],
        "flags": flags,
    }
    return Frame(TensorFile(tensors, {"film": json.dumps(facts)}), flags)


def flags_text(flags: Flags) -> str:
    """Heads by their flag, in one line.

    >>> flags_text({"encoder.0": [Flag(0, "uniform"), Flag(3, "uniform"), Flag(2, "same", 1)]})
    'uniform: encoder.0 heads 0, 3; the same as another: encoder.0 head 2 as 1'
    """
    names = {"uniform": "uniform", "one key": "all on one key", "same": "the same as another"}
    lines = []
    for why, name in names.items():
        parts = []
        for layer, of_layer in flags.items():
            matching = [flag for flag in of_layer if flag.why == why]
            heads = [f"{flag.head} as {flag.other}" if why == "same" else f"{flag.head}" for flag in matching]
            if heads:
                parts.append(f"{visible(layer)} head{'s' if len(heads) > 1 else ''} {', '.join(heads)}")
        if parts:
            lines.append(f"{name}: {', '.join(parts)}")
    return "; ".join(lines)


def _flags(looks: list[Look], statistics: dict[str, HeadStatistics]) -> Flags:
    kinds = {name: layer.kind for look in looks for name, (layer, _) in look.layers.items()}
    flags = {name: odd_heads(of_heads) for name, of_heads in statistics.items() if kinds[name] not in _NOT_FLAGGED}
    return {name: of_layer for name, of_layer in flags.items() if of_layer}


def _described(look: Look, target: str | None) -> dict[str, Any]:
    layers = {}
    for name, (layer, _) in look.layers.items():
        queries, keys = look.labels(name)
        layers[name] = {"kind": layer.kind, "causal": layer.causal, "queries": queries, "keys": keys}
    explanation = look.explanation
    return {"source": str(explanation.source), "target": target, "output": str(explanation.output), "layers": layers}


def _size(record: LayerRecord) -> int:
    """Bytes of the weights of a layer, and of a mask for each head."""
    rows, keys = sum(call.call.shape[2] for call in record.calls), max(call.call.shape[3] for call in record.calls)
    return (_BYTES + 1) * record.num_heads * rows * keys
