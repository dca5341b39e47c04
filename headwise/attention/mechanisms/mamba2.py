"""Mamba-2: a state space whose decay and step size follow from the input, one number for each head."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.mechanisms._gates import by_head, gates_of, step_shift
from headwise.attention.mechanisms._recurrence import Call, Keys, Output, Recurrence, State, Terms, per_head

# the longest step; what is longer would overflow in float32
_LONGEST = 1e4


class Mamba2(Recurrence):
    """Mamba-2: S_i = exp(-rate t_i) S_(i-1) + t_i k_i v_i^T, out_i = q_i S_i + skip v_i, t_i = softplus(w x_i + shift).

    In the paper's letters q, k, v are C, B, x and rate, t, skip are -A, Delta, D. Steps beyond 1e4 count as 1e4.

    Raises: as `Recurrence`.
    Source: Dao and Gu 2024, arXiv:2405.21060, eq. 16 and section 7. The paper's layer has `conv = 4`, and behind it
    RMSNorm(y silu(z)) where `head_norm` and `gate` here are RMSNorm(y) silu(z) of each head. Rates start as 1 .. heads,
    as in transformers, whose layer loads as A_log -> log_rate, dt_bias -> shift, D -> skip, the last rows of in_proj
    -> gates.maps.0, its x, B, C -> values, keys, queries; heads of a group have copies of the rows of its B and C.

    >>> from headwise.attention.masks import Causal
    >>> x = torch.ones(2, 3, 5, 8)
    >>> Mamba2(3)(Call(x, x, x, mask=Causal(), gates=torch.zeros(2, 3, 5, 1))).shape
    torch.Size([2, 3, 5, 8])
    """

    gate_width = 1

    def __init__(self, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.log_rate = nn.Parameter(torch.arange(1.0, num_heads + 1).log())
        self.shift = step_shift(num_heads)
        self.skip = nn.Parameter(torch.ones(num_heads))

    def terms(self, call: Call, past: State, keys: Keys | None) -> tuple[Terms, State]:
        (width,) = gates_of(call, 1)
        step = F.softplus(width + by_head(self.shift, width.dtype)).clamp(max=_LONGEST)
        decay = -by_head(self.log_rate, width.dtype).exp() * step
        return Terms(call.query, per_head(call.key, call.shape[1]) * step, call.value, decay), ()

    def finish(self, output: Output, terms: Terms) -> Float[Tensor, "batch heads length _"]:
        return output + by_head(self.skip, output.dtype) * terms.value
