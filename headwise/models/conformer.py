"""The encoder of a Conformer, and every encoder that may listen to speech, by `kind`."""

from collections.abc import Sequence
from typing import Annotated, Literal

from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from headwise.attention.masks import Mask, Padding, Window
from headwise.attention.zeros import zeroed_beyond
from headwise.errors import ConfigError
from headwise.layers.conformer import ConformerBlock, ConvolutionModule
from headwise.layers.embeddings import Placed
from headwise.models.token_encoders import (
    AloneConfig,
    AttentionConfig,
    BidirectionalConfig,
    ConvolutionConfig,
    TokenEncoder,
    WindowConfig,
)
from headwise.models.transformer_config import BlocksConfig
from headwise.models.transformer_parts import attention_of, build_positions, feed_forward_of


class ConformerEncoder(TokenEncoder):
    """A stack of Conformer blocks.

    Args:
        placed: gives the vectors their places, where the position is no part of attention.
        mask: which frames may meet besides what the lengths say; None: all.
    """

    def __init__(self, placed: Placed, blocks: Sequence[ConformerBlock], width: int, mask: Mask | None = None):
        super().__init__()
        self.placed, self.blocks, self.width, self.mask = placed, nn.ModuleList(blocks), width, mask

    def forward(
        self, x: Float[Tensor, "batch length d_model"], valid_lens: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch length width"]:
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
    position: str = Field("transformer_xl", description="where position enters; `headwise list positions`")
    kernel: int = Field(15, ge=1, le=2**12, description="frames that the filters of a block read: an odd number")
    window: int | None = Field(
        None, ge=0, description="frames that attention sees on each side (truncated attention); all if absent"
    )

    def model_post_init(self, context: object) -> None:
        super().model_post_init(context)
        if self.kernel % 2 == 0:
            raise ConfigError(f"kernel ({self.kernel}) must be odd, so that a filter has a middle")
        # the keys of other stacks for what the Conformer's definition says
        others = ("segment", "reversible", "convolution_heads", "norm", "norm_order", "residual")
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
        return ConformerEncoder(Placed(position), blocks, self.d_model, mask)


SpeechEncoderConfig = Annotated[
    AloneConfig | WindowConfig | ConvolutionConfig | BidirectionalConfig | AttentionConfig | ConformerConfig,
    Field(discriminator="kind"),
]
