"""The base of every attention mechanism."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention.masks import Mask


class Mechanism(nn.Module, ABC):
    """A function of query, key and value that is linear in the value.

    It honours mask and biases exactly or raises Unsupported, saying what it got and what it can do.
    """

    @abstractmethod
    def forward(
        self,
        query: Float[Tensor, "batch heads query_len query_dim"],
        key: Float[Tensor, "batch kv_heads key_len key_dim"],
        value: Float[Tensor, "batch kv_heads key_len value_dim"],
        *,
        mask: Mask | None = None,
        bias: Float[Tensor, "#batch #heads #query_len key_len"] | None = None,
        value_bias: Float[Tensor, "#batch #heads query_len key_len value_dim"] | None = None,
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
        query_start: int = 0,
    ) -> Float[Tensor, "batch heads query_len key_len"]:
        """The matrix W with output = W @ value: the mechanism applied to identity values."""
        batch, kv_heads, key_len, _ = key.shape
        identity = torch.eye(key_len, dtype=key.dtype, device=key.device).expand(batch, kv_heads, key_len, key_len)
        return self(query, key, identity, mask=mask, bias=bias, query_start=query_start)
