"""RWKV-7 (Goose): a generalised delta rule with a decay and a rate of learning for each feature."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.mechanisms._gates import HeadGates, by_head, gates_of
from headwise.attention.mechanisms._recurrence import Call, Keys, Output, Recurrence, State, Terms, per_head
from headwise.errors import ConfigError

# exp(-0.5): the strongest decay is exp(-exp(-0.5)) = 0.545
_RATE = 0.6065306597126334
# what is larger counts as this: what is read of it is stored again
_LARGEST = 1e4


class Rwkv7(Recurrence):
    """RWKV-7: S_i = (diag(a_i) - (alpha_i n_i) n_i^T) S_(i-1) + k'_i v_i^T, out_i = q_i S_i + (q_i bonus k'_i) v_i.

    With n_i = k_i erased / |k_i erased| what is stored under n_i is taken off at the rates alpha_i, and k'_i = k_i (1 +
    (alpha_i - 1) replaced). Of the input are alpha_i = sigmoid(B_2 tanh(A_2 x_i) + rate_shift) and a_i = exp(-0.607
    sigmoid(B_1 tanh(A_1 x_i) + decay_shift)), each with a number for each feature. Numbers of keys beyond 1e4 count
    as 1e4.

    Args:
        head_dim: width of a key.
        rank: width between each A and B.
    Raises: ConfigError: a rank below 1; else as `Recurrence`.
    Source: Peng et al. 2025, arXiv:2503.14456, eq. 16 to 20. Equal to `naive` of fla's generalized_delta_rule.dplr with
    a = -n, b = alpha n. The paper's layer mixes each input with the one before (token shift) and each value with that
    of the first layer, has no tanh in the second pair, and adds the bonus behind its norm; fla's layer loads as k_k ->
    erased, k_a -> replaced, r_k -> bonus, w_lora and a_lora -> gates.maps with their biases -> the shifts.

    >>> from headwise.attention.masks import Causal
    >>> x = torch.ones(2, 3, 5, 8)
    >>> Rwkv7(8, 3)(Call(x, x, x, mask=Causal(), gates=torch.zeros(2, 3, 5, 16))).shape
    torch.Size([2, 3, 5, 8])
    """

    floor = -_RATE

    def __init__(self, head_dim: int, num_heads: int, rank: int = 64):
        super().__init__()
        if rank < 1:
            raise ConfigError(f"rank ({rank}) of rwkv7 must be 1 or more")
        self.num_heads, self.head_dim, self.rank = num_heads, head_dim, rank
        speeds = torch.linspace(0, 1, head_dim) * 6.0 - 6.0
        self.decay_shift = nn.Parameter(speeds.repeat(num_heads, 1))
        self.rate_shift = nn.Parameter(torch.zeros(num_heads, head_dim))
        self.erased = nn.Parameter(torch.full((num_heads, head_dim), 0.71))
        self.replaced = nn.Parameter(torch.full((num_heads, head_dim), 1.02))
        self.bonus = nn.Parameter(torch.full((num_heads, head_dim), -0.04))

    def gate_module(self, d_model: int, num_heads: int) -> nn.Module:
        width = self.bonus.shape[1]
        return HeadGates(d_model, num_heads, narrow=(width, width), rank=self.rank, activation=nn.Tanh())

    def terms(self, call: Call, past: State, keys: Keys | None) -> tuple[Terms, State]:
        heads, width = self.bonus.shape
        fade, rate = gates_of(call, width, width)
        dtype, key = fade.dtype, per_head(call.key, heads).clamp(-_LARGEST, _LARGEST)
        decay = -_RATE * (fade + by_head(self.decay_shift, dtype)).sigmoid()
        rate = (rate + by_head(self.rate_shift, dtype)).sigmoid()
        erased = F.normalize(key * by_head(self.erased, dtype), dim=-1)
        key = key * (1 + (rate - 1) * by_head(self.replaced, dtype))
        # a read meets the decayed state, and the paper's the state before
        return Terms(call.query, key, call.value, decay, erased * (-decay).exp(), erased * rate), ()

    def finish(self, output: Output, terms: Terms) -> Float[Tensor, "batch heads length _"]:
        own = terms.query * by_head(self.bonus, output.dtype) * terms.key
        return output + own.sum(-1, keepdim=True) * terms.value
