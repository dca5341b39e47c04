"""The position-wise feed-forward network."""

from collections.abc import Callable
from functools import partial

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.dropout import Dropout
from headwise.errors import ConfigError, unknown

_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    # the approximation of Hendrycks and Gimpel 2016, arXiv:1606.08415, section 2, which GPT-2 was trained with
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}
# names of those with a gate, by the function of the gate
GATED = {"swiglu": "silu", "geglu": "gelu", "geglu_tanh": "gelu_tanh", "reglu": "relu"}
ACTIVATIONS = (*_FUNCTIONS, *GATED)


class FeedForward(nn.Module):
    """W_2 dropout(f(W_1 x)), the same for every position; with a gate f = g(W_1 x) * W_3 x.

    Args:
        d_model: width of input and output.
        d_ff: width inside; with a gate there are two such products.
        activation: "relu", "gelu", "gelu_tanh" or "silu"; with a gate g of that kind "reglu", "geglu", "geglu_tanh" or
            "swiglu".
        dropout: on the inner activations.
        bias: whether the linear layers have biases.
    Raises: ConfigError: another activation.
    Source: Vaswani et al. 2017, arXiv:1706.03762, eq. 2; Shazeer 2020, arXiv:2002.05202, eqs. 5 and 6 (gates).

    >>> import torch
    >>> FeedForward(8, 16)(torch.ones(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, d_model: int, d_ff: int, activation: str = "relu", dropout: float = 0.0, *, bias: bool = True):
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ConfigError(unknown("activation", activation, ACTIVATIONS))
        self.activation = activation
        self.inner = nn.Linear(d_model, 2 * d_ff if activation in GATED else d_ff, bias)
        self.outer = nn.Linear(d_ff, d_model, bias)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        inner, function = self.inner(x), _FUNCTIONS[GATED.get(self.activation, self.activation)]
        if self.activation in GATED:
            gate, linear = inner.chunk(2, dim=-1)
            return self.outer(self.dropout(function(gate) * linear))
        return self.outer(self.dropout(function(inner)))

    def extra_repr(self) -> str:
        return f"activation={self.activation}"
