"""The matrix LSTM of xLSTM: exponential input gates, forget gates, and a normalizer state."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.mechanisms._gates import by_head, gates_of
from headwise.attention.mechanisms._masks import hidden
from headwise.attention.mechanisms._recurrence import Call, Keys, Output, Recurrence, State, Terms, per_head

_EPS = 1e-6


class Mlstm(Recurrence):
    """mLSTM: S_i = f_i S_(i-1) + exp(u_i) k_i v_i^T, n_i likewise of k_i alone, out_i = q_i S_i / max(|q_i n_i|, 1).

    f_i = sigmoid(w_f x_i + b_f), u_i = w_u x_i + b_u, and q is divided by sqrt(d). All is computed times exp(-m_i) with
    m_i = max(log f_i + m_(i-1), u_i), m_0 = 0, so nothing overflows.

    Raises: as `Recurrence`.
    Source: Beck et al. 2024, arXiv:2405.04517, section 2.3. The paper's layer has `conv = 4`, `head_norm = "layer"` and
    `gate = "element"`. Equal to `mlstm_recurrent_sequence_native` of transformers, its eps of 1e-6 beside the maximum
    included, for m above -60; its layer loads as igate_preact, fgate_preact -> gates.maps.0 (u before f, head by head)
    and their biases -> input_shift, forget_shift, which start as there: -10, and from 3 to 6 by head.

    >>> from headwise.attention.masks import Causal
    >>> x = torch.ones(2, 3, 5, 8)
    >>> Mlstm(3)(Call(x, x, x, mask=Causal(), gates=torch.zeros(2, 3, 5, 2))).shape
    torch.Size([2, 3, 5, 8])
    """

    normalised = True
    gate_width = 2

    def __init__(self, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.input_shift = nn.Parameter(torch.full((num_heads,), -10.0))
        self.forget_shift = nn.Parameter(torch.linspace(3.0, 6.0, num_heads))

    def terms(self, call: Call, past: State, keys: Keys | None) -> tuple[Terms, State]:
        """The terms times exp(-m); kept is m, (batch, heads, 1, 1) in float64."""
        write, keep = gates_of(call, 1, 1)
        dtype = write.dtype
        # sums of many logarithms
        write = (write + by_head(self.input_shift, dtype)).double()
        log_keep = hidden(F.logsigmoid(keep + by_head(self.forget_shift, dtype)).double(), keys)
        if keys is not None:
            write = write.masked_fill(~keys.unsqueeze(-1), float("-inf"))
        first = past[0] if past else write.new_zeros(*write.shape[:2], 1, 1)
        total = log_keep.cumsum(2)
        highest = torch.cat((first, write - total), 2).cummax(2).values
        m = torch.cat((first, highest[:, :, 1:] + total), 2)
        decay = (m[:, :, :-1] + log_keep - m[:, :, 1:]).clamp(max=0.0).to(dtype)
        size = (write - m[:, :, 1:]).exp().to(dtype)
        query = call.query * max(1, call.query.shape[-1]) ** -0.5
        # what the denominator is at least; a larger one would overflow in float32
        least = (-m[:, :, 1:]).clamp(max=60.0).exp().to(dtype)
        key = per_head(call.key, call.shape[1]) * size
        return Terms(query, key, call.value, decay, aside=least), (m[:, :, -1:],)

    def finish(self, output: Output, terms: Terms) -> Float[Tensor, "batch heads length _"]:
        assert terms.aside is not None
        return output[..., :-1] / (torch.maximum(output[..., -1:].abs(), terms.aside) + _EPS)
