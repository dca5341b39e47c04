"""What a layer puts around the heads of its mechanism: a short convolution before them, a norm and a gate behind."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.scores.score import times
from headwise.errors import ConfigError

Gate = Literal["none", "head", "element"]
Values = Literal["own", "give", "take"]
GateActivation = Literal["sigmoid", "silu"]
Columns = Float[Tensor, "rows length columns"]
Before = Float[Tensor, "rows before columns"]
Heads = Float[Tensor, "batch heads length value_dim"]
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"sigmoid": torch.sigmoid, "silu": F.silu}


@dataclass(frozen=True)
class Around:
    """What stands before and behind the heads of a `MultiHeadAttention`; by default nothing.

    Args:
        conv: taps of a causal depthwise convolution over the projected queries, keys and values, with SiLU behind it;
            4 in Mamba-2, Gated DeltaNet and Kimi Linear; 0: none. For self-attention alone.
        gate: "head" or "element" multiplies each head's output, or each of its numbers, by a gate of the layer's input.
        gate_activation: of the gate; "silu" in Gated DeltaNet and Qwen3-Next's linear layers.
        head_norm: of each head's output, before the gate, as a function from the width of a head to a module.
        values: of a stack whose layers mix the first layer's values into their own: the first one's are "give", the
            others' "take": a v_l + b v_1 with two learned numbers that start as 0.5.
    Raises: ConfigError: a negative number of taps, an unknown gate, activation or part of values.
    Source: Qiu et al. 2025, arXiv:2505.06708, eq. 5 (gate, position G1); Yang et al. 2024, arXiv:2412.06464, section
        3.4 (all three); Zhou et al. 2024, arXiv:2410.17897 (values; the variant with learned numbers).
    """

    conv: int = 0
    gate: Gate = "none"
    gate_activation: GateActivation = "sigmoid"
    head_norm: Callable[[int], nn.Module] | None = None
    values: Values = "own"

    def __post_init__(self) -> None:
        if not isinstance(self.conv, int):
            raise ConfigError(f"conv is a whole number of taps, got {type(self.conv).__name__}")
        if not (self.head_norm is None or callable(self.head_norm)):
            raise ConfigError(
                f"head_norm makes a norm of a width, such as nn.RMSNorm, got {type(self.head_norm).__name__}"
            )
        if self.conv < 0:
            raise ConfigError(f"conv ({self.conv}) is a number of taps: 0 for none, 4 is usual")
        if self.gate not in ("none", "head", "element"):
            raise ConfigError(f"gate is 'none', 'head' or 'element', not '{self.gate}'")
        if self.gate_activation not in _ACTIVATIONS:
            raise ConfigError(f"gate_activation is 'sigmoid' or 'silu', not '{self.gate_activation}'")
        if self.values not in ("own", "give", "take"):
            raise ConfigError(f"values are 'own', or a layer gives or takes them: 'give', 'take', not '{self.values}'")


@dataclass(slots=True)
class FirstValues:
    """The values of the first layer of a stack in one pass, which it puts here for the others."""

    value: Tensor | None = None


class ShortConvolution(nn.Module):
    """silu(sum over t of w_t x_(i - t) + b), each column by itself, over the token and those just before it.

    Args:
        columns: how many.
        taps: tokens that each result reads.
        bias: whether there is a b, which starts as 0.
    Source: Gu and Dao 2023, arXiv:2312.00752, section 3.4. Weight and bias of `nn.Conv1d(columns, columns, taps,
        groups=columns)`, as the reference implementations keep them, load as they are.

    >>> ShortConvolution(8, 4, bias=True)(torch.ones(2, 5, 8))[0].shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, columns: int, taps: int, *, bias: bool):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(columns, 1, taps).uniform_(-(taps**-0.5), taps**-0.5))
        self.bias = nn.Parameter(torch.zeros(columns)) if bias else None

    def forward(self, x: Columns, before: Before | None = None) -> tuple[Columns, Before]:
        """The result, and the last inputs, which the next call gets as `before`; None: zeros came before."""
        length, weights = x.shape[1], self.weight.to(x.dtype).squeeze(1).unbind(-1)
        read = F.pad(x, (0, 0, len(weights) - 1, 0)) if before is None else torch.cat((before.to(x.dtype), x), 1)
        # slices of one tensor and no convolution of PyTorch: that needs a token, and a transpose to and fro
        total = x.new_zeros(()) if self.bias is None else self.bias.to(x.dtype)
        for tap, weight in enumerate(weights):
            total = torch.addcmul(total, read.narrow(1, tap, length), weight)
        return F.silu(total), read[:, length:]


class Closing(nn.Module):
    """Norm and gate of the heads' outputs: norm(head) * activation(W x + b).

    Args:
        d_model: width of x, the layer's input.
        value_dim: width of a head's output.
        bias: whether there is a b.

    >>> closing = Closing(8, 2, 4, Around(gate="element"), bias=True)
    >>> closing(torch.ones(1, 2, 3, 4), torch.ones(1, 3, 8)).shape
    torch.Size([1, 2, 3, 4])
    """

    def __init__(self, d_model: int, num_heads: int, value_dim: int, around: Around, *, bias: bool):
        super().__init__()
        self.norm = nn.Identity() if around.head_norm is None else around.head_norm(value_dim)
        width = {"none": 0, "head": 1, "element": value_dim}[around.gate]
        self.linear = nn.Linear(d_model, num_heads * width, bias=bias) if width else None
        self.activation, self.shape = around.gate_activation, (num_heads, width)

    def forward(self, heads: Heads, x: Float[Tensor, "batch length d_model"]) -> Heads:
        heads = times(self.norm, heads)
        if self.linear is None:
            return heads
        gate = _ACTIVATIONS[self.activation](self.linear(x)).unflatten(-1, self.shape)
        return heads * gate.transpose(1, 2)
