"""The inference twin of a predictor's model."""

from typing import Any, Generic, TypeVar

from torch import nn

from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.layers.decoding import Precision, for_inference, is_current
from headwise.records.watching import watched

M = TypeVar("M", bound=nn.Module)


class Twin(Generic[M]):
    """Makes the inference twin of a model, and makes it anew when the model or its weights changed."""

    def __init__(self) -> None:
        self._made: tuple[Precision, M] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # it shares weights with the model, so a copy makes its own
        return {"_made": None}

    def of(self, model: M, precision: Precision) -> M:
        """The twin; the model itself while it is watched."""
        if any(watched(module) for module in model.modules() if isinstance(module, Mechanism)):
            return model
        if self._made is None or self._made[0] != precision or not is_current(self._made[1], model):
            self._made = precision, for_inference(model, precision)
        return self._made[1]
