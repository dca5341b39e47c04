"""The baseline of encoders of frames: neighbours side by side, and fully connected layers; no projection before."""

import itertools
from collections.abc import Sequence
from typing import Annotated, Literal

from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from headwise.attention.dropout import Dropout
from headwise.config import Config
from headwise.layers.initializers import Scheme
from headwise.models.conformer import SpeechEncoderConfig
from headwise.models.token_encoders import TokenEncoder, side_by_side


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

    def forward(
        self, x: Float[Tensor, "batch length d_model"], valid_lens: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch length width"]:
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
