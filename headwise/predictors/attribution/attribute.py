"""Attribution of a model's outputs to its inputs, by methods that go beyond the raw weights of attention.

Raw weights say where a layer looks. They leave out how large the values are that it finds there, what the layers below
have mixed into them, and what the rest of the model makes of them; each method here puts one of these in, and none of
them proves what a model would do with another input.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from headwise.errors import ConfigError, unknown
from headwise.explain.attribution import (
    Attribution,
    Norms,
)
from headwise.explain.explanation import Explanation, Layer
from headwise.explain.methods import METHODS
from headwise.explain.places import OnImage
from headwise.models.reversible import ReversibleEncoder
from headwise.predictors.attribution.analysis import Analysis, Maps, writes
from headwise.predictors.attribution.attention import by_alti, by_flow, by_norms, by_rollout
from headwise.predictors.attribution.blocks import by_ablation, by_lens, by_patching
from headwise.predictors.attribution.inputs import by_gradient, by_integrated, by_occlusion
from headwise.predictors.predictor import Predictor
from headwise.predictors.watched_heads import explained, look_at


def attribute(
    predictor: Predictor[Any, Any, Any], item: Any, by: str, target: str | None = None, other: Any = None
) -> Attribution:
    """How much each input counts for each output; for "ablation", "lens" and "patching", what heads and blocks do.

    Args:
        item: an input, or a text that `predictor.parse` reads.
        by: a key of `METHODS` of headwise/explain/methods.py, where each method has its formula, source and limit.
        target: the output to account for; None: the model's own.
        other: for "patching", an input of as many tokens.

    Raises:
        ConfigError: no such method.
        Unsupported: the model has no attention, or nothing that this method needs; the message says what.
    """
    if by not in METHODS:
        raise ConfigError(unknown("attribution", by, METHODS))
    if by == "patching" and other is None:
        raise ConfigError("by='patching' needs other=, an input of as many tokens")
    if by != "patching" and other is not None:
        raise ConfigError(f"by='{by}' takes no other=; leave it out")
    analysis = Analysis(predictor, look_at(predictor, item, target))
    explanation = analysis.look.explanation
    if other is not None:
        # what writes is made to write the same, as the same tokens
        output = target or (explanation.output if writes(predictor) else None)
        analysis = Analysis(predictor, look_at(predictor, item, output), explained(predictor, other, output)[1])
    attributed, signed = _COMPUTE[by](analysis)
    on_image, method = isinstance(explanation.places, OnImage) and by not in _OF_MODEL, METHODS[by]
    if on_image:
        attributed = {name: _shown_rows(explanation, layer) for name, layer in attributed.items()}
    note = f"{method.title}: {method.formula}\nsource: {method.source}\nlimit: {method.limit}"
    if by in ("lens", "patching"):
        modules = analysis.model_pass.model.named_modules()
        together = [name for name, module in modules if isinstance(module, ReversibleEncoder)]
        note += "".join(f"\n{name}: its layers are reversible, and count as one block" for name in together)
    source, output, tokens = explanation.source, explanation.output, explanation.tokens
    draw, places = (explanation.draw, explanation.places) if on_image else (None, None)
    return Attribution(source, output, attributed, draw, note, places, tokens, method=by, signed=signed)


# methods whose maps are of heads and blocks, not of inputs
_OF_MODEL = ("ablation", "lens", "patching")


def _shown_rows(explanation: Explanation, layer: Layer) -> Layer:
    """Of a layer over an image the query that the explanation shows, or the mean of all."""
    shown = next(iter(explanation.layers.values()))
    if len(shown.queries) > 1 or len(layer.queries) == 1:
        return layer
    assert isinstance(explanation.places, OnImage)
    chosen, count = explanation.places.chosen, len(layer.queries)
    rows = np.full((1, count), 1 / count) if chosen is None else np.eye(count)[chosen : chosen + 1]
    total = {"total": rows @ layer.total} if isinstance(layer, Norms) else {}
    return replace(layer, source=rows @ layer.weights, queries=shown.queries, **total)


_COMPUTE: dict[str, Callable[[Analysis], Maps]] = {
    "norms": by_norms,
    "rollout": by_rollout,
    "flow": by_flow,
    "alti": by_alti,
    "gradient": by_gradient,
    "integrated": by_integrated,
    "occlusion": by_occlusion,
    "ablation": by_ablation,
    "lens": by_lens,
    "patching": by_patching,
}
