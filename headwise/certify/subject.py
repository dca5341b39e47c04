"""What is tried: a mechanism or any function of query, key and value, and what it promises."""

import copy
import inspect
from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from headwise.attention.mechanisms._masks import per_head
from headwise.attention.mechanisms.mechanism import Facts, Mechanism
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.normalizers import (
    Entmax,
    Entmax15,
    Hard,
    Normalizer,
    ReLU,
    ReLU2,
    Scalable,
    Sigmoid,
    Softmax,
    Softmax1,
    Sparsemax,
    TopK,
    softmax,
)
from headwise.attention.scores import Bilinear, Dot, ScaledDot, Score
from headwise.certify.case import CAUSAL, MASKS, PADDED, Case
from headwise.errors import ShapeError, Unsupported

# what is assumed of a thing that states no facts: attention by its definition
ASSUMED = Facts(
    formula="softmax(q k^T / sqrt(d)) v",
    paper="none stated",
    family="definition",
    time="n^2 d",
    memory="n^2",
    exact="yes",
    causal=True,
    cross=True,
    recurrent=False,
    masks="any",
    bias=True,
    relative=True,
)

# weights of a row sum to 1 and do not change when a number is added to all scores
_SIMPLEX = (Softmax, Sparsemax, Entmax, Entmax15, Hard, TopK, Scalable)
_POSITIVE = (*_SIMPLEX, Softmax1, ReLU, ReLU2, Sigmoid)
# every allowed key gets a weight above 0
_DENSE = (Softmax, Softmax1, Scalable)


class Subject:
    """A mechanism to be tried.

    Args:
        name: for messages.
        make: (heads, dropout) -> the callable, with fresh parameters.
    """

    def __init__(self, name: str, make: Callable[[int, float], Callable[..., Any]]):
        self.name, self.make = name, make
        self._made: dict[tuple[int, torch.dtype, float, int], Callable[..., Any]] = {}

    def module(
        self,
        heads: int,
        dtype: torch.dtype = torch.float64,
        training: bool = False,
        dropout: float = 0.0,
        seed: int = 0,
    ) -> Callable[..., Any]:
        """The callable for so many heads, with the same numbers as parameters whatever their type."""
        kind = (heads, dtype, dropout, seed)
        if kind not in self._made:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                self._made[kind] = _settled(self.make(heads, dropout), dtype)
        module = self._made[kind]
        return module.train(training) if isinstance(module, nn.Module) else module

    def run(
        self, case: Case, query: Tensor, key: Tensor, value: Tensor, *, dropout: float = 0.0, **options: Any
    ) -> Tensor:
        """The output in a case; options in place of the mask of the case, and besides it.

        Raises: ShapeError if it is no tensor of the right shape.
        """
        if key.shape[1] != query.shape[1] and not self.grouped:
            key, value = (per_head(tensor, query.shape[1]) for tensor in (key, value))
        options = {"mask": case.made_mask(), **options}
        given = {name: option for name, option in options.items() if option is not None}
        output = self.module(query.shape[1], case.dtype, case.training, dropout)(query, key, value, **given)
        wanted = (*query.shape[:3], value.shape[-1])
        if not isinstance(output, Tensor):
            raise ShapeError(f"it returns {type(output).__name__}, no tensor (batch, heads, query_len, value_dim)")
        if tuple(output.shape) != wanted:
            have = tuple(output.shape)
            raise ShapeError(f"it returns shape {have}; (batch, heads, query_len, value_dim) is {wanted}")
        return output

    def takes(self, option: str) -> bool:
        """Whether it can be called with this option."""
        module = self.module(1)
        function = module.forward if isinstance(module, nn.Module) else module
        parameters = inspect.signature(function).parameters.values()
        return any(p.name == option or p.kind is p.VAR_KEYWORD for p in parameters)

    def refuses(self, mask: str = "none", **options: Any) -> bool:
        """Whether it raises Unsupported for a mask or an option."""
        case = Case(2, 2, 2, 3, 3, mask=mask)
        try:
            self.run(case, *case.tensors(), **options)
        except Unsupported:
            return True
        except Exception:
            # another fault: the invariant that meets it reports it
            return False
        return False

    @cached_property
    def grouped(self) -> bool:
        """Whether it takes fewer heads of key and value; of one that says nothing of itself this is found out."""
        if self.states_facts:
            return True
        # one head alone would fit by broadcasting
        case = Case(1, 4, 2, 2, 2)
        query, key, value = case.tensors()
        try:
            return tuple(self.module(4, case.dtype)(query, key, value).shape) == (*query.shape[:3], value.shape[-1])
        except Exception:
            return False

    @property
    def states_facts(self) -> bool:
        """Whether it says what it promises."""
        return isinstance(getattr(self.module(1), "facts", None), Facts)

    @cached_property
    def facts(self) -> Facts:
        """What it says of itself, or what is assumed."""
        found = getattr(self.module(1), "facts", None)
        return found if isinstance(found, Facts) else ASSUMED

    @cached_property
    def is_mechanism(self) -> bool:
        """Whether layers can use it."""
        return isinstance(self.module(1), Mechanism)

    @cached_property
    def masks(self) -> tuple[str, ...]:
        """Names of the masks that it promises to honour."""
        if not self.takes("mask"):
            return ("none",)
        facts = self.facts
        found = [name for name in MASKS if name not in CAUSAL or facts.causal]
        if not facts.masks.startswith("any"):
            padded = PADDED if "padding" in facts.masks.lower() else ()
            found = [name for name in found if name in ("none", "causal", *padded)]
        if self.needs_causal:
            found = [name for name in found if name in CAUSAL]
        if not self.states_facts:
            found = [name for name in found if not self.refuses(name)]
        return tuple(found)

    @cached_property
    def needs_causal(self) -> bool:
        """Whether it is causal by definition, so that it must be told so."""
        return self.takes("mask") and self.refuses() and not self.refuses("causal")

    @property
    def open_mask(self) -> str:
        """The mask that hides least."""
        return "causal" if self.needs_causal else "none"

    def bias(self) -> bool:
        """Whether it promises to honour a bias."""
        return self.facts.bias and self.takes("bias")

    @cached_property
    def starts_later(self) -> bool:
        """Whether queries may stand behind position 0."""
        return self.takes("query_start") and not self.refuses(self.open_mask, query_start=1)

    @cached_property
    def definition(self) -> tuple[Score, Normalizer] | None:
        """The score and normalizer that define it, if it is attention by these."""
        module = self.module(1)
        if isinstance(module, Scored):
            return module.score, module.normalizer
        return (ScaledDot(), softmax) if self.facts.exact == "yes" else None

    def simplex(self) -> bool:
        """Whether weights of a row promise to sum to 1."""
        return self.definition is not None and isinstance(self.definition[1], _SIMPLEX)

    def positive(self) -> bool:
        """Whether weights promise not to be negative."""
        return self.definition is not None and isinstance(self.definition[1], _POSITIVE)

    def dense(self) -> bool:
        """Whether every allowed key promises to have an influence."""
        return self.definition is not None and isinstance(self.definition[1], _DENSE)

    def dot(self) -> bool:
        """Whether scores are proportional to the query."""
        return self.definition is not None and isinstance(self.definition[0], Dot | ScaledDot | Bilinear)

    def step(self) -> bool:
        """Whether its outputs jump, or a stand-in takes the place of its gradient."""
        return self.definition is not None and isinstance(self.definition[1], Hard)

    @cached_property
    def head_state(self) -> str | None:
        """The name of a parameter or buffer that differs by head."""
        two, three = (self.module(heads) for heads in (2, 3))
        if not isinstance(two, nn.Module) or not isinstance(three, nn.Module):
            return None
        others = three.state_dict()
        return next((name for name, tensor in two.state_dict().items() if tensor.shape != others[name].shape), None)

    def scored_in(self, case: Case) -> tuple[Score, Normalizer]:
        """The definition with the parameters of a case, in float64."""
        module = self.module(case.heads)
        if isinstance(module, Scored):
            return module.score, module.normalizer
        assert self.definition is not None
        return self.definition


def _settled(module: Callable[..., Any], dtype: torch.dtype) -> Callable[..., Any]:
    if not isinstance(module, nn.Module):
        return module
    module = copy.deepcopy(module)
    for parameter in module.parameters():
        # what starts as zeros or an identity would hide what it does
        parameter.data.add_(torch.randn(parameter.shape), alpha=0.1)
    # numbers that bfloat16 has too: every type computes the same function
    return module.to(torch.bfloat16).to(dtype)
