"""The base of every attention mechanism, and what `headwise list mechanisms` says of one."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention.masks import Mask
from headwise.attention.relative import Relative


@dataclass(frozen=True)
class Facts:
    """What is known of a mechanism before it runs; n is the length, d the width of a head.

    Args:
        formula: one line.
        paper: author, year, arXiv id.
        family: "definition", "kernel", "low-rank", "pattern", "recurrence" or "mixing".
        time, memory: order of growth, such as "n^2 d".
        exact: "yes" where it computes softmax attention itself, else in which limit it does, or "another function".
        causal: whether it can hide later keys.
        cross: whether queries and keys may be different sequences.
        recurrent: whether it has a recurrent form, which decodes with constant memory.
        masks: "any", or in words those that it honours; others raise Unsupported.
        bias: whether it honours a bias on scores.
        relative: whether it honours relative positions.
        bidirectional: whether it can let queries see later keys; else every call needs a causal mask.
        steps: how it goes on from cached keys: "shared" if those of several hypotheses may lie side by side, told apart
            by a bias, "own" if each hypothesis needs its own, "none" if one step does not follow another.
    """

    formula: str
    paper: str
    family: Literal["definition", "kernel", "low-rank", "pattern", "recurrence", "mixing"]
    time: str
    memory: str
    exact: str
    causal: bool
    cross: bool
    recurrent: bool
    masks: str
    bias: bool
    relative: bool
    bidirectional: bool = True
    steps: Literal["shared", "own", "none"] = "shared"


State = tuple[Tensor, ...]


class Mechanism(nn.Module, ABC):
    """A function of query, key and value that is linear in the value.

    It honours mask, bias and relative positions exactly or raises Unsupported, saying what it got and what it can do.
    """

    facts: ClassVar[Facts]

    @classmethod
    def sized(cls, *, head_dim: int, num_heads: int, max_len: int, dropout: float) -> "Mechanism":
        """The mechanism for a model of these sizes; it takes what it needs of them, here nothing."""
        return cls()

    @abstractmethod
    def forward(
        self,
        query: Float[Tensor, "batch heads query_len query_dim"],
        key: Float[Tensor, "batch kv_heads key_len key_dim"],
        value: Float[Tensor, "batch kv_heads key_len value_dim"],
        *,
        mask: Mask | None = None,
        bias: Float[Tensor, "#batch #heads #query_len key_len"] | None = None,
        relative: Relative | None = None,
        query_start: int = 0,
        finite: bool = False,
    ) -> Float[Tensor, "batch heads query_len value_dim"]:
        """The attention output. `query_start`: position of the first query. `finite`: keys and values hold no NaN."""

    def effective_weights(
        self,
        query: Float[Tensor, "batch heads query_len query_dim"],
        key: Float[Tensor, "batch kv_heads key_len key_dim"],
        *,
        mask: Mask | None = None,
        bias: Float[Tensor, "#batch #heads #query_len key_len"] | None = None,
        relative: Relative | None = None,
        query_start: int = 0,
    ) -> Float[Tensor, "batch heads query_len key_len"]:
        """The matrix W with output = W @ value: the mechanism applied to identity values."""
        batch, kv_heads, key_len, _ = key.shape
        identity = torch.eye(key_len, dtype=key.dtype, device=key.device).expand(batch, kv_heads, key_len, key_len)
        return self(query, key, identity, mask=mask, bias=bias, relative=relative, query_start=query_start)


class Recurrent(Mechanism, ABC):
    """A causal mechanism whose past fits into a state of constant size."""

    @abstractmethod
    def resume(
        self,
        query: Float[Tensor, "batch heads new query_dim"],
        key: Float[Tensor, "batch kv_heads new key_dim"],
        value: Float[Tensor, "batch kv_heads new value_dim"],
        state: State | None,
    ) -> tuple[Float[Tensor, "batch heads new value_dim"], State]:
        """The causal output of new tokens after a past, and the state after them; None is the state of no past.

        Every tensor of a state has the batch as its first axis.
        """
