"""What the heads of a model do in inputs: the layers of a pass, the steps of a head, statistics over several inputs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from headwise.errors import Unsupported
from headwise.explain.explanation import Explanation, Layer
from headwise.explain.heads import HeadStatistics, is_one_sequence
from headwise.explain.layer_trace import LayerTrace, layer_trace
from headwise.predictors.looking import NOTHING, Pass, fitting, passes
from headwise.predictors.predictor import Predictor
from headwise.records import LayerRecord, Trace, watching


@dataclass(frozen=True)
class Look:
    """The attention layers of one pass by name, each with what an explanation says of it and what was recorded.

    Args:
        layers: by the names that the trace has them by.
    """

    explanation: Explanation
    seen: Pass
    trace: Trace
    layers: dict[str, tuple[Layer, LayerRecord]]

    def labels(self, name: str) -> tuple[list[str], list[str]]:
        """What the rows and the columns of a layer are, as many as it has.

        An explanation may show some rows alone, or words in place of their tokens; then the places have numbers.
        """
        layer, record = self.layers[name]
        shapes = [recorded.call.shape for recorded in record.calls]
        rows, columns = sum(shape[2] for shape in shapes), max(shape[3] for shape in shapes)
        keys = fitting(columns, layer.keys)
        return fitting(rows, layer.queries, keys), keys


def explained(predictor: Predictor[Any, Any, Any], item: Any, target: str | None) -> tuple[Explanation, Pass, Trace]:
    """An explanation, the pass that it is of, and its trace; raises as `look_at`."""
    with passes() as model_passes:
        explanation = predictor.explain(item, target)
    if not isinstance(explanation, Explanation) or not model_passes:
        raise Unsupported(NOTHING)
    return explanation, *model_passes[-1]


def look_at(predictor: Predictor[Any, Any, Any], item: Any, target: str | None) -> Look:
    """What every attention layer did while a model answered an input, or was made to give `target`.

    Raises:
        Unsupported: if the model has no attention.
        ConfigError: an input or a target that `Predictor.explain` refuses.
    """
    explanation, model_pass, trace = explained(predictor, item, target)
    renamed = {_recorded(name, trace): layer for name, layer in explanation.layers.items()}
    layers = {name: (layer, trace[name]) for name, layer in renamed.items() if name and trace[name].calls}
    if not layers:
        raise Unsupported(NOTHING)
    return Look(explanation, model_pass, trace, layers)


def _recorded(name: str, trace: Trace) -> str:
    """The name by which a trace has a layer of an explanation, which may leave out how its model was wrapped."""
    return next((full_name for full_name in trace.names() if full_name == name or full_name.endswith(f".{name}")), "")


def steps(
    predictor: Predictor[Any, Any, Any], item: Any, target: str | None, layer: str | int | None = None, head: int = 0
) -> LayerTrace:
    """Every intermediate of a head, with the tokens of the input as its rows and columns.

    Args:
        target: the output that the model is made to give; None: its own.
        layer: name, or number as in `Explanation.layer_name`; None: the layer that says most.

    Raises: ConfigError for a layer or a head that is not there; Unsupported if the model has no attention.
    """
    explanation, model_pass, _ = explained(predictor, item, target)
    attention_layers = watching.layers(model_pass.model)
    # a picture may be of something that is no attention, such as what places say
    name = layer if isinstance(layer, str) and layer in attention_layers else explanation.layer_name(layer)
    if layer is None and name not in attention_layers:
        name = next(iter(attention_layers))
    match = explanation.layers.get(name)
    queries, keys = ([], []) if match is None else (match.queries, match.keys)
    return layer_trace(model_pass.model, model_pass.run, name, head, queries=queries, keys=keys)


def statistics_of(looks: Sequence[Look]) -> dict[str, HeadStatistics]:
    """The statistics of each layer by its name, over all inputs that were looked at."""
    by_layer: dict[str, list[HeadStatistics]] = {}
    for look in looks:
        for name, (_, record) in look.layers.items():
            weights = record.weights()[0].double().cpu().numpy()
            same = is_one_sequence(record.kind, *weights.shape[1:])
            by_layer.setdefault(name, []).append(HeadStatistics.of(weights, count_allowed(record), one_sequence=same))
    return {name: HeadStatistics.mean(parts) for name, parts in by_layer.items()}


def count_allowed(record: LayerRecord) -> np.ndarray:
    """How many keys each row may attend to, by mask and bias: (1 or heads, queries), of the first input of a batch."""
    parts = []
    for recorded in record.calls:
        _, _, rows, keys = recorded.call.shape
        keep = recorded.call.keep()
        count = torch.full((1, rows), keys) if keep is None else keep.expand(-1, -1, rows, keys)[0].sum(-1)
        parts.append(count.double().cpu().numpy())
    widest = max(len(part) for part in parts)
    return np.concatenate([np.broadcast_to(part, (widest, part.shape[1])) for part in parts], axis=1)
