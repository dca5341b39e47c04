"""Encoders of frames of sound: subsampling, Conformer, windows, and every encoder that may listen, by `kind`."""

import itertools
from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.dropout import Dropout
from headwise.attention.masks import Mask, Padding, Window
from headwise.attention.zeros import zeroed_beyond
from headwise.config import Config
from headwise.errors import ConfigError
from headwise.layers.attention import MultiHeadAttention
from headwise.layers.blocks import Block
from headwise.layers.embeddings import Placed
from headwise.layers.feed_forward import FeedForward
from headwise.models.initializers import Scheme
from headwise.models.names import PositionName
from headwise.models.token_encoders import (
    AloneConfig,
    AttentionConfig,
    BidirectionalConfig,
    ConvolutionConfig,
    TokenEncoder,
    WindowConfig,
    side_by_side,
)
from headwise.models.transformer_config import BlocksConfig
from headwise.models.transformer_parts import attention_of, build_positions, feed_forward_of

Frames = Float[Tensor, "batch length bands"]
Places = Float[Tensor, "batch length d_model"]
Lens = Int[Tensor, "batch"]


class SpectrogramMasks(nn.Module):
    """SpecAugment: while training, stretches of frames and of bands are zero, which is their mean; other widths anew.

    Args:
        times, bands: how many stretches of each.
        longest_time, widest_band: frames and bands of a stretch at most; its width is drawn from 0 on.
    Source: Park et al. 2019, arXiv:1904.08779, section 2, without time warping; the stretches of every recording are
        drawn by themselves, from PyTorch's generator, and may lie beyond the end of a short one.
    """

    def __init__(self, times: int, longest_time: int, bands: int, widest_band: int):
        super().__init__()
        self.times, self.longest_time, self.bands, self.widest_band = times, longest_time, bands, widest_band

    def forward(self, x: Frames) -> Frames:
        if not self.training:
            return x
        batch, length, bands = x.shape
        keep = _outside(batch, length, self.times, self.longest_time, x.device)[:, :, None]
        keep = keep & _outside(batch, bands, self.bands, self.widest_band, x.device)[:, None]
        return x * keep


class Subsampling(nn.Module):
    """From `bands` to `d_model`, and to a half or a quarter of the frames: convolutions of three frames and step 2.

    Beyond the ends of a recording every layer reads zeros. Of n frames there remain ceil(n / 2), and so on.

    Args:
        factor: 1 (a linear layer), 2 or 4.
    Source: after Gulati et al. 2020, arXiv:2005.08100, section 2; here over time alone, bands are channels.

    >>> x, lens = Subsampling(40, 8, 4)(torch.ones(2, 9, 40), torch.tensor([9, 5]))
    >>> x.shape, lens.tolist()
    (torch.Size([2, 3, 8]), [3, 2])
    """

    def __init__(self, bands: int, d_model: int, factor: int):
        super().__init__()
        layers = factor.bit_length() - 1
        widths = [bands, *[d_model] * layers]
        self.convolutions = nn.ModuleList(
            nn.Conv1d(before, after, 3, stride=2, padding=1) for before, after in itertools.pairwise(widths)
        )
        self.linear = nn.Linear(widths[-1], d_model)

    def forward(self, x: Frames, valid_lens: Lens) -> tuple[Float[Tensor, "batch places d_model"], Lens]:
        for convolution in self.convolutions:
            x = F.relu(convolution(zeroed_beyond(x, valid_lens).mT).mT)
            valid_lens = (valid_lens + 1) // 2
        return self.linear(x), valid_lens


class EveryFrame(nn.Module):
    """Frames as they are, in place of `Subsampling`: each is a place."""

    def forward(self, x: Frames, valid_lens: Lens) -> tuple[Frames, Lens]:
        return x, valid_lens


def _outside(batch: int, length: int, count: int, widest: int, device: torch.device) -> Tensor:
    """(batch, length), False inside `count` stretches."""
    widths = torch.randint(0, widest + 1, (batch, count, 1), device=device)
    starts = (torch.rand(batch, count, 1, device=device) * (length - widths + 1).clamp(min=1)).long()
    places = torch.arange(length, device=device)
    return ~((places >= starts) & (places < starts + widths)).any(1)


class ConvolutionModule(nn.Module):
    """W_2 silu(norm(depthwise(glu(W_1 x)))): what neighbours say, each channel by a filter of its own.

    Beyond the lengths the filter reads zeros.

    Args:
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

    def forward(self, x: Places, valid_lens: Lens) -> Places:
        gated = zeroed_beyond(F.glu(self.inner(x), -1), valid_lens)
        output: Tensor = self.outer(F.silu(self.norm(self.depthwise(gated.mT).mT)))
        return output


class ConformerBlock(Block):
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

    def forward(self, x: Places, valid_lens: Lens, mask: Mask) -> Places:
        """`mask` says which frames may meet, those beyond `valid_lens` not among them."""
        first, attention, convolution, second, last = self.norms
        x = x + 0.5 * self.dropout(self.first(first(x)))
        x = x + self.dropout(self.self_attention(attention(x), mask=mask))
        x = x + self.dropout(self.convolution(convolution(x), valid_lens))
        x = x + 0.5 * self.dropout(self.second(second(x)))
        normed: Tensor = last(x)
        return normed


class ConformerEncoder(TokenEncoder):
    """A stack of Conformer blocks.

    Args:
        placed: gives the vectors their places, where the position is no part of attention.
        mask: which frames may meet besides what the lengths say; None: all.
    """

    def __init__(self, placed: Placed, blocks: Sequence[ConformerBlock], width: int, mask: Mask | None = None):
        super().__init__()
        self.placed, self.blocks, self.width, self.mask = placed, nn.ModuleList(blocks), width, mask

    def forward(self, x: Places, valid_lens: Lens) -> Float[Tensor, "batch length width"]:
        x = zeroed_beyond(self.placed(zeroed_beyond(x, valid_lens)), valid_lens)
        padding = Padding(valid_lens)
        mask = (padding if self.mask is None else padding & self.mask).shared()
        for block in self.blocks:
            x = block(x, valid_lens, mask)
        return x


class ConformerConfig(BlocksConfig):
    """Attention and convolution in every block."""

    kind: Literal["conformer"] = Field("conformer", description="the family of the encoder")
    activation: Literal["relu", "gelu", "silu", "swiglu"] = Field("silu", description="of the feed-forward networks")
    position: PositionName = Field("transformer_xl", description="where position enters; `headwise list positions`")
    kernel: int = Field(15, ge=1, le=2**12, description="frames that the filters of a block read: an odd number")
    window: int | None = Field(None, ge=0, description="frames that attention sees on each side; all if absent")

    def model_post_init(self, context: object) -> None:
        super().model_post_init(context)
        if self.kernel % 2 == 0:
            raise ConfigError(f"kernel ({self.kernel}) must be odd, so that a filter has a middle")
        # the keys of other stacks for what the Conformer's definition says
        others = ["segment", "reversible", "convolution_heads", "norm", "norm_order", "residual", "value_residual"]
        others += ["local_mask", "norm_bias", "first_norm"]
        if set_ := [key for key in others if getattr(self, key) != BlocksConfig.model_fields[key].default]:
            raise ConfigError(f"a conformer has norms, residuals and a convolution of its own; leave out {set_[0]}")
        if not self.d_ff:
            raise ConfigError("a conformer has two feed-forward networks; set d_ff to 1 or more")

    def encoder(self) -> TokenEncoder:
        """A new encoder, its weights not yet initialised."""
        position = build_positions(self)
        blocks = [
            ConformerBlock(
                feed_forward_of(self),
                attention_of(self, position, self.mechanism),
                ConvolutionModule(self.d_model, self.kernel),
                feed_forward_of(self),
                self.dropout,
            )
            for _ in range(self.encoder_layers)
        ]
        mask = None if self.window is None else Window(self.window, self.window)
        return ConformerEncoder(Placed(position), blocks, self.d_model, self.limited(mask))


SpeechEncoderConfig = Annotated[
    AloneConfig | WindowConfig | ConvolutionConfig | BidirectionalConfig | AttentionConfig | ConformerConfig,
    Field(discriminator="kind"),
]


class FrameWindow(TokenEncoder):
    """Each layer relu(W x + b) after [x_{i-r}; ...; x_{i+r}]; beyond the ends of a recording stand zeros.

    A linear output above a window of 2r + 1 frames of n numbers has (2r + 1) n weights for each label; above all T
    frames of a recording, for all of them at once, it has (T n)(T labels).

    Args:
        layers: none: the windows themselves are handed on.
        width: of what is handed on.
        dropout: after every layer, while training.
    """

    def __init__(self, layers: Sequence[nn.Linear], radius: int, width: int, dropout: float):
        super().__init__()
        self.layers, self.dropout = nn.ModuleList(layers), Dropout(dropout)
        self.radius, self.width, self.context = radius, width, 2 * radius + 1

    def forward(self, x: Places, valid_lens: Lens) -> Float[Tensor, "batch length width"]:
        x = side_by_side(x, valid_lens, self.radius)
        for layer in self.layers:
            x = self.dropout(layer(x).relu())
        return x


class FrameWindowConfig(Config):
    """Neighbouring frames through fully connected layers."""

    kind: Literal["mlp"] = Field("mlp", description="the family of the encoder")
    radius: int = Field(5, ge=0, le=2**10, description="neighbouring frames seen on each side: 5 are a window of 11")
    hidden: list[Annotated[int, Field(ge=1, le=2**20)]] = Field(
        default=[256], description="widths of the layers before the output; none: the output alone, a linear classifier"
    )
    dropout: float = Field(0.1, ge=0, lt=1, description="on the frames and on the output of every layer")
    initializer: Scheme = Field("xavier", description="of the linear layers")

    def fewest_tensors(self) -> int:
        """Tensors that the weights have at least, told without building: those of every layer."""
        return 2 * len(self.hidden)

    def encoder(self, bands: int) -> TokenEncoder:
        """A new encoder of frames of so many bands, its weights not yet initialised."""
        widths = [(2 * self.radius + 1) * bands, *self.hidden]
        layers = [nn.Linear(before, after) for before, after in itertools.pairwise(widths)]
        return FrameWindow(layers, self.radius, widths[-1], self.dropout)


FrameEncoderConfig = Annotated[SpeechEncoderConfig | FrameWindowConfig, Field(discriminator="kind")]
