"""The block of a Conformer: attention and a convolution between two halves of a feed-forward network."""

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.dropout import Dropout
from headwise.attention.masks import Mask
from headwise.attention.zeros import zeroed_beyond
from headwise.layers.attention import MultiHeadAttention
from headwise.layers.feed_forward import FeedForward


class ConvolutionModule(nn.Module):
    """W_2 silu(norm(depthwise(glu(W_1 x)))): what neighbours say, each channel by a filter of its own.

    Beyond the lengths the filter reads zeros.

    Args:
        d_model: width of input and output.
        kernel: places that a filter reads, an odd number.
    Source: Gulati et al. 2020, arXiv:2005.08100, section 2.2. Here the norm is LayerNorm in place of batch norm: of
        each frame alone, it knows neither padding nor the other recordings of a batch.

    >>> import torch
    >>> ConvolutionModule(8, 5)(torch.ones(2, 7, 8), torch.tensor([7, 4])).shape
    torch.Size([2, 7, 8])
    """

    def __init__(self, d_model: int, kernel: int):
        super().__init__()
        self.inner, self.outer = nn.Linear(d_model, 2 * d_model), nn.Linear(d_model, d_model)
        self.depthwise = nn.Conv1d(d_model, d_model, kernel, padding=kernel // 2, groups=d_model)
        self.norm = nn.LayerNorm(d_model)

    def forward(
        self, x: Float[Tensor, "batch length d_model"], valid_lens: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch length d_model"]:
        gated = zeroed_beyond(F.glu(self.inner(x), -1), valid_lens)
        output: Tensor = self.outer(F.silu(self.norm(self.depthwise(gated.mT).mT)))
        return output


class ConformerBlock(nn.Module):
    """x += first(x) / 2; x += attention(x); x += convolution(x); x += second(x) / 2; norm(x); each behind a norm.

    Args:
        first, second: the two feed-forward networks.
        dropout: on the output of every sublayer.
    Source: Gulati et al. 2020, arXiv:2005.08100, eq. 1.
    """

    def __init__(
        self,
        first: FeedForward,
        self_attention: MultiHeadAttention,
        convolution: ConvolutionModule,
        second: FeedForward,
        dropout: float,
    ):
        super().__init__()
        self.first, self.self_attention, self.convolution, self.second = first, self_attention, convolution, second
        self.norms = nn.ModuleList(nn.LayerNorm(self_attention.d_model) for _ in range(5))
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "batch length d_model"], valid_lens: Int[Tensor, "batch"], mask: Mask
    ) -> Float[Tensor, "batch length d_model"]:
        """`mask` says which frames may meet, those beyond `valid_lens` not among them."""
        first, attention, convolution, second, last = self.norms
        x = x + 0.5 * self.dropout(self.first(first(x)))
        x = x + self.dropout(self.self_attention(attention(x), mask=mask))
        x = x + self.dropout(self.convolution(convolution(x), valid_lens))
        x = x + 0.5 * self.dropout(self.second(second(x)))
        normed: Tensor = last(x)
        return normed
