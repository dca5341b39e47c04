"""Linear layers for inference with few rows: the same float32 product on a weight stored as the kernel reads it."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

# below this many weights the call costs more than the product saves
SMALLEST = 200_000
ROWS = 8


class PackedLinear(nn.Module):
    """x W^T + b, as `nn.Linear` computes it, with W reordered once into the blocks of the product kernel.

    With the few rows of a decoding step the plain kernel spends its time on strided reads of W; reading packed blocks
    takes a third to a half of the time. Inference only. Where the reordering does not exist it falls back to W.
    """

    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.linear = linear
        self._packed = _packed(linear.weight)
        # a few numbers of every update: a fused optimizer changes weights without telling their version
        self._watched = linear.weight.detach()[::97, 0]
        self._then = self._watched.clone()

    def forward(self, x: Float[Tensor, "*batch in_features"]) -> Float[Tensor, "*batch out_features"]:
        if self._packed is None:
            return F.linear(x, self.linear.weight, self.linear.bias)
        output: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, self.linear.bias, "none", [], "")
        return output

    def is_current(self) -> bool:
        """Whether the weight that was packed is still the one of the layer."""
        same_place = self._watched.data_ptr() == self.linear.weight.data_ptr()
        return same_place and torch.equal(self._watched, self._then)

    @property
    def weight(self) -> Tensor:
        """The weight as it was."""
        return self.linear.weight

    @property
    def bias(self) -> Tensor | None:
        """The bias."""
        return self.linear.bias


def gains(weight: Tensor) -> bool:
    """Whether packing this weight pays."""
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and weight.numel() >= SMALLEST


def _packed(weight: Tensor) -> Tensor | None:
    try:
        packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), ROWS)
    except (AttributeError, RuntimeError):
        return None
    return packed
