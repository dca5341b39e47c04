"""Forgetting attention: softmax attention whose scores fade by gates of the tokens between key and query."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.call import Call
from headwise.attention.mechanisms._gates import gates_of
from headwise.attention.mechanisms.mechanism import FORWARD, Rescored
from headwise.attention.precision import wide
from headwise.attention.stages import Stage, Working, definition


class Forgetting(Rescored):
    """softmax(q_i k_j / sqrt(d) + sum over j < l <= i of log f_l) v_j, f_l = sigmoid(w x_l + b) for each head.

    Each token may fade what came before it; f = 1 is softmax attention, a fixed f is ALiBi. The sums are differences of
    one cumulative sum in float64, which enters as a bias, so the planner's kernels compute it. Keys that the mask hides
    from all queries fade nothing. A cache keeps one gate for each head and token.

    Args:
        num_heads: heads, for the b of each.
        dropout: probability of dropping a weight while training.
    Raises: ShapeError for other heads than it was built for.
    Source: Lin et al. 2025, arXiv:2503.02130, eq. 3 to 5. fla's `naive_forgetting_attn` takes the log gates themselves;
        the paper's `fgate_proj` loads as the layer's `gates` and as `shift`, its bias.

    >>> x, gates = torch.ones(2, 3, 5, 8), torch.zeros(2, 3, 5, 1)
    >>> from headwise.attention.masks import Causal
    >>> Forgetting(3)(Call(x, x, x, mask=Causal(), gates=gates)).shape
    torch.Size([2, 3, 5, 8])
    """

    facts = replace(FORWARD, exact="gates of 1")
    gate_width = 1

    def __init__(self, num_heads: int, dropout: float = 0.0):
        super().__init__()
        self.num_heads, self.dropout = num_heads, dropout
        self.shift = nn.Parameter(torch.zeros(num_heads))

    def log_gates(self, call: Call) -> Float[Tensor, "batch heads key_len"]:
        """c: the cumulative sum of log f up to each key, in float64."""
        (gates,) = gates_of(call, 1)
        logs = F.logsigmoid(gates.squeeze(-1) + wide(self.shift)[:, None]).double()
        keys = None if call.structure.open else call.structure.key_mask()
        return (logs if keys is None else logs.masked_fill(~keys, 0.0)).cumsum(-1)

    def as_scored(self, call: Call, dropout: float) -> Call:
        sums, (_, _, query_len, key_len) = self.log_gates(call), call.shape
        # the gates up to each query; those behind the last key are not known, and fade nothing
        up_to = torch.arange(1, query_len + 1, device=sums.device).add(call.query_start).clamp(max=key_len)
        reached = F.pad(sums, (1, 0)).index_select(-1, up_to)
        # later keys are hidden: they must not overflow
        fall = (reached.unsqueeze(-1) - sums.unsqueeze(-2)).clamp(max=0.0).to(wide(call.query).dtype)
        bias = fall if call.bias is None else fall + call.bias
        return replace(call, bias=bias, gates=None, dropout=dropout)

    def compute_stages(self, call: Call) -> list[Stage]:
        """The log gates, then products, scale, bias, mask and softmax."""
        values = self.log_gates(call).unsqueeze(-1)
        text = "what all tokens so far would leave of a score, as a logarithm"
        formula = r"c_i = \sum_{l \le i} \log \sigma(w x_l + b)"
        gates = Stage("log gates", "c", formula, ("keys", "features"), values, text, Working("formula", ("key",)))
        return [gates, *definition(self.as_scored(call, 0.0))]
