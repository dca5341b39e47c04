"""The base of every attention mechanism, and what `headwise list mechanisms` says of one."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention.call import Call
from headwise.attention.normalizers import Softmax
from headwise.attention.scores import ScaledDot
from headwise.attention.steps import PAIRS, Step
from headwise.attention.weights import cut
from headwise.errors import Unsupported


@dataclass(frozen=True)
class Facts:
    """What is known of a mechanism before it runs; n is the length, d the width of a head.

    Args:
        formula: one line.
        paper: author, year, arXiv id.
        family: "definition", "kernel", "low-rank", "pattern", "recurrence" or "mixing".
        time, memory: order of growth, such as "n^2 d".
        exact: "yes" where it computes softmax attention itself, else in which limit it does, or "another function".
        honours: "any" mask, or only those that say which "keys" there are, and `Causal()`; others raise Unsupported.
        causal: whether it can hide later keys.
        cross: whether queries and keys may be different sequences.
        recurrent: whether it has a recurrent form, which decodes with constant memory.
        bias: whether it honours a bias on scores.
        relative: whether it honours relative positions.
        bidirectional: whether it can let queries see later keys; else every call needs a causal mask.
        steps: how it goes on from cached keys: "shared" if those of several hypotheses may lie side by side, told apart
            by a bias, "own" if each hypothesis needs its own, "none" if one step does not follow another.
    """

    formula: str = "not stated"
    paper: str = "not stated"
    family: Literal["definition", "kernel", "low-rank", "pattern", "recurrence", "mixing"] = "definition"
    time: str = "not stated"
    memory: str = "not stated"
    exact: str = "another function"
    honours: Literal["any", "keys"] = "any"
    causal: bool = True
    cross: bool = True
    recurrent: bool = False
    bias: bool = True
    relative: bool = True
    bidirectional: bool = True
    steps: Literal["shared", "own", "none"] = "shared"

    @property
    def masks(self) -> str:
        """The masks that it honours, in words."""
        if self.honours == "any":
            return "any"
        if not self.bidirectional:
            return "Causal(), alone or with padding of keys"
        return "Causal(), padding of keys, and both together" if self.causal else "padding of keys"


State = tuple[Tensor, ...]


class Mechanism(nn.Module, ABC):
    """A function of query, key and value that is linear in the value.

    It honours mask, bias and relative positions of a call exactly or raises Unsupported, saying what it got and what
    it can do. One of your own defines `forward`; `facts` says what is known of it, in words and for `require`.

    >>> class Mean(Mechanism):
    ...     def forward(self, call):
    ...         return call.value.mean(2, keepdim=True).expand(-1, -1, call.query.shape[2], -1)
    >>> x = torch.ones(2, 3, 5, 8)
    >>> Mean()(Call(x, x, x)).shape
    torch.Size([2, 3, 5, 8])
    """

    facts: ClassVar[Facts] = Facts()

    @classmethod
    def sized(cls, *, head_dim: int, num_heads: int, max_len: int, dropout: float) -> "Mechanism":
        """The mechanism for a model of these sizes; it takes what it needs of them, here nothing."""
        return cls()

    @abstractmethod
    def forward(self, call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
        """The attention output."""

    def weights(
        self,
        call: Call,
        heads: Sequence[int] | None = None,
        queries: slice = slice(None),
        keys: slice = slice(None),
    ) -> Float[Tensor, "batch heads queries keys"]:
        """The matrix W with output = W @ value, cut: the mechanism applied to identity values, in `eval()` or not."""
        batch, kv_heads, key_len, _ = call.key.shape
        identity = torch.eye(key_len, dtype=call.key.dtype, device=call.key.device)
        whole = self(replace(call, value=identity.expand(batch, kv_heads, key_len, key_len)))
        return cut(whole, heads, queries, keys)

    def stages(self, call: Call) -> list[Step]:
        """What lies between query, key and value and the output, each with formula and numbers; here the weights."""
        text = "what each value counts for each query; this mechanism has no scores that a normalizer acts on"
        return [Step("weights", "A", r"O = A V", PAIRS, self.weights(call), text)]

    def require(self, call: Call) -> None:
        """Raises: Unsupported for what the call asks and the facts exclude; masks are the mechanism's to check."""
        name = type(self).__name__
        if call.bias is not None and not self.facts.bias:
            raise Unsupported(f"{name} has no scores that a bias could be added to; use mechanism 'scored'")
        if call.relative is not None and not self.facts.relative:
            raise Unsupported(f"{name} has no place for relative positions; use mechanism 'scored'")
        if type(call.score) is not ScaledDot:
            raise Unsupported(f"{name} has its own score, not {type(call.score).__name__}; use mechanism 'scored'")
        if type(call.normalizer) is not Softmax:
            raise Unsupported(f"{name} has its own normalizer, not {call.normalizer.name}; use mechanism 'scored'")
        if call.dropout:
            raise Unsupported(f"{name} takes its dropout when it is built, not with the call")


class Recurrent(Mechanism, ABC):
    """A causal mechanism whose past fits into a state of constant size."""

    @abstractmethod
    def resume(self, call: Call, state: State | None) -> tuple[Float[Tensor, "batch heads new value_dim"], State]:
        """The causal output of new tokens after a past, and the state after them; None is the state of no past.

        The call holds the new tokens only; its mask is not looked at. Every tensor of a state has the batch as its
        first axis.
        """
