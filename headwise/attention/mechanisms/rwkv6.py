"""RWKV-6 (Finch): a memory with a decay of each feature from the input, and a bonus for the token itself."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention.mechanisms._gates import HeadGates, by_head, gates_of
from headwise.attention.mechanisms._recurrence import FADING, Call, Keys, Output, Recurrence, State, Terms
from headwise.errors import ConfigError

# exp of more than this leaves nothing of a state in any type
_STRONGEST = 8.0


class Rwkv6(Recurrence):
    """RWKV-6: out_i = q_i (S_(i-1) + diag(bonus) k_i v_i^T), S_i = diag(a_i) S_(i-1) + k_i v_i^T.

    a_i = exp(-exp(B tanh(A x_i) + shift)) has a number for each feature of the key. Decoding keeps the last key,
    value and decay beside S.

    Args:
        head_dim: width of a key.
        rank: width between A and B; 64 in the paper.
    Raises: ConfigError: a rank below 1; else as `Recurrence`.
    Source: Peng et al. 2024, arXiv:2404.05892, eq. 16 to 19. The paper's layer mixes each input with the one before it
    (token shift) in front of its projections, which a layer here does not, and has `head_norm = "layer"`, `gate =
    "element"`, `gate_activation = "silu"`. Equal to `naive_recurrent_rwkv6` of fla with scale 1; its layer loads as
    w_proj -> gates.maps.0.0 and .2, with its last bias -> shift, bonus -> bonus.

    >>> from headwise.attention.masks import Causal
    >>> x = torch.ones(2, 3, 5, 8)
    >>> Rwkv6(8, 3)(Call(x, x, x, mask=Causal(), gates=torch.zeros(2, 3, 5, 8))).shape
    torch.Size([2, 3, 5, 8])
    """

    facts = replace(
        FADING,
        formula="out_i = q_i (S_(i-1) + diag(u) k_i v_i^T), S_i = diag(a_i) S_(i-1) + k_i v_i^T, a = exp(-exp(w(x)))",
    )
    late = True

    def __init__(self, head_dim: int, num_heads: int, rank: int = 64):
        super().__init__()
        if rank < 1:
            raise ConfigError(f"rank ({rank}) of rwkv6 must be 1 or more")
        self.num_heads, self.head_dim, self.rank = num_heads, head_dim, rank
        # as in the paper's code: from slow to fast over the features
        speeds = torch.linspace(0, 1, head_dim).pow(0.9) * 5.0 - 6.0
        self.shift = nn.Parameter(speeds.repeat(num_heads, 1))
        self.bonus = nn.Parameter(torch.zeros(num_heads, head_dim))

    def gate_module(self, d_model: int, num_heads: int) -> nn.Module:
        width = self.shift.shape[1]
        return HeadGates(d_model, num_heads, narrow=(width,), rank=self.rank, activation=nn.Tanh())

    def terms(self, call: Call, past: State, keys: Keys | None) -> tuple[Terms, State]:
        (fade,) = gates_of(call, self.shift.shape[1])
        decay = -(fade + by_head(self.shift, fade.dtype)).clamp(max=_STRONGEST).exp()
        return Terms(call.query, call.key, call.value, decay), ()

    def finish(self, output: Output, terms: Terms) -> Float[Tensor, "batch heads length _"]:
        own = terms.query * by_head(self.bonus, output.dtype) * terms.key
        return output + own.sum(-1, keepdim=True) * terms.value
