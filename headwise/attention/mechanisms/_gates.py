"""What makes the gates of a mechanism of its layer's input, and how gates are drawn and used."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention.call import Call
from headwise.errors import ShapeError


class HeadGates(nn.Module):
    """Numbers of each head of a layer's input: a linear map, and others through a narrow vector, side by side.

    Args:
        d_model: width of the input.
        direct: numbers of each head that are W x.
        narrow: numbers of each head that are B f(A x), in groups of this width with an A and B of their own.
        rank: width between A and B.
        activation: f.

    >>> HeadGates(12, 3, direct=1, narrow=(4,), rank=2)(torch.ones(2, 5, 12)).shape
    torch.Size([2, 3, 5, 5])
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        direct: int = 0,
        narrow: tuple[int, ...] = (),
        rank: int = 1,
        activation: nn.Module | None = None,
    ):
        super().__init__()
        maps: list[nn.Module] = [nn.Linear(d_model, num_heads * direct, bias=False)] if direct else []
        for width in narrow:
            inner, outer = nn.Linear(d_model, rank, bias=False), nn.Linear(rank, num_heads * width, bias=False)
            maps.append(nn.Sequential(inner, activation or nn.Identity(), outer))
        self.maps, self.num_heads = nn.ModuleList(maps), num_heads
        self.widths = [*([direct] if direct else []), *narrow]

    def forward(self, x: Float[Tensor, "batch length d_model"]) -> Float[Tensor, "batch heads length gates"]:
        parts = zip(self.maps, self.widths, strict=True)
        gates = [own(x).unflatten(-1, (self.num_heads, width)) for own, width in parts]
        return torch.cat(gates, -1).transpose(1, 2)


def gates_of(call: Call, *widths: int) -> tuple[Tensor, ...]:
    """The gates of a call in parts of these widths. Raises: ShapeError if they are of other widths."""
    assert call.gates is not None
    if call.gates.shape[-1] != sum(widths):
        raise ShapeError(f"the mechanism takes {sum(widths)} gates of each head, got {call.gates.shape[-1]}")
    return call.gates.split(list(widths), -1)


def by_head(parameter: Float[Tensor, "heads *width"], dtype: torch.dtype) -> Float[Tensor, "heads 1 _"]:
    """Numbers of each head, as they meet vectors (batch, heads, length, width)."""
    return parameter.to(dtype).reshape(parameter.shape[0], 1, -1)


def step_shift(*shape: int) -> nn.Parameter:
    """b with softplus(b) log-uniform from 0.001 to 0.1: the step sizes that gates start from.

    Source: Gu and Dao 2023, arXiv:2312.00752, section 3.6.
    """
    steps = torch.empty(*shape).uniform_(math.log(1e-3), math.log(0.1)).exp()
    return nn.Parameter(steps + torch.log(-torch.expm1(-steps)))


def unit(x: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows width"]:
    """x / |x|, with 1e-6 added to the square, as the reference implementations of delta rules do."""
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)
