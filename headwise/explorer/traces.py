"""Traces of inputs through a run: what each attention layer was given is kept, weights are made from it on demand."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float

from headwise.errors import ConfigError, Unsupported, unknown
from headwise.explain import heads as of_heads
from headwise.explain.attribution import Attribution, rollout_within
from headwise.explain.explanation import Layer, part_of
from headwise.explain.folding import Fold, fold_labels, fold_weights, group_numbers, tokens_of
from headwise.explain.layer_trace import LayerTrace, layer_trace
from headwise.explain.places import InGraph, Places, Tokens
from headwise.explorer.long_maps import How, Maps, is_long, on_demand
from headwise.predictors.looking import Attended, Pass, allowed, fitting
from headwise.predictors.watched_heads import look_at
from headwise.records import Edit, LayerRecord, RecordedCall, Trace, edit
from headwise.records.watching import head_numbers
from headwise.service.loaded import LoadedRun

Stage = Literal["scores", "masked", "weights"]
# heads, queries, keys
Shape = tuple[int, int, int]
# weights that are made at once, in double precision
_MOST_PAIRS = 1 << 25
# weights that are made to choose the head on which a group opens
_MOST_OPENING = 1 << 21
# weights above 1 - 1 / CERTAIN tell less the nearer they are to 1
_CERTAIN = 10
# a salient pair below this tells less of a head than how sharp all of its rows are
_FAINT = 0.15


@dataclass(frozen=True)
class Group:
    """Layers that are alike: the same part of the model, the same tokens as rows and as columns.

    Args:
        name: part and kind, such as "decoder cross".
    """

    name: str
    kind: str
    layers: list[str]
    heads: int
    queries: list[str]
    keys: list[str]
    causal: bool

    @property
    def long(self) -> bool:
        """Whether its heads are shown as maps of blocks."""
        return is_long(len(self.queries), len(self.keys))

    @property
    def whole(self) -> bool:
        """Whether the weights of all heads of a layer are made at once: tables and similarities need them."""
        return self.heads * len(self.queries) * len(self.keys) <= _MOST_PAIRS

    @property
    def one_sequence(self) -> bool:
        """Whether row and column i are the same position; only then can attention be followed through layers."""
        return of_heads.is_one_sequence(self.kind, len(self.queries), len(self.keys))

    def described(
        self, weights: Float[np.ndarray, "heads rows columns"], tokens: Sequence[Tokens], fold: Fold
    ) -> list[dict[str, float]]:
        """What each head of one of its layers does, in a few numbers; of positions only within one sequence.

        Args:
            weights: between the rows and columns that are shown.
            tokens, fold: as they were folded.
        """
        table = of_heads.describe(weights, one_sequence=self.one_sequence)
        if self.one_sequence:
            labels, separators = fold_labels(self.keys, tokens, fold)
            table |= of_heads.roles(weights, labels, np.array(separators), causal=self.causal)
        return [dict(zip(table, map(float, head), strict=True)) for head in zip(*table.values(), strict=True)]


@dataclass(frozen=True, eq=False)
class Traced:
    """What a model did with one input.

    Args:
        item: the input, as its predictor reads it.
        target: the output that it was made to give; None: its own.
        seen: the pass that is shown.
        change: what the edits change in the answer; None: nothing is edited.
        notes: warnings about the input, such as words that the model does not know.
        places: what rows and columns are where they are no tokens.
    """

    id: str
    run: str
    item: Any
    target: str | None
    source: str
    output: str
    groups: list[Group]
    trace: Trace
    seen: Pass
    places: Places | None = None
    tokens: Sequence[Tokens] = ()
    edits: tuple[Edit, ...] = ()
    change: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()
    summaries: dict[tuple[str, Fold], list[dict[str, float]]] = field(default_factory=dict)
    maps: Maps = field(default_factory=Maps)
    attributions: dict[str, Attribution] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """Memory of the tensors that it keeps, of its attributions and of maps of long inputs."""
        calls = [call for record in self.trace if isinstance(record, LayerRecord) for call in record.calls]
        held_bytes = sum(tensor.nbytes for call in calls for tensor in (*call.call.tensors, call.output))
        # the worker may add one meanwhile
        return (
            held_bytes + self.maps.nbytes + sum(attribution.nbytes for attribution in list(self.attributions.values()))
        )

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The edits as they were asked for: those of two traces are equal where they say the same."""
        return self.change["edits"] if self.change else []

    def group(self, name: str) -> Group:
        """Raises: ConfigError for a group that is not there."""
        by_name = {group.name: group for group in self.groups}
        if name not in by_name:
            raise ConfigError(unknown("group", name, by_name))
        return by_name[name]

    def group_of(self, layer: str) -> Group:
        """The group of a layer. Raises: ConfigError for a layer that is not there."""
        for group in self.groups:
            if layer in group.layers:
                return group
        raise ConfigError(unknown("layer", layer, [name for group in self.groups for name in group.layers]))

    def weights(
        self, layer: str, heads: Sequence[int] | None = None, queries: slice = slice(None), keys: slice = slice(None)
    ) -> Float[np.ndarray, "heads queries keys"]:
        """Exact weights. Raises: ConfigError for a head or a layer that is not there."""
        record = self._record(layer)
        every, rows, columns = shape_of(record)
        pairs = (every if heads is None else len(heads)) * len(range(rows)[queries]) * len(range(columns)[keys])
        self._check_pairs(record, pairs)
        with torch.no_grad():
            weights = record.rows(heads, queries, keys)
        return weights[0].double().cpu().numpy()

    def overview(self, layer: str, head: int) -> dict[str, Any]:
        """What a map of a long input begins with, as JSON; raises as `tile`."""
        return self.maps.overview(layer, self._on_demand(layer, head), head, self._special(layer))

    def tile(
        self, layer: str, head: int, block: int, how: How, place: tuple[int, int]
    ) -> Float[np.ndarray, "rows columns"]:
        """A part of a map of blocks, as in `Maps.tile`.

        Raises: ConfigError for a head, a layer or a tile that is not there; Unsupported for a layer whose rows are not
            made on demand.
        """
        return self.maps.tile(layer, self._on_demand(layer, head), head, block, how, place)

    def rows(self, layer: str, head: int, queries: slice) -> Float[np.ndarray, "queries keys"]:
        """Exact rows of a head, minus infinity where the mask forbids a pair; raises as `tile`."""
        weights = self._on_demand(layer, head)
        values, allowed = weights.part([head], queries, slice(None))[0], weights.allowed(queries)
        return values if allowed is None else np.where(allowed[head if len(allowed) > 1 else 0], values, -np.inf)

    def small(self, layer: str, head: int, size: int) -> np.ndarray:
        """The small picture of one head of a long input; raises as `tile`."""
        whole = self.maps.whole(layer, self._on_demand(layer, head), head, self._special(layer))
        return of_heads.thumbnails(whole.maxima[None], size)[0]

    def _special(self, layer: str) -> tuple[list[int], list[int]]:
        """Queries and keys of a layer that are special tokens."""
        group = self.group_of(layer)
        sides = [tokens_of(side, self.tokens) for side in (group.queries, group.keys)]
        queries, keys = ([] if side is None else list(side.special) for side in sides)
        return queries, keys

    def _on_demand(self, layer: str, head: int) -> Attended:
        record = self._record(layer)
        head_numbers(layer, head, record.num_heads)
        return on_demand(record)

    def stage(self, layer: str, head: int, stage: Stage) -> Float[np.ndarray, "queries keys"]:
        """The products of queries and keys, the scores under the mask with all that is added, or the weights.

        Raises: ConfigError: for a head or a layer that is not there; Unsupported: for a mechanism without scores.
        """
        if stage == "weights":
            return self.weights(layer, [head])[0]
        record = self._record(layer)
        if head >= record.num_heads:
            raise ConfigError(f"{layer} has heads 0 to {record.num_heads - 1}, not {head}")
        # a mechanism makes each stage of all its heads
        self._check_pairs(record, math.prod(shape_of(record)))
        steps = [stages_of(call) for call in record.calls]
        names = {"scores": ("products", "scores"), "masked": ("masked", "biased", "scaled", "scores")}[stage]
        name = next((candidate for candidate in names if candidate in steps[0]), None)
        if name is None:
            raise Unsupported(f"{layer} has no scores: its mechanism makes its weights without any")
        values = torch.cat([step[name] for step in steps], dim=2)[0, head]
        return values.double().cpu().numpy()

    def summary(self, group: Group, layer: str, fold: Fold) -> list[dict[str, float]]:
        """Of each head of a layer what it does, in a few numbers."""
        if (layer, fold) not in self.summaries:
            self.summaries[layer, fold] = group.described(self.folded(group, layer, fold), self.tokens, fold)
        return self.summaries[layer, fold]

    def thumbnails(self, group: Group, size: int, layers: slice, fold: Fold) -> np.ndarray:
        """Small pictures (layers, heads, rows, columns)."""
        return np.stack([of_heads.thumbnails(self.folded(group, layer, fold), size) for layer in group.layers[layers]])

    def folded(self, group: Group, layer: str, fold: Fold) -> Float[np.ndarray, "heads rows columns"]:
        return fold_weights(self.weights(layer), (group.queries, group.keys), self.tokens, fold)

    def row(self, group: Group, *, query: int | None = None, key: int | None = None) -> np.ndarray:
        """One token through all layers and heads: (layers, heads, the other side)."""
        at_query = slice(None) if query is None else slice(query, query + 1)
        at_key = slice(None) if key is None else slice(key, key + 1)
        weights = [self.weights(layer, None, at_query, at_key) for layer in group.layers]
        return np.stack([block[:, 0] if query is not None else block[:, :, 0] for block in weights])

    def alike(self, layer: str) -> Float[np.ndarray, "heads heads"]:
        """How alike the heads of a layer are, from 0 to 1."""
        return of_heads.similarity(self.weights(layer))

    def salient_pair(self, layer: str, merged: bool = False) -> dict[str, Any]:
        """The pair of words that tells most of a layer, where a picture of it begins.

        A merged word is named by its first token; "piece" is the pair of its tokens with the largest weight, "even" the
        weight that equal weights would give it, by which words of many pieces would always have the most.

        Between two sequences the largest product of a weight and of the mean over all heads, so that what one head
        does alone comes later. Within one sequence the largest weight on another token than its own and the first one.
        Weights above 0.9 count less the nearer they are to 1: such a row compares nothing. Special tokens, punctuation
        and parts of words take part only where there is nothing else, and a key that is not the first of its row only
        where there is none that is.
        """
        group, exact, fold = self.group_of(layer), self.weights(layer), Fold(merged)
        sides = group.queries, group.keys
        weights = fold_weights(exact, sides, self.tokens, fold)
        even = fold_weights(_even(exact.shape[1:], group.causal), sides, self.tokens, fold)
        gains = np.maximum(weights - even, 0.0) if merged else weights
        rows, columns = (np.array(_are_words(side, self.tokens, fold)) for side in sides)
        apart = gains * _apart(group, weights) * np.minimum(1.0, _CERTAIN * (1 - weights))
        words = apart * (rows[:, None] & columns)
        merits = (words * (gains >= gains.max(-1, keepdims=True, initial=0.0)), words, apart)
        # a row that sees one key alone has all of its weight there
        place = next((table for table in merits if table.max(initial=0.0) > 0), weights).argmax()
        head, query, key = (int(index) for index in np.unravel_index(place, weights.shape))
        pair = {"head": head, "query": query, "key": key, "weight": float(weights[head, query, key])}
        if not merged:
            return pair
        numbers = (group_numbers(side, self.tokens, fold) for side in sides)
        members = [np.flatnonzero(np.array(of) == place) for of, place in zip(numbers, (query, key), strict=True)]
        block = exact[head][np.ix_(*members)]
        q, k = (int(side[at]) for side, at in zip(members, np.unravel_index(block.argmax(), block.shape), strict=True))
        piece = {"query": q, "key": k, "weight": float(exact[head, q, k])}
        named = {"query": int(members[0][0]), "key": int(members[1][0]), "even": float(even[0, query, key])}
        return pair | named | {"piece": piece}

    def opening(self, group: Group) -> list[int] | None:
        """The layer, by its place in the group, and the head on which a group opens.

        Between two sequences that of the salient pair of the last layer, or the sharpest where this pair is faint, as
        among hundreds of keys. Within one sequence the head whose rows look most at a single key other than their own,
        the first and special ones. In a graph the head whose rows lack most of the entropy of equal weights; read for
        one node, that of the first layer whose row is least even. None: where pictures are looked at, and where there
        are too many weights to make all of them first.
        """
        described = axis(group.keys, self.tokens, self.places)["kind"]
        chosen = self.places.chosen if isinstance(self.places, InGraph) else None
        pairs = len(group.keys) * (len(group.queries) if chosen is None else 1)
        if described == "nodes" and chosen is not None and 0 < pairs * group.heads <= _MOST_OPENING:
            return [0, _least_even(self.weights(group.layers[0], None, slice(chosen, chosen + 1)), [chosen])]
        if described == "nodes" and chosen is None and 0 < pairs * group.heads * len(group.layers) <= _MOST_OPENING:
            lacks = np.stack([_lack(self.weights(layer)) for layer in group.layers])
            return [int(index) for index in np.unravel_index(lacks.argmax(), lacks.shape)]
        if described in ("patches", "nodes") or not 0 < pairs * group.heads * len(group.layers) <= _MOST_OPENING:
            return None
        if not group.one_sequence:
            pair = self.salient_pair(group.layers[-1])
            head = pair["head"] if pair["weight"] >= _FAINT else self._sharpest(group)
            return [len(group.layers) - 1, head]
        side = tokens_of(group.keys, self.tokens)
        plain = np.arange(len(group.keys)) > 0
        plain[[] if side is None else list(side.special)] = False
        pointed = plain & ~np.eye(len(group.keys), dtype=bool)
        sharp = np.stack([(self.weights(layer) * pointed).max(-1).mean(-1) for layer in group.layers])
        return [int(index) for index in np.unravel_index(sharp.argmax(), sharp.shape)]

    def _sharpest(self, group: Group) -> int:
        """The head of the last layer whose words look most at one word each."""
        rows, columns = (_are_words(side, self.tokens, Fold()) for side in (group.queries, group.keys))
        return int((self.weights(group.layers[-1]) * np.outer(rows, columns)).max(-1).sum(-1).argmax())

    def rollout(self, group: Group) -> Float[np.ndarray, "queries keys"]:
        """Attention through all layers of a group. Raises: Unsupported where that means nothing."""
        if not group.one_sequence:
            raise Unsupported(f"rollout goes through layers of self-attention; {group.name} has none")
        return rollout_within(map(self.weights, group.layers))

    def steps(self, layer: str, head: int, *others: Edit) -> LayerTrace:
        """Every step of a head, edits included, and others behind them; raises as `layer_trace`, and as `stage` for too
        many pairs."""
        group, record = self.group_of(layer), self._record(layer)
        # in double precision
        self._check_pairs(record, 2 * math.prod(shape_of(record)))
        with edit(self.seen.model, *self.edits, *others):
            return layer_trace(self.seen.model, self.seen.run, layer, head, queries=group.queries, keys=group.keys)

    def _check_pairs(self, record: LayerRecord, count: int) -> None:
        if count > _MOST_PAIRS:
            _, rows, columns = shape_of(record)
            what = (self.places or Places()).advice
            raise Unsupported(f"{record.name} has {rows:,} x {columns:,} pairs, too many to be shown at once; {what}")

    def _record(self, layer: str) -> LayerRecord:
        self.group_of(layer)
        record: LayerRecord = self.trace[layer]
        return record


def _even(shape: tuple[int, ...], causal: bool) -> Float[np.ndarray, "1 queries keys"]:
    """The weights of a head that looks everywhere alike."""
    seen = np.tril(np.ones(shape)) if causal else np.ones(shape)
    return (seen / np.maximum(1, seen.sum(-1, keepdims=True)))[None]


def _apart(group: Group, weights: Float[np.ndarray, "heads rows columns"]) -> Float[np.ndarray, "..."]:
    """How much a pair counts beside its weight, by its place and by what all heads make of it."""
    _, rows, columns = weights.shape
    if group.one_sequence:
        at_rows, at_columns = np.arange(rows)[:, None], np.arange(columns)
        return ((at_rows != at_columns) & (at_columns > 0)).astype(float)
    if group.kind == "pooled":
        return np.ones((rows, columns))
    return weights.mean(0)


def _are_words(labels: Sequence[str], tokens: Sequence[Tokens], fold: Fold) -> list[bool]:
    """Whether each row or column is a whole word: no special token, no punctuation, no part of one."""
    if fold.merged:
        return [not separator for separator in fold_labels(labels, tokens, fold)[1]]
    return [_is_word(labels, place, tokens) for place in range(len(labels))]


def _is_word(labels: Sequence[str], place: int, tokens: Sequence[Tokens]) -> bool:
    side = tokens_of(labels, tokens)
    if not any(map(str.isalnum, labels[place])) or (side is not None and place in side.special):
        return False
    return side is None or side.words[place] < 0 or list(side.words).count(side.words[place]) == 1


def stages_of(call: RecordedCall) -> dict[str, torch.Tensor]:
    with torch.no_grad():
        return {step.name: step.values for step in call.mechanism.stages(call.call)}


def traced(run: LoadedRun, item: Any, target: str | None, key: str | None = None) -> Traced:
    """The trace of an input.

    Args:
        target: the output that the model is made to give; None: its own.
        key: what tells the input from others; None: the input is a text, which does.

    Raises: Unsupported if the model has no attention.
    """
    look = look_at(run.predictor, item, target)
    explanation = look.explanation
    groups = grouped(
        {name: (_of(layer, record), shape_of(record)) for name, (layer, record) in look.layers.items()},
        explanation.places,
    )
    name = digest_of(run, item, target, key)
    parts = (groups, look.trace, look.seen, explanation.places, explanation.tokens)
    return Traced(name, run.name, item, target, explanation.source, explanation.output, *parts)


def _of(layer: Layer, record: LayerRecord) -> Layer:
    """A layer by what it attends to: an explanation may show places of its own sequence as if they were of another."""
    kind: Any = record.kind
    if layer.kind != "cross":
        return layer
    pairs = allowed(record)
    causal = kind == "self" and pairs is not None and bool((pairs == (np.tri(*pairs.shape[1:]) > 0)).all())
    return replace(layer, kind=kind, causal=causal)


def digest_of(run: LoadedRun, item: Any, target: str | None, key: str | None = None) -> str:
    """The name of the trace of an input: after all that it depends on; arguments as of `traced`."""
    text = json.dumps([run.identity, item if key is None else [key], target])
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def grouped(layers: Mapping[str, tuple[Layer, Shape]], places: Places | None = None) -> list[Group]:
    """Layers of the same part, kind, size and tokens together, in the order of the model.

    Args:
        places: what names the places of a layer that has no labels, and writes those that it has.
    """
    names = [] if places is None else places.place_names()
    members_of: dict[tuple[Any, ...], list[str]] = {}
    for name, (layer, (heads, rows, columns)) in layers.items():
        keys = fitting(columns, layer.keys, list(names))
        shared = (
            part_of(name),
            layer.kind,
            heads,
            tuple(fitting(rows, layer.queries, keys)),
            tuple(keys),
            layer.causal,
        )
        members_of.setdefault(shared, []).append(name)
    titles: Counter[str] = Counter()
    named_groups = []
    for (part, kind, heads, queries, keys, causal), members in members_of.items():
        title = f"{part} {kind}"
        titles[title] += 1
        name = title if titles[title] == 1 else f"{title} {titles[title]}"
        if places is not None:
            queries, keys = places.on_pages(queries), places.on_pages(keys)
        named_groups.append(Group(name, kind, members, heads, list(queries), list(keys), causal))
    return named_groups


def _least_even(weights: Float[np.ndarray, "heads rows keys"], own: Sequence[int]) -> int:
    """The head whose rows look most at one key other than their own, beyond what equal weights would give it.

    Args:
        own: the key of each row that is the row itself.
    """
    others = weights.copy()
    others[:, np.arange(len(own)), own] = 0
    even = 1 / np.maximum(1, (weights > 0).sum(-1))
    return int((others.max(-1) - even).mean(-1).argmax())


def _lack(weights: Float[np.ndarray, "heads rows keys"]) -> Float[np.ndarray, "heads"]:
    """What the rows of each head lack of the entropy of equal weights, on average of those with a choice."""
    counts = (weights > 0).sum(-1)
    logs = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
    shares = -(weights * logs).sum(-1) / np.log(np.maximum(2, counts))
    return np.where(counts > 1, 1 - shares, 0).sum(-1) / np.maximum(1, (counts > 1).sum(-1))


def shape_of(record: LayerRecord) -> Shape:
    """Heads, queries, keys."""
    shapes = [recorded.call.shape for recorded in record.calls]
    return record.num_heads, sum(shape[2] for shape in shapes), max(shape[3] for shape in shapes)


def axes(traced: Traced) -> dict[str, Any]:
    """What the rows and columns of each group are, and what they lie on, as JSON."""
    places = {"places": None if traced.places is None else traced.places.description()}
    return places | {"axes": axes_of(traced.groups, traced.tokens, traced.places)}


def axes_of(groups: Sequence[Group], tokens: Sequence[Tokens], places: Places | None = None) -> dict[str, Any]:
    return {
        group.name: {side: axis(getattr(group, side), tokens, places) for side in ("queries", "keys")}
        for group in groups
    }


def axis(labels: list[str], tokens: Sequence[Tokens], places: Places | None) -> dict[str, Any]:
    """What the places with these labels are, as JSON."""
    if places is not None and (description := places.axis(labels)) is not None:
        return description
    match = tokens_of(labels, tokens)
    if match is None:
        return {"kind": "tokens"}
    return {"kind": "tokens", "words": list(match.words), "special": list(match.special)}
