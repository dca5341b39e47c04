"""The gated delta rule: a memory that forgets as a whole, and in which a key's new value replaces the old one."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.mechanisms._gates import by_head, gates_of, step_shift, unit
from headwise.attention.mechanisms._recurrence import Call, Keys, Recurrence, State, Terms, per_head


class GatedDelta(Recurrence):
    """Gated DeltaNet: S_i = a_i (I - b_i k_i k_i^T) S_(i-1) + b_i k_i v_i^T, out_i = q_i S_i / sqrt(d), |q| = |k| = 1.

    a_i = exp(-rate softplus(w_a x_i + shift)) and b_i = sigmoid(w_b x_i) are one number for each
    head.

    Raises: as `Recurrence`.
    Source: Yang et al. 2024, arXiv:2412.06464, section 3. The paper's layer has `conv = 4`, `head_norm = "rms"`, `gate
    = "element"`, `gate_activation = "silu"`. Equal to `torch_recurrent_gated_delta_rule` of Qwen3-Next in transformers;
    its layer loads as A_log -> log_rate, dt_bias -> shift, in_proj_ba -> gates.maps.0 (a before b, head by head),
    conv1d -> convolution, norm -> closing.norm, z of in_proj_qkvz -> closing.linear; heads of the values that share a
    key head are copies of its rows here. Rates start uniform in (0.01, 16), as Qwen3-Next's.

    >>> from headwise.attention.masks import Causal
    >>> x = torch.ones(2, 3, 5, 8)
    >>> GatedDelta(3)(Call(x, x, x, mask=Causal(), gates=torch.zeros(2, 3, 5, 2))).shape
    torch.Size([2, 3, 5, 8])
    """

    gate_width = 2
    log_rate: Float[Tensor, "heads"]

    def __init__(self, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.log_rate = nn.Parameter(torch.empty(num_heads).uniform_(0.01, 16).log())
        self.shift = step_shift(num_heads)

    def terms(self, call: Call, past: State, keys: Keys | None) -> tuple[Terms, State]:
        fade, write = gates_of(call, 1, 1)
        dtype, query = fade.dtype, unit(call.query) * max(1, call.query.shape[-1]) ** -0.5
        decay = -by_head(self.log_rate, dtype).exp() * F.softplus(fade + by_head(self.shift, dtype))
        read = per_head(unit(call.key), call.shape[1])
        return Terms(query, read * write.sigmoid(), call.value, decay, read), ()
