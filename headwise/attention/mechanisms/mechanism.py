"""The base of every attention mechanism, and what `headwise list mechanisms` says of one."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import ClassVar, Literal, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headwise.attention import planner
from headwise.attention.call import Call, per_head
from headwise.attention.functions import arguments
from headwise.attention.kernels import plain
from headwise.attention.masks import Causal, Mask, Part, parts
from headwise.attention.mechanisms._gates import HeadGates
from headwise.attention.normalizers import Softmax
from headwise.attention.precision import uncast, wide
from headwise.attention.scores import ScaledDot
from headwise.attention.scores.score import check_built
from headwise.attention.stages import PAIRS, Stage, Working
from headwise.attention.weights import select_weights
from headwise.attention.weights import weights as exact_weights
from headwise.errors import ConfigError, Unsupported
from headwise.registry import papers


@dataclass(frozen=True)
class Facts:
    """What is known of a mechanism before it runs; n is the length, d the width of a head.

    What is not stated here is not promised, and a call that needs it is refused before `compute`.

    Args:
        formula: one line; if not stated, or that of the base class, the first of the documentation of a mechanism that
            names its source there.
        paper: author, year, arXiv id; if not stated, or that of the base class, those of that source.
        family: "definition", "kernel", "low-rank", "pattern", "recurrence" or "mixing".
        time, memory: order of growth, such as "n^2 d".
        exact: "yes" where it computes softmax attention itself, else in which limit it does, or "another function".
        honours: "any" mask, only those that say which "keys" there are, or "none" of these.
        causal: whether it honours `Causal()`, alone or with the masks above.
        cross: whether queries and keys may be different sequences.
        recurrent: whether it has a recurrent form, which decodes with constant memory.
        bias: whether it honours a bias on scores.
        relative: whether it honours relative positions.
        scored: whether it takes score, normalizer and dropout of a call in place of its own.
        apart: whether a head knows nothing of the others.
        bidirectional: whether it can let queries see later keys; else every call needs a causal mask.
        cache: how cached keys continue: "shared" if several hypotheses may share one cache, separated by a bias,
            "per_hypothesis" if each needs its own, "queries" if it keeps the queries too, which a later call gets as
            `Call.gates`, "none" if one step does not follow another.
    """

    formula: str = "not stated"
    paper: str = "not stated"
    family: Literal["definition", "kernel", "low-rank", "pattern", "recurrence", "mixing"] = "definition"
    time: str = "not stated"
    memory: str = "not stated"
    exact: str = "another function"
    honours: Literal["any", "keys", "none"] = "none"
    causal: bool = False
    cross: bool = False
    recurrent: bool = False
    bias: bool = False
    relative: bool = False
    scored: bool = False
    apart: bool = True
    bidirectional: bool = True
    cache: Literal["shared", "per_hypothesis", "queries", "none"] = "none"

    @property
    def masks(self) -> str:
        """The masks that it honours, in words."""
        if self.honours == "any":
            return "any"
        if self.honours == "none":
            return "Causal()" if self.causal else "none"
        if not self.bidirectional:
            return "Causal(), alone or with padding of keys"
        return "Causal(), padding of keys, and both together" if self.causal else "padding of keys"


# of softmax attention whose scores or weights are made in another way
SOFTMAX = Facts(
    time="n^2 d", memory="n^2", honours="any", causal=True, cross=True, bias=True, relative=True, cache="per_hypothesis"
)
# of those whose tokens act on later ones
FORWARD = replace(SOFTMAX, cross=False, bidirectional=False)
State = tuple[Tensor, ...]
# numbers of query heads; None: all
Heads = Sequence[int] | None
Weights = Float[Tensor, "batch heads queries keys"]
Rule = Callable[..., Tensor]
# what a mechanism defines in place of what checks its calls
_DEFINED = {"forward": "compute", "weights": "compute_weights", "stages": "compute_stages"}


class Mechanism(nn.Module, ABC):
    """A function of query, key and value that is linear in the value.

    It honours mask, bias and relative positions of a call exactly or raises Unsupported, saying what it got and what
    it can do. One of your own defines `compute`; `facts` says what it honours. Without facts it honours nothing, and a
    call with a mask never reaches its `compute`, `compute_weights` or `compute_stages`.

    >>> class Mean(Mechanism):
    ...     def compute(self, call):
    ...         mean = call.value.mean(2, keepdim=True).repeat_interleave(call.group, 1)
    ...         return mean.expand(-1, -1, call.query.shape[2], -1)
    >>> x = torch.ones(2, 3, 5, 8)
    >>> Mean()(Call(x, x, x)).shape
    torch.Size([2, 3, 5, 8])
    """

    facts: ClassVar[Facts] = Facts()
    # whether calls go to the planner as they are, which zeroes what they hide
    planned: ClassVar[bool] = False
    # whether its parameters learn from a loss of its own beside the output's
    teaches: ClassVar[bool] = False
    # heads, and width of a query, that its parameters are made for; None: any
    num_heads: int | None = None
    head_dim: int | None = None
    # gates of each head that are a linear map of the layer's input; 0: none, or `gate_module` makes others
    gate_width: int = 0

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in ("forward", "weights", "stages"):
            home = next(kind for kind in cls.__mro__ if name in kind.__dict__)
            if home is not Mechanism:
                raise ConfigError(f"{cls.__name__} defines {name}, which checks calls; define {_DEFINED[name]} instead")
        if source := papers(cls):
            # without the name before it
            line = re.sub(r"^[\w +-]+: ", "", (cls.__doc__ or "").partition("\n")[0].removesuffix("."))
            # facts of the base class are not those of this source, copied or not
            facts, base = cls.facts, next(kind.facts for kind in cls.__mro__[1:] if issubclass(kind, Mechanism))
            formula = line if facts.formula in ("not stated", base.formula) else facts.formula
            paper = source if facts.paper in ("not stated", base.paper) else facts.paper
            cls.facts = replace(facts, formula=formula, paper=paper)

    @classmethod
    def sized(cls, *, head_dim: int, num_heads: int, max_len: int, dropout: float) -> "Mechanism":
        """The mechanism for a model of these sizes; here it takes those that its constructor names."""
        sizes = {"head_dim": head_dim, "num_heads": num_heads, "max_len": max_len, "dropout": dropout}
        return cls(**{name: size for name, size in sizes.items() if name in signature(cls).parameters})

    def gate_module(self, d_model: int, num_heads: int) -> nn.Module | None:
        """A new module from a layer's input to `Call.gates`, which the layer owns; None: the mechanism takes none.

        It makes (batch, num_heads, length, width) of (batch, length, d_model): gates for every token of the keys.
        """
        return HeadGates(d_model, num_heads, direct=self.gate_width) if self.gate_width else None

    @final  # type: ignore[misc]
    def forward(self, call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
        """The attention output. Raises: Unsupported for what the facts exclude."""
        self.require(call)
        return self.compute(self._cleaned(call))

    @final
    def weights(
        self, call: Call, heads: Heads = None, queries: slice = slice(None), keys: slice = slice(None)
    ) -> Weights:
        """The matrix W with output = W @ value, cut. Raises: Unsupported for what the facts exclude."""
        self.require(call)
        return self.compute_weights(self._cleaned(call), heads, queries, keys)

    @final
    def stages(self, call: Call) -> list[Stage]:
        """What lies between query, key and value and the output, each with formula and numbers.

        Raises: Unsupported for what the facts exclude.
        """
        self.require(call)
        return self.compute_stages(self._cleaned(call))

    @abstractmethod
    def compute(self, call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
        """The attention output of a call that the facts allow; keys and values that no query sees are zero."""

    def compute_weights(self, call: Call, heads: Heads, queries: slice, keys: slice) -> Weights:
        """`weights` of a call that the facts allow: the mechanism applied to identity values, in `eval()` or not."""
        batch, kv_heads, key_len, _ = call.key.shape
        identity = torch.eye(key_len, dtype=call.key.dtype, device=call.key.device)
        # a hidden key has no weight: zeros in its row too
        weights = self(replace(call, value=identity.expand(batch, kv_heads, key_len, key_len), clean=False))
        return select_weights(weights, heads, queries, keys)

    def compute_stages(self, call: Call) -> list[Stage]:
        """`stages` of a call that the facts allow; here the weights."""
        text = "what each value counts for each query; this mechanism has no scores that a normalizer acts on"
        return [
            Stage("weights", "A", r"O = A V", PAIRS, self.weights(call), text, Working("formula", ("query", "key")))
        ]

    def _cleaned(self, call: Call) -> Call:
        if self.planned:
            return call
        cleaned = call.zero_unseen()
        # a token that is hidden as a key still asks
        return replace(cleaned, gates=call.gates) if self.facts.cache == "queries" else cleaned

    def require(self, call: Call) -> None:
        """Raises: Unsupported for what the call asks and the facts exclude."""
        self.require_terms(call)
        name, facts = type(self).__name__, self.facts
        if call.gates is None and (self.gate_width or type(self).gate_module is not Mechanism.gate_module):
            raise Unsupported(
                f"{name} takes gates from the input of its layer: use it in a MultiHeadAttention, or pass"
                " Call(gates=mechanism.gate_module(d_model, num_heads)(x))"
            )
        if facts.honours != "any" or not facts.bidirectional:
            self._require_mask(call)
        whole = facts.cache == "none" or (facts.cache == "queries" and call.gates is None)
        if whole and call.query_start:
            raise Unsupported(
                f"{name} reads a sequence as a whole and cannot go on from position {call.query_start};"
                " pass the whole sequence, or use mechanism 'scored'"
            )
        if not facts.cross and (call.cross or (whole and call.shape[2] != call.shape[3])):
            lengths = f"query_len ({call.shape[2]}) and key_len ({call.shape[3]}) must be equal"
            what = "the keys are of another sequence" if call.cross else lengths
            raise Unsupported(f"{name} is self-attention: {what}; use mechanism 'scored' to attend to another sequence")

    def extra_repr(self) -> str:
        """Heads and width, and the arguments of the constructor that are numbers or words and there by their names."""
        return arguments(self, "num_heads", "head_dim")

    def _require_mask(self, call: Call) -> None:
        name, facts, masks = type(self).__name__, self.facts, parts(call.mask)
        for part in masks if facts.honours != "any" else ():
            causal = part.structure().causal
            if not (facts.causal if causal else facts.honours == "keys" and is_of_keys(part, call)):
                kind = type(part).__name__
                raise Unsupported(
                    f"{name} cannot honour the mask {kind}; it honours {facts.masks}; use mechanism 'scored'"
                )
        # a step of decoding needs no mask: no key comes after its query
        ahead = facts.recurrent or call.query_start + 1 < call.shape[3]
        if not facts.bidirectional and ahead and not any(part.structure().causal for part in masks):
            shown = "no mask" if call.mask is None else f"the mask {type(call.mask).__name__}"
            raise Unsupported(
                f"{name} got {shown}, but its memory runs from a key to later queries: pass mask=Causal(), with padding"
                " of keys if there is any, or use mechanism 'linear'"
            )

    def require_terms(self, call: Call) -> None:
        """Raises: Unsupported for a bias, relative positions, score, normalizer or dropout that the facts exclude.

        ShapeError for other heads, or another width, than the mechanism was built for.
        """
        name = type(self).__name__
        for what, built, actual in (
            ("heads", self.num_heads, call.shape[1]),
            ("head_dim", self.head_dim, call.query.shape[-1]),
        ):
            if built is not None:
                check_built(self, what, built, actual)
        if call.bias is not None and not self.facts.bias:
            raise Unsupported(f"{name} has no scores that a bias could be added to; use mechanism 'scored'")
        if call.relative is not None and not self.facts.relative:
            raise Unsupported(f"{name} has no place for relative positions; use mechanism 'scored'")
        if self.facts.scored:
            return
        if type(call.score) is not ScaledDot:
            raise Unsupported(f"{name} has its own score, not {type(call.score).__name__}; use mechanism 'scored'")
        if type(call.normalizer) is not Softmax:
            raise Unsupported(f"{name} has its own normalizer, not {call.normalizer.name}; use mechanism 'scored'")
        if call.dropout:
            raise Unsupported(f"{name} takes its dropout when it is built, not with the call")


def is_of_keys(mask: Mask, call: Call) -> bool:
    """Whether a mask shows every query the same keys: says so, or has one row in its table for two queries."""
    return mask.structure().same_keys or table_of_two(mask, call).shape[2] == 1


def table_of_two(mask: Mask, call: Call) -> Bool[Tensor, "#batch #heads _ #key_len"]:
    """The table of a mask for two queries: a mask that does not depend on the query gives them one row."""
    batch, heads, query_len, key_len = call.shape
    return mask.dense(batch, heads, min(2, query_len), key_len, query_start=call.query_start, device=call.query.device)


def with_earlier_queries(call: Call, back: int) -> Call:
    """The call with `back` queries more, or all there are, before those it has, out of a cache that keeps queries.

    Without such a cache it is the call itself. Bias and relative positions are of the later queries, and left out.
    """
    if call.gates is None:
        return call
    first = max(0, call.query_start - back)
    query = call.gates[:, :, first : call.query_start + call.shape[2]].to(call.query.dtype)
    # of a longer sequence, of which there are the keys so far
    mask = Causal() if call.mask is None else Part(call.mask, None, 0)
    return replace(call, query=query, mask=mask, query_start=first, bias=None, relative=None, gates=None)


class Rescored(Mechanism, ABC):
    """Scored attention of another call, on the kernel that the planner chooses for that one."""

    dropout: float
    kernel: str = "auto"

    @abstractmethod
    def as_scored(self, call: Call, dropout: float) -> Call:
        """The other call, with this dropout of its weights."""

    def compute(self, call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
        other = self.as_scored(call, self.dropout if self.training else 0.0)
        return planner.run(other, self.kernel).to(call.value.dtype)

    def compute_weights(self, call: Call, heads: Heads, queries: slice, keys: slice) -> Weights:
        """The weights before dropout; only what is asked for is computed."""
        return exact_weights(self.as_scored(call, 0.0), heads, queries, keys)


class Written(Mechanism, ABC):
    """Attention as its definition writes it, pair by pair, with a score or normalizer that knows more than one pair."""

    def __init__(self, dropout: float = 0.0):
        super().__init__()
        self.dropout = dropout

    @abstractmethod
    def written(self, call: Call) -> tuple[Tensor | None, Rule | None, Rule | None]:
        """The table of what may meet, what makes scores of query and key, weights of scores; None: as the call says."""

    def compute(self, call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
        with uncast(call.query):
            dropped = replace(call, dropout=self.dropout if self.training else 0.0)
            return plain.attention(dropped, *self.written(call))

    def compute_weights(self, call: Call, heads: Heads, queries: slice, keys: slice) -> Weights:
        """The weights before dropout; a row need not sum to 1."""
        with uncast(call.query):
            return select_weights(plain.normalized(call, *self.written(call)), heads, queries, keys)

    def compute_stages(self, call: Call) -> list[Stage]:
        """The scores, before bias and mask, and the weights."""
        with uncast(call.query):
            _, score, _ = self.written(call)
            scores = (score or call.score)(wide(call.query), wide(per_head(call.key, call.shape[1])))
        text = "what query and key make of one another, before a mask hides some of it"
        pairs = Working("formula", ("query", "key"))
        stage = Stage("scores", "S", r"S_{ij} = s(q_i, k_j)", PAIRS, scores, text, pairs)
        text, weights = "what each value counts for each query", self.weights(call)
        return [stage, Stage("weights", "A", r"A = a(S)", PAIRS, weights, text, Working("formula", ("scores",)))]


class Recurrent(Mechanism, ABC):
    """A causal mechanism whose past fits into a state of constant size."""

    @abstractmethod
    def resume(self, call: Call, state: State | None) -> tuple[Float[Tensor, "batch heads new value_dim"], State]:
        """The causal output of new tokens after a past, and the state after them; None is the state of no past.

        The call holds the new tokens only; its mask is not looked at. Every tensor of a state has the batch as its
        first axis.
        """
