"""Based: linear attention whose features are the Taylor series of the exponential up to the square."""

import math
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.mechanisms._recurrence import KERNEL, Call, Keys, Recurrence, State, Terms

# what is larger counts as this, since its fourth power is summed
_LARGEST = 1e4


class Based(Recurrence):
    """Based: out_i = sum_j p(q_i . k_j / sqrt(d)) v_j / sum_j p(q_i . k_j / sqrt(d)) with p(x) = 1 + x + x^2 / 2.

    p is at least 1/2, so every weight is positive. Its features are 1, x and the d (d + 1) / 2 products of two numbers
    of x, so the state is d^2 / 2 times as wide as a value: the paper takes heads of 16. Numbers beyond 1e4 count as
    1e4.

    Raises: as `Recurrence`.
    Source: Arora et al. 2024, arXiv:2402.18668, section 4.1; the form of Zhang et al. 2024, arXiv:2402.04347. fla has
    d^2 products, each but the squares twice: the same p. It has no parameters, so nothing loads.

    >>> x = torch.zeros(1, 1, 2, 4)
    >>> key = torch.tensor([[[[2.0, 0, 0, 0], [0, 0, 0, 0]]]])
    >>> Based()(Call(x + 1, key, key))[0, 0, 0, 0].item()
    1.4285714626312256
    """

    facts = replace(KERNEL, time="n d^3", memory="n d^2 + d^3", exact="for small scores")
    normalised = True

    def terms(self, call: Call, past: State, keys: Keys | None) -> tuple[Terms, State]:
        return Terms(taylor(call.query), taylor(call.key), call.value), ()


def taylor(x: Float[Tensor, "batch heads length dim"]) -> Float[Tensor, "batch heads length features"]:
    """Features with taylor(x) . taylor(y) = 1 + s + s^2 / 2, s = x . y / sqrt(d)."""
    dim = x.shape[-1]
    x = x.clamp(-_LARGEST, _LARGEST) * max(1, dim) ** -0.25
    first, second = torch.triu_indices(dim, dim, device=x.device).unbind()
    # a product of two different numbers stands for both orders of them
    sizes = x.new_ones(len(first)).masked_fill(first == second, math.sqrt(0.5))
    squares = x.index_select(-1, first) * x.index_select(-1, second) * sizes
    return torch.cat((torch.ones_like(x[..., :1]), x, squares), -1)
