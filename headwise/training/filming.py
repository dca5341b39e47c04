"""The film of a training: where every head looks in a few inputs, step after step, and which heads choose no key."""

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
from headwise.predictors.watched_heads import Look, looked, statistics_of
from headwise.records import LayerRecord
from headwise.runs.checkpoints import Checkpoints
from headwise.runs.film import Film
from headwise.runs.tensors import TensorFile
from headwise.tasks.task import Probe
from headwise.training.session import Session
from headwise.training.validation import at_rest

# a film holds this many frames at least
FRAMES = 16
# an answer for all places looks where it looks in a single row, which says nothing of a head
_NOT_JUDGED = ("pooled", "tags")
_BYTES = 4

Flags = dict[str, list[Flag]]


class Frame(NamedTuple):
    """What was seen at a step: the content of a file, and the heads that choose no key by their layers."""

    content: TensorFile
    flags: Flags


class Filming:
    """Looks at the probes of a recipe while it trains; only the first process does.

    Weights, random state and order of the data are those of a run without a film.

    Args:
        note: takes a line for people.
    """

    def __init__(self, session: Session, checkpoints: Checkpoints, note: Callable[[str], None]) -> None:
        self._session = session
        self._config = session.recipe.film
        self._note = note
        limit = self._config.max_mib << 20
        self._film = Film(checkpoints.run, max(1, self._config.every), limit, checkpoints.check)
        self._probes: list[Probe] = []
        self._seen: tuple[int, Frame] | None = None
        # heads that choose no key, as they were at the last look that judged them, and as they were told
        self._judged: Flags = {}
        self._told: tuple[int, Flags] = (-1, {})

    def begin(self) -> None:
        """Opens the film, and looks at what a new run begins with.

        Raises: ConfigError for a probe or a target that the model refuses; CheckpointError when the folder is a link.
        """
        if not self._config.every:
            return
        with self._session.averaged() as model:
            self._session.processes.once(lambda: self._opened(model))

    def follow(self, *, last: bool = False) -> None:
        """A frame of this step, if it has its turn; of the `last` one in any case, and a word on its heads."""
        step, every = self._session.progress.step, self._config.every
        if not every or not (last or step % every == 0):
            return
        if self._session.processes.once(lambda: bool(self._probes) and (last or self._film.due(step))):
            self._asked(lambda model: self._added(model, last=last))

    def validated(self) -> None:
        """Tells which heads choose no key, if they did not at the validation before either: young heads are uniform."""
        if self._config.every and self._session.processes.once(lambda: bool(self._probes)):
            self._asked(self._judge)

    def _asked(self, work: Callable[[Any], None]) -> None:
        """Has the first process work on the model that a validation sees."""
        with self._session.averaged() as model:
            self._session.processes.once(lambda: work(model))

    def _opened(self, model: Any) -> None:
        session = self._session
        self._film.go_on(session.progress.step, self._note)
        with at_rest(model, session.recipe.seed, session.device):
            predictor = session.task.predictor(model)
            try:
                self._probes = self._affordable(predictor, self._wanted(predictor))
            except (ConfigError, DataError) as error:
                raise type(error)(f"film: {error}; film.probes and film.targets say what it looks at") from None
        if self._probes and not session.progress.step:
            self._added(model, last=False)

    def _wanted(self, predictor: Any) -> list[Probe]:
        """What the recipe names, with the answers that it names; else what the task has."""
        task, config = self._session.task, self._config
        if config.targets:
            pairs = zip(config.probes, config.targets, strict=True)
            return [Probe(predictor.parse(text), target) for text, target in pairs]
        return [task.probe(predictor, text) for text in config.probes] or task.probes(predictor)

    def _affordable(self, predictor: Any, probes: list[Probe]) -> list[Probe]:
        """As many of the first probes as a frame has room for, so that a film has `FRAMES` of them or more."""
        room, kept = (self._config.max_mib << 20) // FRAMES, 0
        if not probes:
            self._note("film: there is nothing to look at; name inputs in film.probes")
        try:
            for probe in probes:
                room -= sum(_size(record) for _, record in looked(predictor, *probe).layers.values())
                if room < 0:
                    break
                kept += 1
        except Unsupported as error:
            self._note(f"film: {error}; there is no film")
            return []
        if kept < len(probes):
            what = f"only the first {kept} of {len(probes)} probes have" if kept else "the first probe has no"
            self._note(f"film: {what} room in a frame; give shorter probes, or raise film.max_mib")
        return probes[:kept]

    def _added(self, model: Any, *, last: bool) -> None:
        step = self._session.progress.step
        if step in self._film.steps or not (last or self._film.due(step)):
            frame = self._look(model) if last else None
        elif (frame := self._look(model)) is not None:
            try:
                self._film.add(step, frame.content, last=last)
            except MachineError as error:
                self._note(f"film: step {step} has no frame: {error}")
        if last and frame is not None:
            self._tell(frame.flags)

    def _judge(self, model: Any) -> None:
        if (frame := self._look(model)) is None:
            return
        before, self._judged = self._judged, frame.flags
        lasting = {
            layer: kept
            for layer, flags in frame.flags.items()
            if (kept := [flag for flag in flags if flag in before.get(layer, [])])
        }
        if lasting != self._told[1]:
            self._tell(lasting)

    def _tell(self, flags: Flags) -> None:
        now = (self._session.progress.step, flags)
        if flags and self._told != now:
            self._note(f"heads that choose no key in the probes of the film: {told(flags)}")
        self._told = now

    def _look(self, model: Any) -> Frame | None:
        """The frame of this step; None where nothing can be seen."""
        session, step = self._session, self._session.progress.step
        if self._seen is None or self._seen[0] != step:
            try:
                with at_rest(model, session.recipe.seed, session.device), warnings.catch_warnings():
                    # what there is to warn of a probe was told when the film was opened
                    warnings.simplefilter("ignore")
                    predictor = session.task.predictor(model)
                    looks = [looked(predictor, *probe) for probe in self._probes]
                    self._seen = step, framed(looks, [probe.target for probe in self._probes], step)
            except HeadwiseError as error:
                self._note(f"film: step {step} has no frame: {error}")
                return None
        return self._seen[1]


def framed(looks: list[Look], targets: list[str | None], step: int) -> Frame:
    """The frame of a step: exact weights (heads, queries, keys) as float32 by "probe/layer", statistics by layer.

    Where a mask forbids something, "mask/probe/layer" (heads or 1, queries, keys) has 1 for each pair that it allows.

    Args:
        targets: the answers that the model was made to give.

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
    # a file of tensors holds finite numbers alone; what a layer has no number of, its kind says
    values = {name: np.nan_to_num(one.values) for name, one in statistics.items()}
    tensors |= {f"heads/{name}": torch.from_numpy(one).float() for name, one in values.items()}
    flags = _flags(looks, statistics) if step else {}
    facts = {
        "step": step,
        "statistics": STATISTICS,
        "probes": [_described(look, target) for look, target in zip(looks, targets, strict=True)],
        "flags": flags,
    }
    return Frame(TensorFile(tensors, {"film": json.dumps(facts)}), flags)


def told(flags: Flags) -> str:
    """Heads by what is odd about them, in one line.

    >>> told({"encoder.0": [Flag(0, "uniform"), Flag(3, "uniform"), Flag(2, "same", 1)]})
    'uniform: encoder.0 heads 0, 3; the same as another: encoder.0 head 2 as 1'
    """
    names = {"uniform": "uniform", "one key": "all on one key", "same": "the same as another"}
    lines = []
    for why, name in names.items():
        parts = []
        for layer, found in flags.items():
            odd = [flag for flag in found if flag.why == why]
            heads = [f"{flag.head} as {flag.other}" if why == "same" else f"{flag.head}" for flag in odd]
            if heads:
                parts.append(f"{visible(layer)} head{'s' if len(heads) > 1 else ''} {', '.join(heads)}")
        if parts:
            lines.append(f"{name}: {', '.join(parts)}")
    return "; ".join(lines)


def _flags(looks: list[Look], statistics: dict[str, HeadStatistics]) -> Flags:
    kinds = {name: layer.kind for look in looks for name, (layer, _) in look.layers.items()}
    found = {name: odd_heads(one) for name, one in statistics.items() if kinds[name] not in _NOT_JUDGED}
    return {name: flags for name, flags in found.items() if flags}


def _described(look: Look, target: str | None) -> dict[str, Any]:
    layers = {}
    for name, (layer, _) in look.layers.items():
        queries, keys = look.labels(name)
        layers[name] = {"kind": layer.kind, "causal": layer.causal, "queries": queries, "keys": keys}
    found = look.explanation
    return {"source": str(found.source), "target": target, "output": str(found.output), "layers": layers}


def _size(record: LayerRecord) -> int:
    """Bytes of the weights of a layer, and of a mask for each head."""
    rows, keys = sum(each.call.shape[2] for each in record.calls), max(each.call.shape[3] for each in record.calls)
    return (_BYTES + 1) * record.num_heads * rows * keys
