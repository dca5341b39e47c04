"""The inference twin of a predictor's model."""

from typing import Any, Generic, TypeVar

from torch import nn

from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.layers.inference import Precision, for_inference, is_current
from headwise.records.watching import watched

M = TypeVar("M", bound=nn.Module)


class Twin(Generic[M]):
    """Makes the inference twin of a model, and makes it anew when the model, a part of it or a weight changed."""

    def __init__(self) -> None:
        self._made: tuple[Precision, M] | None = None
        self._parts: list[tuple[str, object]] = []

    def __getstate__(self) -> dict[str, Any]:
        # it shares weights with the model, so a copy makes its own
        return {"_made": None, "_parts": []}

    def of(self, model: M, precision: Precision) -> M:
        """The twin; the model itself while it is watched."""
        if any(watched(module) for module in model.modules() if isinstance(module, Mechanism)):
            return model
        parts = _parts(model)
        if (
            self._made is None
            or self._made[0] != precision
            or not _same(parts, self._parts)
            or not is_current(self._made[1], model)
        ):
            self._made, self._parts = (precision, for_inference(model, precision)), parts
        return self._made[1]


def _parts(model: nn.Module) -> list[tuple[str, object]]:
    """Every module, parameter and buffer by its names: what was put in the place of another one is among them."""
    parameters = model.named_parameters(remove_duplicate=False)
    return [*model.named_modules(), *parameters, *model.named_buffers(remove_duplicate=False)]


def _same(parts: list[tuple[str, object]], others: list[tuple[str, object]]) -> bool:
    if len(parts) != len(others):
        return False
    return all(part[0] == other[0] and part[1] is other[1] for part, other in zip(parts, others, strict=True))
