"""A convolution as multi-head attention: one head for each offset of the filter."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention import attend
from headwise.attention.masks import Mask
from headwise.errors import Unsupported


@dataclass(frozen=True, eq=False)
class Offsets(Mask):
    """Head h sees, of a grid in row-major order, the one cell at offset h from the query's own; none outside the grid.

    Args:
        rows, columns: of the grid of keys.
        out_columns: columns of the grid of queries.
        first: row and column of the key that query 0 meets at offset (0, 0); negative under padding.
        stride: cells between neighbouring queries, down and across.
        offsets: (down, across) of each head.
    """

    rows: int
    columns: int
    out_columns: int
    first: tuple[int, int]
    stride: tuple[int, int]
    offsets: tuple[tuple[int, int], ...]

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        # sums in place of a table, which a compiled program cannot make for each pair
        own = [(head == number, offset) for number, offset in enumerate(self.offsets)]
        row = query // self.out_columns * self.stride[0] + self.first[0] + sum(hit * down for hit, (down, _) in own)
        column = query % self.out_columns * self.stride[1] + self.first[1] + sum(hit * right for hit, (_, right) in own)
        inside = (row >= 0) & (row < self.rows) & (column >= 0) & (column < self.columns)
        return inside & (key == row * self.columns + column)

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        down, across = self.offsets[head]
        return f"head {head} of query {query} sees only the cell {down} down and {across} to the right"


class ConvolutionAsAttention(nn.Module):
    """The function of a convolution, computed by attention: heads x positions with one-hot weights, then W_o.

    Each head looks at one offset with weight 1 (a softmax over a single allowed key); where that lies outside the
    image the row is empty and gives zero, which is zero padding. The output projection holds the filter's slices.

    Args:
        convolution: with zero padding, one group; its weights are shared, not copied.
    Raises: Unsupported: groups, or padding other than zeros.
    Source: Cordonnier et al. 2020, arXiv:1911.03584, theorem 1; here the offsets are a mask instead of the limit of a
    quadratic position encoding, so that the weights are exactly one-hot.

    >>> import torch
    >>> image = torch.ones(1, 3, 5, 10)
    >>> ConvolutionAsAttention(nn.Conv2d(3, 4, 3, padding=1))(image).shape
    torch.Size([1, 4, 5, 10])
    """

    def __init__(self, convolution: nn.Conv2d):
        super().__init__()
        if convolution.groups != 1 or convolution.padding_mode != "zeros":
            raise Unsupported(
                f"a convolution with groups={convolution.groups} and padding_mode='{convolution.padding_mode}' is no"
                " attention of this form; use groups=1 and zero padding"
            )
        self.convolution = convolution
        down, across = convolution.kernel_size
        dilation = convolution.dilation
        self.offsets = tuple((i * dilation[0], j * dilation[1]) for i in range(down) for j in range(across))

    def forward(
        self, image: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch filters out_height out_width"]:
        batch, _, height, width = image.shape
        out_height, out_width = self._out_size(height, width)
        mask = self.mask(height, width)
        # one value head that all heads share: multi-query attention; queries and keys say nothing
        value = image.flatten(2).mT.unsqueeze(1)
        query = image.new_zeros(batch, len(self.offsets), out_height * out_width, 1)
        heads = attend(query, value[..., :1] * 0, value, mask=mask)
        # (filters, channels, offsets) to (filters, offsets x channels)
        projection = self.convolution.weight.flatten(2).mT.flatten(1)
        output = heads.transpose(1, 2).flatten(2) @ projection.T
        if self.convolution.bias is not None:
            output = output + self.convolution.bias
        return output.mT.unflatten(2, (out_height, out_width))

    def mask(self, height: int, width: int) -> Offsets:
        """The pattern for images of this size."""
        top, left = self._padding()
        stride = (self.convolution.stride[0], self.convolution.stride[1])
        return Offsets(height, width, self._out_size(height, width)[1], (-top, -left), stride, self.offsets)

    def _padding(self) -> tuple[int, int]:
        padding = self.convolution.padding
        if padding == "valid":
            return 0, 0
        if padding == "same":
            # as PyTorch: what is left over goes to the end
            down, across = self.offsets[-1]
            return down // 2, across // 2
        return int(padding[0]), int(padding[1])

    def _out_size(self, height: int, width: int) -> tuple[int, int]:
        if self.convolution.padding == "same":
            return height, width
        top, left = self._padding()
        down, across = self.offsets[-1]
        stride = self.convolution.stride
        return (height + 2 * top - down - 1) // stride[0] + 1, (width + 2 * left - across - 1) // stride[1] + 1
