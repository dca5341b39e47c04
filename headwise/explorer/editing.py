"""Edits as the pages ask for them, and the trace of an input under them: beside the unedited one, not in its place."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field

from headwise.attention import mechanisms, normalizers, scores
from headwise.attention.masks import Causal, Mask, Window
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.attention.mechanisms.scored import Scored
from headwise.errors import ConfigError, Unsupported, unknown
from headwise.explorer.long_maps import Maps
from headwise.explorer.traces import Group, Traced
from headwise.predictors.outputs import difference, outputs_of
from headwise.records import Edit, Force, Hide, Mute, Narrow, Swap, edit
from headwise.records.watching import chosen
from headwise.service.loaded import LoadedRun

MOST_EDITS = 16
Name = Annotated[str, Field(min_length=1, max_length=200)]
Place = Annotated[int, Field(ge=0, le=1 << 20)]


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class AskMute(_Asked):
    """The output of some heads is zero."""

    kind: Literal["mute"]
    layer: Name
    heads: list[Place] = Field(min_length=1, max_length=256)

    def made(self, traced: Traced) -> list[Edit]:
        _check(traced, self.layer, *self.heads)
        return [Mute(self.layer, self.heads)]


class AskForce(_Asked):
    """One weight of a head is another."""

    kind: Literal["force"]
    layer: Name
    head: Place
    query: Place
    key: Place
    weight: float = Field(ge=0, le=1)
    renormalized: bool = Field(True, description="the rest of the row shares what is left; else it keeps its weights")

    def made(self, traced: Traced) -> list[Edit]:
        group = _check(traced, self.layer, self.head)
        for what, place, there in (("query", self.query, group.queries), ("key", self.key, group.keys)):
            if place >= len(there):
                raise ConfigError(f"{self.layer} has {len(there)} places as {what}, from 0; {place} is none of them")
        return [Force(self.layer, self.head, self.query, self.key, self.weight, self.renormalized)]


class AskHide(_Asked):
    """Nobody sees some tokens, in any layer whose keys they are."""

    kind: Literal["hide"]
    group: Name
    tokens: list[Place] = Field(min_length=1, max_length=512)

    def made(self, traced: Traced) -> list[Edit]:
        keys = traced.group(self.group).keys
        if max(self.tokens) >= len(keys):
            raise ConfigError(f"{self.group} has keys 0 to {len(keys) - 1}, not {max(self.tokens)}")
        return [Hide(layer, self.tokens) for group in traced.groups if group.keys == keys for layer in group.layers]


class AskNarrow(_Asked):
    """A layer has another mask besides its own."""

    kind: Literal["narrow"]
    layer: Name
    mask: Literal["causal", "window"]
    width: int = Field(1, ge=0, le=4096, description="of a window: keys before and behind the query's place")

    def made(self, traced: Traced) -> list[Edit]:
        _check(traced, self.layer)
        mask: Mask = Causal() if self.mask == "causal" else Window(self.width, self.width)
        return [Narrow(self.layer, mask)]


class AskSwap(_Asked):
    """Another mechanism computes a layer, from the same queries, keys and values."""

    kind: Literal["swap"]
    layer: Name
    mechanism: Name = "scored"
    score: Name | None = Field(None, description="of `scored`: a score without parameters; the layer's own if left out")
    normalizer: Name | None = Field(None, description="of `scored`, such as sparsemax or top_k:2")

    def made(self, traced: Traced) -> list[Edit]:
        group = _check(traced, self.layer)
        (_, old) = chosen(traced.seen.model, self.layer)[self.layer]
        return [Swap(self.layer, self._built(old, traced, group))]

    def _built(self, old: Mechanism, traced: Traced, group: Group) -> Mechanism:
        # no other names: a request names no module of the server's
        if self.mechanism == "scored":
            for registry, text in ((scores.REGISTRY, self.score), (normalizers.REGISTRY, self.normalizer)):
                if text is not None and (name := registry.parse(text).name) not in registry.names():
                    raise ConfigError(unknown(registry.noun, name, registry.names()))
            defaults = (old.score, old.normalizer) if isinstance(old, Scored) else (None, None)
            return Scored(self.score or defaults[0], self.normalizer or defaults[1])
        if self.mechanism not in mechanisms.names():
            raise ConfigError(unknown("mechanism", self.mechanism, mechanisms.names()))
        if self.score or self.normalizer:
            raise ConfigError(f"score and normalizer are of 'scored'; {self.mechanism} has its own")
        width = traced.trace[self.layer].calls[-1].call.query.shape[-1]
        sizes = {"head_dim": width, "num_heads": group.heads, "max_len": max(len(group.queries), len(group.keys))}
        # what it draws, such as random features, is always the same
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            mechanism: Mechanism = mechanisms.mechanism_type(self.mechanism).sized(**sizes, dropout=0.0)
        if any(True for _ in mechanism.parameters()):
            raise Unsupported(f"{self.mechanism} has untrained parameters; swap to one without, such as 'linear'")
        return mechanism.to(next(traced.seen.model.parameters()))


AskEdit = Annotated[AskMute | AskForce | AskHide | AskNarrow | AskSwap, Field(discriminator="kind")]


def edited(run: LoadedRun, traced: Traced, requested: Sequence[Any]) -> Traced:
    """The trace of the same pass under edits, with what they change in the answer.

    Raises: ConfigError: a layer, a head or a place that is not there; Unsupported: an edit that this model cannot have.
    """
    edits = tuple(library_edit for ask in requested for library_edit in ask.made(traced))
    descriptions = [ask.model_dump() for ask in requested]
    digest = hashlib.sha256(json.dumps([traced.id, descriptions]).encode()).hexdigest()
    before, answer = outputs_of(run.predictor, traced.seen), _answer(run, traced, requested)
    with edit(traced.seen.model, *edits):
        trace = traced.seen.again()
        after, answer_after = outputs_of(run.predictor, traced.seen), _answer(run, traced, requested)
    effects = difference(before, after)
    change = {
        "unedited": traced.id,
        "edits": descriptions,
        "effect": effects.effect,
        "places": effects.places(_labels(traced, len(before.values))),
        "answer": None if answer is None else {"before": answer, "after": answer_after},
    }
    return replace(traced, id=digest[:20], trace=trace, edits=edits, change=change, summaries={}, maps=Maps())


def _answer(run: LoadedRun, traced: Traced, requested: Sequence[Any]) -> str | None:
    """What `headwise predict` prints as things are now; None where the edits mean nothing to a new answer.

    What is drawn is not asked for again; nor is a continuation, whose every place is told of already.
    """
    how = run.decoding(None)
    if traced.target is not None or run.verb == "complete" or (how is not None and how.method == "sample"):
        return None
    if how is not None and not all(_searchable(ask, traced) for ask in requested):
        return None
    return "\n".join(run.predictor.write(traced.item, run.predictor.predict([traced.item])[0], "text"))


def _searchable(ask: Any, traced: Traced) -> bool:
    """Whether an edit is the same one in a search, whose hypotheses lie side by side and have places of their own."""
    written = [group for group in traced.groups if group.name.startswith("decoder")]
    if isinstance(ask, AskHide):
        keys = traced.group(ask.group).keys
        return not any(group.causal and group.keys == keys for group in written)
    if isinstance(ask, AskMute) or (isinstance(ask, AskSwap) and ask.mechanism == "scored"):
        return True
    return not any(ask.layer in group.layers for group in written)


def _labels(traced: Traced, count: int) -> list[str]:
    """The tokens at whose places something is said."""
    sides = [group.queries for group in traced.groups[::-1] if len(group.queries) == count]
    return sides[0] if sides else []


def _check(traced: Traced, layer: str, *heads: int) -> Group:
    """The group of a layer. Raises: ConfigError for a layer or a head that is not there."""
    group = traced.group_of(layer)
    for head in heads:
        if head >= group.heads:
            raise ConfigError(f"{layer} has heads 0 to {group.heads - 1}, not {head}")
    return group
