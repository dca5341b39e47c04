"""Linear layers for inference with few rows: the weight kept once more, as the product reads it fastest."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

# below this many weights the call costs more than the product saves
SMALLEST = 500_000
# with fewer or more rows the plain product is as fast; narrow inputs pay more for putting the blocks side by side
FEWEST, MOST, WIDE, MOST_OF_NARROW = 4, 160, 512, 32
BLOCK = 128


class CopiedLinear(nn.Module, ABC):
    """An `nn.Linear` with a copy of its weight, in whose place it stands while a model decodes."""

    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.linear = linear
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self._copy = self._copied(linear.weight)
        self._state, self._sums = _state(linear.weight), _sums(linear.weight)

    @abstractmethod
    def forward(self, x: Float[Tensor, "*batch in_features"]) -> Float[Tensor, "*batch out_features"]:
        """The product with the copy."""

    @property
    def weight(self) -> Tensor:
        """The weight as it is."""
        return self.linear.weight

    @property
    def bias(self) -> Tensor | None:
        """The bias."""
        return self.linear.bias

    def is_current(self) -> bool:
        """Whether the copy still shows the weight of the layer.

        What PyTorch changes in place is counted by the weight itself. Fused optimizers, `weight.data`, NumPy and
        changes in inference mode count nothing: they are noticed by the sum of the bits of each row.
        """
        weight = self.linear.weight
        return self._state == _state(weight) and torch.equal(self._sums, _sums(weight))

    @staticmethod
    @abstractmethod
    def _copied(weight: Tensor) -> Tensor: ...


class PackedLinear(CopiedLinear):
    """x W^T + b as `nn.Linear` computes it in float32, with W kept once more in blocks of 128 outputs.

    With 4 to 160 rows, as in a step of decoding, the plain product spends its time on strided reads of W; a product
    for each contiguous block reads them once (`python -m benchmarks.machine` sets both side by side). Other numbers of
    rows go to the layer itself. Inference only.
    """

    def forward(self, x: Float[Tensor, "*batch in_features"]) -> Float[Tensor, "*batch out_features"]:
        rows = x.reshape(-1, self.in_features)
        if not FEWEST <= rows.shape[0] <= (MOST if self.in_features >= WIDE else MOST_OF_NARROW):
            output: Tensor = self.linear(x)
            return output
        # (blocks, rows, outputs of a block)
        made = torch.matmul(rows, self._copy).transpose(0, 1).flatten(1)[:, : self.out_features]
        made = made.contiguous() if self.bias is None else made + self.bias
        return made.view(*x.shape[:-1], self.out_features)

    @staticmethod
    def _copied(weight: Tensor) -> Float[Tensor, "blocks in_features block"]:
        padded = F.pad(weight.detach(), (0, 0, 0, -weight.shape[0] % BLOCK))
        return padded.unflatten(0, (-1, BLOCK)).mT.contiguous()


class RoundedLinear(CopiedLinear):
    """x W^T + b with x and W rounded to bfloat16 and summed in float32: half the bytes, other last digits.

    `python -m benchmarks.machine` sets it beside float32. Inference only.
    """

    def forward(self, x: Float[Tensor, "*batch in_features"]) -> Float[Tensor, "*batch out_features"]:
        made = F.linear(x.bfloat16(), self._copy).to(x.dtype)
        return made if self.bias is None else made.add_(self.bias)

    @staticmethod
    def _copied(weight: Tensor) -> Tensor:
        return weight.detach().bfloat16()


def _state(weight: Tensor) -> tuple[object, ...]:
    """Where a weight is, its type, and how often it was changed in place."""
    return weight.data_ptr(), weight.dtype, 0 if weight.is_inference() else weight._version


def _sums(weight: Tensor) -> Int[Tensor, "out_features"]:
    """The bits of each row of a float32 weight as whole numbers, summed: another number is another sum."""
    # summed in 32 bits, where it may overflow: wider sums take eight times as long
    return weight.detach().view(torch.int32).sum(-1, dtype=torch.int32)


def gains(linear: nn.Module) -> bool:
    """Whether a copy of this layer's weight pays: a plain `nn.Linear`, large, in float32 on a processor."""
    if type(linear) is not nn.Linear:
        return False
    weight = linear.weight
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and weight.numel() >= SMALLEST
