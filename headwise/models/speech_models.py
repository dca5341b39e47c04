"""Models that listen: an encoder of frames, and a head for a whole recording or for every place of it."""

from collections.abc import Sequence
from typing import Literal

from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from headwise.attention.dropout import Dropout
from headwise.config import Config
from headwise.layers.frames import SpectrogramMasks, Subsampling
from headwise.layers.initializers import initialize
from headwise.layers.recurrent import initialize_cells
from headwise.layers.sequence_pooling import SequencePooling
from headwise.models.conformer import SpeechEncoderConfig
from headwise.models.pooled_encoder import SequencePoolingConfig
from headwise.models.token_encoders import TokenEncoder


class FramesConfig(Config):
    """What the model hears of a recording."""

    bands: int = Field(40, ge=1, le=512, description="bands of the mel scale in a frame of 25 ms; one every 10 ms")
    subsampling: Literal[1, 2, 4] = Field(2, description="frames that become one place of the encoder")
    time_masks: int = Field(0, ge=0, le=64, description="while training, stretches of frames that are hidden")
    longest_time_mask: int = Field(10, ge=1, description="frames of such a stretch at most")
    band_masks: int = Field(0, ge=0, le=64, description="while training, stretches of bands that are hidden")
    widest_band_mask: int = Field(8, ge=1, description="bands of such a stretch at most")

    def places(self, frames: int) -> int:
        """What of so many frames the encoder sees."""
        return -(-frames // self.subsampling)


class SpeechEncoder(nn.Module):
    """encoder(dropout(subsampling(masks((frames - mean) / deviation)))).

    Args:
        constants: mean and standard deviation of every band.
    """

    def __init__(
        self,
        constants: tuple[Sequence[float], Sequence[float]],
        masks: SpectrogramMasks,
        subsampling: Subsampling,
        encoder: TokenEncoder,
        dropout: float,
    ):
        super().__init__()
        # numbers of the data, not weights: they stand in the run's own file
        self.mean, self.deviation = (tuple(values) for values in constants)
        self.masks, self.subsampling, self.encoder, self.dropout = masks, subsampling, encoder, Dropout(dropout)

    def forward(
        self, frames: Float[Tensor, "batch length bands"], valid_lens: Int[Tensor, "batch"]
    ) -> tuple[Float[Tensor, "batch places width"], Int[Tensor, "batch"]]:
        """States, and how many of them each recording has."""
        x = self.masks((frames - frames.new_tensor(self.mean)) / frames.new_tensor(self.deviation))
        x, valid_lens = self.subsampling(x, valid_lens)
        return self.encoder(self.dropout(x), valid_lens), valid_lens


class SpeechClassifier(nn.Module):
    """head(dropout(pooling(listener(frames)))): logits of each recording."""

    def __init__(self, listener: SpeechEncoder, pooling: SequencePooling, head: nn.Linear, dropout: float):
        super().__init__()
        self.listener, self.pooling, self.head, self.dropout = listener, pooling, head, Dropout(dropout)

    def forward(
        self, frames: Float[Tensor, "batch length bands"], valid_lens: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch outputs"]:
        logits: Tensor = self.head(self.dropout(self.pooling(*self.listener(frames, valid_lens))))
        return logits


class FrameLabeller(nn.Module):
    """head(dropout(listener(frames))): logits of every place of each recording, and how many places it has."""

    def __init__(self, listener: SpeechEncoder, head: nn.Linear, dropout: float):
        super().__init__()
        self.listener, self.head, self.dropout = listener, head, Dropout(dropout)

    def forward(
        self, frames: Float[Tensor, "batch length bands"], valid_lens: Int[Tensor, "batch"]
    ) -> tuple[Float[Tensor, "batch places outputs"], Int[Tensor, "batch"]]:
        states, lens = self.listener(frames, valid_lens)
        return self.head(self.dropout(states)), lens


def build_speech_encoder(
    config: SpeechEncoderConfig, frames: FramesConfig, constants: tuple[Sequence[float], Sequence[float]]
) -> SpeechEncoder:
    """The listening part of a configuration, its weights not yet initialised.

    Args:
        constants: mean and standard deviation of every band.
    """
    masks = SpectrogramMasks(
        frames.time_masks, frames.longest_time_mask, frames.band_masks, min(frames.widest_band_mask, frames.bands)
    )
    subsampling = Subsampling(frames.bands, config.d_model, frames.subsampling)
    return SpeechEncoder(constants, masks, subsampling, config.encoder(), config.dropout)


def build_speech_classifier(
    config: SpeechEncoderConfig,
    frames: FramesConfig,
    pooling: SequencePoolingConfig,
    constants: tuple[Sequence[float], Sequence[float]],
    outputs: int,
) -> SpeechClassifier:
    """A model that says one thing of a whole recording; arguments as of `build_speech_encoder`.

    >>> import torch
    >>> from headwise.models.conformer import ConformerConfig
    >>> config = ConformerConfig(d_model=8, d_ff=8, num_heads=2, encoder_layers=1)
    >>> constants = [0.0] * 5, [1.0] * 5
    >>> model = build_speech_classifier(config, FramesConfig(bands=5), SequencePoolingConfig(), constants, 3)
    >>> model(torch.zeros(2, 9, 5), torch.tensor([9, 4])).shape
    torch.Size([2, 3])
    """
    listener = build_speech_encoder(config, frames, constants)
    width = listener.encoder.width
    made = pooling.pooling(width, listener.encoder.backward)
    model = SpeechClassifier(listener, made, nn.Linear(width, outputs), config.dropout)
    initialize(model, config.initializer)
    initialize_cells(model, config.initializer)
    return model


def build_frame_labeller(
    config: SpeechEncoderConfig,
    frames: FramesConfig,
    constants: tuple[Sequence[float], Sequence[float]],
    outputs: int,
) -> FrameLabeller:
    """A model that says something of every place; arguments as of `build_speech_encoder`."""
    listener = build_speech_encoder(config, frames, constants)
    model = FrameLabeller(listener, nn.Linear(listener.encoder.width, outputs), config.dropout)
    initialize(model, config.initializer)
    initialize_cells(model, config.initializer)
    return model
