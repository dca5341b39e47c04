"""What is tried: a mechanism, or any function of query, key and value, and what it promises."""

import copy
import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from headwise.attention.call import Call, per_head
from headwise.attention.mechanisms.mechanism import Facts, Heads, Mechanism, Recurrent, State
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.normalizers import Normalizer, Softmax
from headwise.attention.precision import uncast
from headwise.attention.scores import ScaledDot, Score
from headwise.attention.stages import Stage
from headwise.errors import ShapeError, Unsupported
from headwise.testing.case import CAUSAL, HEAD_DIM, KEYS, MASKS, Case
from headwise.testing.numbers import gradients, seeded


def inputs(call: Call) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value."""
    return call.query, call.key, call.value


class Function(Mechanism):
    """A function of query, key and value, taken for softmax attention by its definition.

    It gets as many heads of key and value as of the query, and by name those of `mask`, `bias`, `relative` and
    `query_start` that it takes; what it does not take is refused.
    """

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function
        parameters = inspect.signature(function.forward if isinstance(function, nn.Module) else function).parameters
        options = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        self.takes = [name for name in ("mask", "bias", "relative", "query_start") if options or name in parameters]
        self.facts = Facts(  # type: ignore[misc]
            formula="softmax(q k^T / sqrt(d)) v",
            exact="yes",
            honours="any" if "mask" in self.takes else "none",
            causal="mask" in self.takes,
            cross=True,
            bias="bias" in self.takes,
            relative="relative" in self.takes,
            cache="shared" if "query_start" in self.takes else "none",
        )

    def compute(self, call: Call) -> Tensor:
        options = {name: getattr(call, name) for name in ("mask", "bias", "relative")}
        options |= {"query_start": call.query_start or None}
        requested = {name: option for name, option in options.items() if option is not None}
        for name in requested:
            if name not in self.takes:
                raise Unsupported(f"it takes no {name}")
        key, value = (per_head(tensor, call.shape[1]) for tensor in (call.key, call.value))
        return self.function(call.query, key, value, **requested)


class FromKeys(Mechanism):
    """A mechanism whose gates are made of the keys of a call, as a layer makes both of its input."""

    def __init__(self, mechanism: Mechanism, gates: nn.Module):
        super().__init__()
        self.mechanism, self.gates = mechanism, gates
        self.facts = mechanism.facts  # type: ignore[misc]

    def gated(self, call: Call) -> Call:
        """The call with gates, each head's from its keys."""
        keys = per_head(call.key, call.shape[1])
        # autocast rounds the maps of a layer, and here it is to change nothing
        with uncast(keys):
            gates: Tensor = self.gates(keys.flatten(0, 1))
        return replace(call, gates=gates.unflatten(0, keys.shape[:2]).squeeze(2))

    def compute(self, call: Call) -> Tensor:
        return self.mechanism(self.gated(call))

    def compute_weights(self, call: Call, heads: Heads, queries: slice, keys: slice) -> Tensor:
        return self.mechanism.weights(self.gated(call), heads, queries, keys)

    def compute_stages(self, call: Call) -> list[Stage]:
        return self.mechanism.stages(self.gated(call))


class RecurrentFromKeys(FromKeys, Recurrent):
    """The same with a recurrent form."""

    def resume(self, call: Call, state: State | None) -> tuple[Tensor, State]:
        """What the mechanism goes on with."""
        assert isinstance(self.mechanism, Recurrent)
        return self.mechanism.resume(self.gated(call), state)


def own_mechanism(module: Mechanism) -> Mechanism:
    """What is tried, without what makes its gates: for a layer, which makes them of its input."""
    return module.mechanism if isinstance(module, FromKeys) else module


def with_gates(mechanism: Mechanism) -> Mechanism:
    """The mechanism, which makes its gates of the keys if it takes some."""
    # what a mask hides from one head is not to change another one
    gates = mechanism.gate_module(HEAD_DIM, 1)
    if gates is None:
        return mechanism
    return (RecurrentFromKeys if isinstance(mechanism, Recurrent) else FromKeys)(mechanism, gates)


class Subject:
    """A mechanism to be tried.

    Args:
        make: (heads, dropout) -> a mechanism, or a function of query, key and value, with fresh parameters.
    """

    def __init__(self, name: str, make: Callable[[int, float], Callable[..., Any]]):
        self.name, self.make = name, make
        self._cache: dict[tuple[int, torch.dtype, float, int], Mechanism] = {}

    def module(
        self,
        heads: int,
        dtype: torch.dtype = torch.float64,
        training: bool = False,
        dropout: float = 0.0,
        seed: int = 0,
    ) -> Mechanism:
        """The mechanism for so many heads, with the same numbers as parameters whatever their type."""
        kind = (heads, dtype, dropout, seed)
        if kind not in self._cache:
            with seeded(seed):
                mechanism = self.make(heads, dropout)
                whole = mechanism if isinstance(mechanism, Mechanism) else Function(mechanism)
                self._cache[kind] = _settled(with_gates(whole), dtype)
        return self._cache[kind].train(training)

    def of(self, case: Case, *, dropout: float = 0.0, seed: int = 0) -> Mechanism:
        """The mechanism of a case."""
        return self.module(case.heads, case.dtype, case.training, dropout, seed)

    def run(self, case: Case, call: Call, *, dropout: float = 0.0) -> Tensor:
        """The output for a call in the type and mode of a case. Raises: ShapeError if it is no such tensor."""
        output = self.of(case, dropout=dropout)(call)
        expected = (*call.shape[:3], call.value.shape[-1])
        if not isinstance(output, Tensor):
            raise ShapeError(f"it returns {type(output).__name__}, no tensor (batch, heads, query_len, value_dim)")
        if tuple(output.shape) != expected:
            have = tuple(output.shape)
            raise ShapeError(f"it returns shape {have}; (batch, heads, query_len, value_dim) is {expected}")
        return output

    def results(self, case: Case, call: Call) -> tuple[Tensor, ...]:
        """The output, and the gradients of query, key and value from a fixed random sum of it."""
        output = self.run(case, call)
        return (output, *gradients(output, inputs(call)))

    @property
    def facts(self) -> Facts:
        """What it says of itself, or what is assumed."""
        return self.module(1).facts

    @property
    def states_facts(self) -> bool:
        """Whether it says what it promises."""
        return not isinstance(self.module(1), Function)

    @cached_property
    def masks(self) -> tuple[str, ...]:
        """Names of the masks that it promises to honour; of a function that says nothing this is found out."""
        facts = self.facts
        honoured = {"any": tuple(MASKS), "keys": KEYS, "none": ("none", "causal")}[facts.honours]
        names = [name for name in MASKS if name in honoured]
        names = [name for name in names if (facts.causal if name in CAUSAL else facts.bidirectional)]
        return tuple(names if self.states_facts else [name for name in names if not self._refuses(name)])

    @property
    def open_mask(self) -> str:
        """The mask that hides least."""
        return "none" if self.facts.bidirectional else "causal"

    def definition(self, heads: int = 1) -> tuple[Score, Normalizer] | None:
        """The score and normalizer that define it, in float64, if it is attention by these."""
        module = self.module(heads)
        if isinstance(module, Scored):
            return module.score or ScaledDot(), module.normalizer or Softmax()
        return (ScaledDot(), Softmax()) if self.facts.exact == "yes" else None

    def normalizes_as(self, kinds: tuple[type[Normalizer], ...]) -> bool:
        """Whether its definition has a normalizer of one of these kinds."""
        definition = self.definition()
        return definition is not None and isinstance(definition[1], kinds)

    def head_state(self) -> str | None:
        """The name of a parameter or buffer that differs by head."""
        two, three = (self.module(heads).state_dict() for heads in (2, 3))
        return next((name for name, tensor in two.items() if tensor.shape != three[name].shape), None)

    def _refuses(self, mask: str) -> bool:
        case = Case(2, 2, 2, 3, 3, mask)
        try:
            self.run(case, case.call())
        except Unsupported:
            return True
        except Exception:
            # another fault: the invariant that meets it reports it
            return False
        return False


def _settled(module: Mechanism, dtype: torch.dtype) -> Mechanism:
    module = copy.deepcopy(module)
    for parameter in module.parameters():
        # what starts as zeros or an identity would hide what it does
        parameter.data.add_(torch.randn(parameter.shape), alpha=0.1)
    # numbers that bfloat16 has too: every type computes the same function
    return module.to(torch.bfloat16).to(dtype)
