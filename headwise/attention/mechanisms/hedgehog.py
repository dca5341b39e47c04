"""Hedgehog: linear attention whose features are learned to be as peaked as the exponential."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention.mechanisms._gates import by_head
from headwise.attention.mechanisms._recurrence import KERNEL, Call, Keys, Recurrence, State, Terms, per_head


class HeadMap(nn.Module):
    """softmax([W x + b, -W x - b]) with a W and b of each head, which start as the identity and 0."""

    def __init__(self, head_dim: int, num_heads: int):
        super().__init__()
        # no nn.Linear: initializers of models fill those
        self.weight = nn.Parameter(torch.eye(head_dim).repeat(num_heads, 1, 1))
        self.bias = nn.Parameter(torch.zeros(num_heads, head_dim))

    def forward(self, x: Float[Tensor, "batch heads length dim"]) -> Float[Tensor, "batch heads length features"]:
        projected = x @ self.weight.to(x.dtype).mT + by_head(self.bias, x.dtype)
        return torch.cat((projected, -projected), -1).softmax(-1)


class Hedgehog(Recurrence):
    """Hedgehog: linear attention with phi(x) = softmax([W x + b, -W x - b]), a W and b of each head for q and for k.

    The state is 2 d x (d + 1) numbers a head.

    Args:
        head_dim: width of a query; phi is twice as wide.
    Raises: as `Recurrence`.
    Source: Zhang et al. 2024, arXiv:2402.04347, section 4.2 (softmax over the features, as the authors' code has it).
    fla puts 2 x in and has one W and b for all heads: load them doubled, once for each head. `linear` with
    `features=Hedgehog(...)` has one map for all heads, queries and keys.

    >>> x = torch.ones(2, 3, 5, 8)
    >>> Hedgehog(8, 3)(Call(x, x, x)).shape
    torch.Size([2, 3, 5, 8])
    """

    facts = replace(
        KERNEL,
        formula="sum_j (phi(q) . phi(k_j)) v_j / sum_j phi(q) . phi(k_j), phi(x) = softmax([W x + b, -W x - b])",
    )
    normalised = True

    def __init__(self, head_dim: int, num_heads: int):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, head_dim
        self.query_map, self.key_map = HeadMap(head_dim, num_heads), HeadMap(head_dim, num_heads)

    def terms(self, call: Call, past: State, keys: Keys | None) -> tuple[Terms, State]:
        key, value = (per_head(x, call.shape[1]) for x in (call.key, call.value))
        return Terms(self.query_map(call.query), self.key_map(key), value), ()
