"""The inference twins of a predictor's model, one for each precision that is asked for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from torch import nn

from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.layers.inference import Precision, for_inference, has_int8, is_current, is_rounded
from headwise.records.watching import watched

M = TypeVar("M", bound=nn.Module)
Requested = Literal["auto", "fp32", "bf16", "int8"]


@dataclass(frozen=True, slots=True)
class Choice:
    """A precision, and why it was chosen.

    >>> str(Choice("int8", "products of 8 bits have 4.1 times the rate of float32 here"))
    'int8: products of 8 bits have 4.1 times the rate of float32 here'
    """

    precision: Precision
    reason: str

    def __str__(self) -> str:
        return f"{self.precision}: {self.reason}"


_TEST = Choice("int8", "under test")


class Twin(Generic[M]):
    """Makes the inference twin of a model, and makes it anew when the model, a part of it or a weight changed.

    `decide` chooses the precision where "auto" or "int8" is asked for, once; without it "auto" is float32. `instead`
    takes the place of every precision that is asked for.
    """

    def __init__(self) -> None:
        self.decide: Callable[[Requested], Choice] | None = None
        self.instead: Requested | None = None
        self._twins: dict[Precision, M] = {}
        self._choices: dict[Requested, Choice] = {}
        self._parts: list[tuple[str, object]] = []

    def __getstate__(self) -> dict[str, Any]:
        # it shares weights with the model, so a copy makes its own, and is checked by nobody
        return {"decide": None, "instead": self.instead, "_twins": {}, "_choices": {}, "_parts": []}

    def of(self, model: M, requested: Requested) -> M:
        """The twin; the model itself while it is watched."""
        modules = list(model.modules())
        if any(watched(module) for module in modules if isinstance(module, Mechanism)):
            return model
        precision, parts = self.choice(model, requested).precision, _parts(modules)
        if not _same(parts, self._parts):
            self._twins, self._parts = {}, parts
        twin = self._twins.get(precision)
        if twin is None or not is_current(twin, model):
            twin = self._twins[precision] = for_inference(model, precision)
        return twin

    def choice(self, model: M, requested: Requested) -> Choice:
        """The precision that a search in this one takes, and why."""
        requested = requested if self._choices.get("int8") is _TEST else self.instead or requested
        if requested in ("fp32", "bf16"):
            return Choice(requested, "as requested")
        if requested not in self._choices:
            self._choices[requested] = self._chosen(model, requested)
        return self._choices[requested]

    @property
    def choices(self) -> list[Choice]:
        """What was chosen so far where it was not requested."""
        return list(self._choices.values())

    def _chosen(self, model: M, requested: Requested) -> Choice:
        if not has_int8():
            return Choice("fp32", "this PyTorch has no products of 8 bits here")
        if not any(is_rounded(module, "int8") for module in model.modules()):
            return Choice("fp32", "no layer is large enough to gain by products of 8 bits, or none is on the processor")
        if self.decide is None:
            unchecked = "nothing to check 8 bits by"
            return Choice("fp32", unchecked) if requested == "auto" else Choice("int8", f"as requested; {unchecked}")
        # what decides searches in 8 bits to see how good they are
        self._choices["int8"] = _TEST
        try:
            return self.decide(requested)
        finally:
            del self._choices["int8"]


def _parts(modules: Sequence[nn.Module]) -> list[tuple[str, object]]:
    """Modules, parameters and buffers by their names: what was put in the place of another one is among them."""
    # a sentence takes less time than PyTorch's own walks by full names
    tables = [vars(module)[table] for module in modules for table in ("_modules", "_parameters", "_buffers")]
    return [("", modules[0]), *(part for table in tables for part in table.items())]


def _same(parts: list[tuple[str, object]], others: list[tuple[str, object]]) -> bool:
    if len(parts) != len(others):
        return False
    return all(part[0] == other[0] and part[1] is other[1] for part, other in zip(parts, others, strict=True))
