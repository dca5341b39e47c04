"""The position-wise feed-forward network."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.dropout import Dropout, draw, kept_scale
from headwise.errors import ConfigError, unknown

ACTIVATIONS = ("relu", "gelu", "swiglu")


class FeedForward(nn.Module):
    """W_2 dropout(f(W_1 x)), the same for every position; "swiglu" has a gate: f = silu(W_1 x) * W_3 x.

    Args:
        d_model: width of input and output.
        d_ff: width inside; with "swiglu" there are two such products.
        activation: "relu", "gelu" or "swiglu".
        dropout: on the inner activations.
    Source: Vaswani et al. 2017, arXiv:1706.03762, eq. 2; Shazeer 2020, arXiv:2002.05202, eq. 6 (SwiGLU, with biases).

    >>> FeedForward(8, 16)(torch.ones(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, d_model: int, d_ff: int, activation: str = "relu", dropout: float = 0.0):
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ConfigError(unknown("activation", activation, ACTIVATIONS))
        self.activation = activation
        self.inner = nn.Linear(d_model, 2 * d_ff if activation == "swiglu" else d_ff)
        self.outer = nn.Linear(d_ff, d_model)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        inner = self.inner(x)
        if self.activation == "relu":
            rate = self.dropout.dropout if self.training else 0.0
            return self.outer(_ReluDropout.apply(inner, rate) if rate else F.relu(inner))
        if self.activation == "gelu":
            return self.outer(self.dropout(F.gelu(inner)))
        gate, linear = inner.chunk(2, dim=-1)
        return self.outer(self.dropout(F.silu(gate) * linear))

    def extra_repr(self) -> str:
        return f"activation={self.activation}"


class _ReluDropout(torch.autograd.Function):
    """dropout(relu(x)): the result alone tells where a gradient passes, so no mask is kept."""

    @staticmethod
    def forward(ctx, x, dropout):
        ctx.scale = kept_scale(dropout)
        output = (x.relu() * draw(x.shape, dropout, x.device)).mul_(ctx.scale)
        ctx.save_for_backward(output)
        return output

    @staticmethod
    def backward(ctx, gradient):
        (output,) = ctx.saved_tensors
        return torch.ops.aten.threshold_backward(gradient, output, 0).mul_(ctx.scale), None
