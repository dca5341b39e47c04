"""Where a forecaster looks: the weights of its attention over the steps of a history."""

import numpy as np
from jaxtyping import Float
from torch import Tensor, cat, inference_mode, nn

from headwise.explain.explanation import Layer
from headwise.layers.sequence_pooling import AttentionOverSequence, FirstOfSequence, LastOfSequence, MaxOverSequence
from headwise.models.forecaster import Forecaster, PooledForecaster, StepwiseForecaster, whole
from headwise.predictors import looking
from headwise.predictors.evaluating import evaluating

FRONT = "<cls>"


def looked_at(model: Forecaster, history: Float[Tensor, "one length columns"]) -> dict[str, Layer]:
    """The attention of every layer while a forecast is made of one history, and what its pooling takes.

    A pooling that takes the largest number of every column shows from which steps it takes how many.

    Raises: Unsupported for a model without attention whose pooling takes all steps alike, or always the same one.
    """
    if isinstance(model, StepwiseForecaster):
        return _stepped(model, history)
    assert isinstance(model, PooledForecaster)
    keys = [FRONT] * (model.front is not None) + _labels(history.shape[1])
    layers = {}
    if isinstance(model.pooling, MaxOverSequence):
        with evaluating(model), inference_mode():
            states = model.states(history)
            shares = model.pooling.shares(states, whole(states)).double().cpu().numpy()[None]
        layers["pooling"] = Layer(shares, ["forecast"], keys, "pooled")
        if not looking.has_attention(model):
            return layers
    for name, one in looking.attended(model, history).items():
        pooled = isinstance(model.pooling, AttentionOverSequence) and name.startswith("pooling.")
        rows = ["forecast"] if pooled else keys
        layers[name] = one.layer(rows, keys, "pooled" if pooled else None)
    return layers


def read_place(model: Forecaster) -> int | None:
    """The place from whose vector all of the forecast is made; None where it is made from several."""
    pooling = model.pooling if isinstance(model, PooledForecaster) else None
    if isinstance(pooling, FirstOfSequence):
        return 0
    return -1 if isinstance(pooling, LastOfSequence) and not pooling.backward else None


def _stepped(model: StepwiseForecaster, history: Tensor) -> dict[str, Layer]:
    """What the places that tell the forecast attend to, in one pass over the history and what was told."""
    length = history.shape[1]
    with evaluating(model), inference_mode():
        read = cat((history, model.rolled(history)[:, :-1]), 1)
    ahead = [f"+{step}" for step in range(1, model.horizon + 1)]
    keys = [*_labels(length), *ahead[:-1]]
    return {
        name.removeprefix("decoder."): one.layer(ahead, keys, "cross", rows=np.eye(len(keys))[length - 1 :])
        for name, one in looking.attended(_Following(model), read).items()
    }


def _labels(length: int) -> list[str]:
    """How many steps before the forecast each one is: the last one is 0."""
    return [str(step) for step in range(1 - length, 1)]


class _Following(nn.Module):
    """A stack that is asked what follows each step."""

    def __init__(self, model: StepwiseForecaster):
        super().__init__()
        self.decoder, self._following = model.decoder, model.following

    def forward(self, steps: Tensor) -> Tensor:
        return self._following(steps)
