"""The weights of one input as they are saved: groups of layers and their numbers, whatever they come from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float

from headwise.errors import ConfigError, Unsupported, unknown
from headwise.explain.attribution import Attribution
from headwise.explain.explanation import Explanation, Layer
from headwise.explain.methods import METHODS
from headwise.explain.places import Places, Tokens
from headwise.explorer.traces import Group, Traced, grouped, shape_of
from headwise.predictors.looking import allowed
from headwise.records import LayerRecord, Trace

Weights = Float[np.ndarray, "heads queries keys"]
Allowed = Bool[np.ndarray, "#heads #queries #keys"]


@dataclass(frozen=True, eq=False)
class Content:
    """What a saved page shows.

    Args:
        source, output: what was read and what was said of it; empty where nobody knows.
        weights: those of a layer, made when they are asked for.
        allowed: which pairs the mask of a layer allows; None: all, or all that a causal one does.
        places: what rows and columns are where they are no tokens.
        attribution: what counts by a method, where that is shown in place of attention.
    """

    source: str
    output: str
    groups: list[Group]
    weights: Callable[[str], Weights]
    allowed: Callable[[str], Allowed | None]
    tokens: Sequence[Tokens] = ()
    places: Places | None = None
    attribution: Attribution | None = None

    @property
    def numbers(self) -> int:
        """How many weights there are."""
        return sum(len(group.layers) * group.heads * len(group.queries) * len(group.keys) for group in self.groups)

    def group(self, name: str) -> "Content":
        """One group alone. Raises: ConfigError for a group that is not there."""
        chosen = [group for group in self.groups if group.name == name]
        if not chosen:
            raise ConfigError(unknown("group", name, [group.name for group in self.groups]))
        return replace(self, groups=chosen)

    def layer(self, name: str) -> "Content":
        """One layer alone. Raises: ConfigError for a layer that is not there."""
        chosen = [replace(group, layers=[name]) for group in self.groups if name in group.layers]
        if not chosen:
            raise ConfigError(unknown("layer", name, [layer for group in self.groups for layer in group.layers]))
        return replace(self, groups=chosen)


def of_traced(traced: Traced) -> Content:
    layers = traced.groups, traced.weights, lambda name: allowed(traced.trace[name])
    return Content(traced.source, traced.output, *layers, traced.tokens, traced.places)


def of_explanation(explanation: Explanation) -> Content:
    """What a predictor explains. Raises: Unsupported where there is no attention in it."""
    layers = {name: layer for name, layer in explanation.layers.items() if layer.kind != "tags"}
    if not layers:
        raise Unsupported("this model has no attention to show")
    groups = grouped({name: (layer, layer.shape) for name, layer in layers.items()}, explanation.places)
    return Content(
        explanation.source,
        explanation.output,
        groups,
        lambda name: layers[name].weights,
        lambda name: layers[name].allowed,
        explanation.tokens,
        explanation.places,
        explanation if isinstance(explanation, Attribution) else None,
    )


def described(attribution: Attribution) -> dict[str, Any]:
    """The maps of a method, and its formula, source and limit, as JSON."""
    method = METHODS[attribution.method]
    texts = {name: getattr(method, name) for name in ("title", "formula", "source", "limit")}
    maps = []
    for name, layer in attribution.layers.items():
        legend = attribution.legend(name)
        maps.append(
            {
                "name": name,
                "kind": layer.kind,
                "heads": layer.shape[0],
                "queries": layer.queries,
                "keys": layer.keys,
                "causal": layer.causal,
                "rows": legend.rows,
                "columns": legend.keys,
                "quantity": legend.quantity,
                "signed": legend.signed,
            }
        )
    return {"by": attribution.method, **texts, "maps": maps}


def of_trace(trace: Trace, queries: Sequence[str] = (), keys: Sequence[str] = (), example: int = 0) -> Content:
    """What a record kept of one example of a batch.

    Args:
        queries, keys: tokens that are read and written; a layer takes for each side those that are as many as its
            places, and numbers where there are none. Keys are the queries where they are left out.

    Raises: ConfigError: where nothing was recorded, or the batch has no such example.
    """
    records = {record.name: record for record in trace if isinstance(record, LayerRecord) and record.calls}
    if not records:
        raise ConfigError("no attention was recorded: run the model while the record is open")
    sizes = {name: record.calls[-1].output.shape[0] for name, record in records.items()}
    if not 0 <= example < min(sizes.values()):
        raise ConfigError(f"example {example} is not there; the batch has examples 0 to {min(sizes.values()) - 1}")
    tokens = [list(map(str, side)) for side in (queries, keys) if len(side)]
    labelled = {name: _labelled(record, tokens) for name, record in records.items()}

    def weights(name: str) -> Weights:
        with torch.no_grad():
            values: np.ndarray = records[name].rows()[example].double().cpu().numpy()
        return values

    return Content("", "", grouped(labelled), weights, lambda name: allowed(records[name], example))


def _labelled(record: LayerRecord, tokens: list[list[str]]) -> tuple[Layer, tuple[int, int, int]]:
    heads, rows, columns = shape_of(record)
    sides: list[list[str]] = []
    for count, order in ((rows, tokens), (columns, tokens[::-1])):
        sides.append(next((labels for labels in order if len(labels) == count), []))
    kind: Any = record.kind
    return Layer(np.zeros((heads, 0, 0)), sides[0], sides[1], kind), (heads, rows, columns)


def content_of(source: Any, **how: Any) -> Content:
    """The content of what shows attention; `how` is for a trace, as in `of_trace`.

    Raises: ConfigError: for anything else, or for tokens of what has its own.
    """
    if isinstance(source, Trace):
        return of_trace(source, **how)
    if any(how.values()):
        raise ConfigError("an explanation has its own tokens and one example: leave queries, keys and example out")
    if isinstance(source, Traced):
        return of_traced(source)
    if isinstance(source, Explanation):
        return of_explanation(source)
    raise ConfigError(f"a trace or an explanation is shown, not {type(source).__name__}")
