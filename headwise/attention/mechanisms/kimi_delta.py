"""Kimi delta attention: the delta rule over a memory that forgets feature by feature."""

import torch
from torch import nn
from torch.nn import functional as F

from headwise.attention.mechanisms._gates import HeadGates, by_head, gates_of, step_shift, unit
from headwise.attention.mechanisms._recurrence import Call, Keys, Recurrence, State, Terms, per_head


class KimiDelta(Recurrence):
    """KDA: S_i = (I - b_i k_i k_i^T) diag(a_i) S_(i-1) + b_i k_i v_i^T, out_i = q_i S_i / sqrt(d), |q| = |k| = 1.

    a_i = exp(-rate softplus(W_2 W_1 x_i + shift)) has a number for each feature of the key, b_i = sigmoid(w_b x_i) is
    one for each head.

    Args:
        head_dim: width of a key, and between W_1 and W_2.
    Raises: as `Recurrence`.
    Source: Kimi Team 2025, arXiv:2510.26692, section 3. The paper's layer has `conv = 4`, `head_norm = "rms"` and a
    sigmoid `gate = "element"` (of low rank there, one matrix here). Equal to `naive_recurrent_kda` of fla and to
    `recurrent_kimi_delta_attention` of transformers with their gates; weights load as A_log -> log_rate, dt_bias ->
    shift, b_proj -> gates.maps.0, f_a_proj and f_b_proj -> gates.maps.1.0 and .2.

    >>> from headwise.attention.masks import Causal
    >>> x = torch.ones(2, 3, 5, 8)
    >>> KimiDelta(8, 3)(Call(x, x, x, mask=Causal(), gates=torch.zeros(2, 3, 5, 9))).shape
    torch.Size([2, 3, 5, 8])
    """

    def __init__(self, head_dim: int, num_heads: int):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, head_dim
        self.log_rate = nn.Parameter(torch.empty(num_heads).uniform_(1, 16).log())
        self.shift = step_shift(num_heads, head_dim)

    def gate_module(self, d_model: int, num_heads: int) -> nn.Module:
        width = self.shift.shape[1]
        return HeadGates(d_model, num_heads, direct=1, narrow=(width,), rank=width)

    def terms(self, call: Call, past: State, keys: Keys | None) -> tuple[Terms, State]:
        heads, width = self.shift.shape
        write, fade = gates_of(call, 1, width)
        dtype, query = fade.dtype, unit(call.query) * max(1, width) ** -0.5
        decay = -by_head(self.log_rate, dtype).exp() * F.softplus(fade + by_head(self.shift, dtype))
        read = per_head(unit(call.key), heads)
        return Terms(query, read * write.sigmoid(), call.value, decay, read), ()
