"""Parts of models that read images: random changes of training, standardizing, residual convolutions, attention."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.layers.attention import MultiHeadAttention


class Augmentation(nn.Module):
    """Moves each image by up to `shift` pixels in both directions and mirrors every second one, while training.

    What an image moves away from repeats its edge. Draws come from torch's generator of the device, so that a resumed
    run goes on with the same; in `eval()` nothing is drawn and nothing changes.

    Args:
        shift: pixels at most, every whole number alike.
        flip: whether left and right are exchanged, at even odds.

    >>> Augmentation(2, flip=True).eval()(torch.tensor([[[[7, 9]]]], dtype=torch.uint8)).tolist()
    [[[[7, 9]]]]
    """

    def __init__(self, shift: int, *, flip: bool):
        super().__init__()
        self.shift, self.flip = shift, flip

    def forward(
        self, pixels: UInt8[Tensor, "batch channels height width"]
    ) -> UInt8[Tensor, "batch channels height width"]:
        if not self.training or not (self.shift or self.flip):
            return pixels
        batch, height, width = pixels.shape[0], *pixels.shape[2:]
        moves = torch.randint(-self.shift, self.shift + 1, (2, batch, 1), device=pixels.device)
        rows, columns = (
            (torch.arange(side, device=pixels.device) + move).clamp(0, side - 1)
            for side, move in zip((height, width), moves, strict=True)
        )
        if self.flip:
            mirrored = torch.rand(batch, 1, device=pixels.device) < 0.5
            columns = torch.where(mirrored, width - 1 - columns, columns)
        image = torch.arange(batch, device=pixels.device)[:, None, None]
        # (batch, height, width, channels)
        moved = pixels.permute(0, 2, 3, 1)[image, rows[:, :, None], columns[:, None, :]]
        return moved.permute(0, 3, 1, 2)

    def extra_repr(self) -> str:
        return f"shift={self.shift}, flip={self.flip}"


class Standardized(nn.Module):
    """(x / 255 - mean) / deviation by channel, as float32: bytes to numbers about zero.

    Args:
        mean, deviation: of each channel, as fractions of 255.

    >>> Standardized([0.5], [0.25])(torch.tensor([[[[255]]]], dtype=torch.uint8)).item()
    2.0
    """

    def __init__(self, mean: Sequence[float], deviation: Sequence[float]):
        super().__init__()
        # numbers of the data, not weights: they stand in the run's own file
        self.mean, self.deviation = tuple(mean), tuple(deviation)

    def forward(
        self, pixels: UInt8[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch channels height width"]:
        mean, deviation = (
            torch.tensor(values, device=pixels.device)[:, None, None] * 255 for values in (self.mean, self.deviation)
        )
        return (pixels.float() - mean) / deviation

    def extra_repr(self) -> str:
        return f"mean={self.mean}, deviation={self.deviation}"


class Gate(nn.Module):
    """gamma x with one learned number gamma that is 0 at first, so that a branch behind it begins as nothing.

    Source: Zhang et al. 2019 (SAGAN), arXiv:1805.08318, eq. 3; De and Smith 2020 (SkipInit), arXiv:2002.10444.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.zeros(()))

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return self.gamma * x


class ResidualConvolutions(nn.Module):
    """relu(shortcut(x) + second(relu(first(x)))), the shortcut reading every `stride`-th row and column.

    Args:
        first, second: convolutions with their norms; `first` may halve the map.
        shortcut: the identity, or a convolution of size 1 and stride 1 where the map changes.
        stride: of `first`.
    Source: He et al. 2016, arXiv:1512.03385, eq. 1 and 2. There the shortcut's convolution has the stride, which is the
        same; its gradient by oneDNN 3.x writes beyond its memory on processors with AVX2 alone.
    """

    def __init__(self, first: nn.Module, second: nn.Module, shortcut: nn.Module, stride: int = 1):
        super().__init__()
        self.first, self.second, self.shortcut, self.stride = first, second, shortcut, stride

    def forward(
        self, x: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch out_channels out_height out_width"]:
        shortcut = self.shortcut(x[:, :, :: self.stride, :: self.stride])
        return F.relu(shortcut + self.second(F.relu(self.first(x))))


class MapAttention(nn.Module):
    """x + gamma attention(x): every place of a map looks at all places; the identity until gamma leaves 0.

    With the score "dot" and one head of C / 8 it is the block of SAGAN: o_j = W_v sum_i softmax_i(f(x_i) . g(x_j))
    h(x_i), where g makes the queries, f the keys and h the values; here the projections have biases. Costs
    (height x width)^2.

    Args:
        attention: over the places of the map, row by row.
    Source: Zhang et al. 2019, arXiv:1805.08318, eq. 1 to 3, without its spectral norm.

    >>> x = torch.randn(2, 16, 3, 5)
    >>> torch.equal(MapAttention(MultiHeadAttention(16, 1, head_dim=2))(x), x)
    True
    """

    def __init__(self, attention: MultiHeadAttention):
        super().__init__()
        self.attention, self.gate = attention, Gate()

    def forward(self, x: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch channels height width"]:
        found: Tensor = self.attention(x.flatten(2).mT)
        gated: Tensor = self.gate(found.mT.unflatten(2, x.shape[2:]))
        return x + gated
