"""The steps of one attention head while a trained model answers an input."""

from typing import Any

from headwise.errors import Unsupported
from headwise.explain.explanation import Explanation
from headwise.explain.layer_trace import LayerTrace, layer_trace
from headwise.predictors.looking import passes
from headwise.predictors.predictor import Predictor
from headwise.records.watching import layers


def steps(
    predictor: Predictor[Any, Any, Any], item: Any, target: str | None, layer: str | int | None = None, head: int = 0
) -> LayerTrace:
    """Every intermediate of a head, with the tokens of the input as its rows and columns.

    Args:
        item: an input, as `parse` makes it.
        target: the output that the model is made to give; None: its own.
        layer: name, or number as in `Explanation.layer_name`; None: the layer that says most.

    Raises: ConfigError: for a layer or a head that is not there; Unsupported: if the model has no attention.
    """
    with passes() as model_passes:
        explanation = predictor.explain(item, target)
    if not isinstance(explanation, Explanation) or not model_passes:
        raise Unsupported("this model has no attention, so there are no steps of it")
    attention_layers = layers(model_passes[-1].model)
    # a picture may be of something that is no attention, such as what places say
    name = layer if isinstance(layer, str) and layer in attention_layers else explanation.layer_name(layer)
    if layer is None and name not in attention_layers:
        name = next(iter(attention_layers))
    match = explanation.layers.get(name)
    queries, keys = ([], []) if match is None else (match.queries, match.keys)
    return layer_trace(model_passes[-1].model, model_passes[-1].run, name, head, queries=queries, keys=keys)
