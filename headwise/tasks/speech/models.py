"""Models that listen: a head for a recording or each place of it, or a decoder that writes."""

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from headwise.attention.dropout import Dropout
from headwise.config import Config
from headwise.errors import ConfigError
from headwise.models.pooling import SequencePooling, SequencePoolingConfig
from headwise.models.protocols import Encoder, Memory, Seq2Seq
from headwise.models.recurrent import initialize_with_cells
from headwise.models.token_encoders import TokenEncoder, input_width
from headwise.models.transformer import build_writer, initialize_and_tie
from headwise.models.transformer_config import DecoderConfig
from headwise.models.transformer_parts import build_positions, token_embedding
from headwise.tasks.speech.encoders import (
    EveryFrame,
    FrameEncoderConfig,
    Frames,
    FrameWindowConfig,
    Lens,
    SpectrogramMasks,
    SpeechEncoderConfig,
    Subsampling,
)

# mean and standard deviation of every band
Constants = tuple[Sequence[float], Sequence[float]]


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


class EveryFrameConfig(FramesConfig):
    """The same where every frame counts by itself."""

    subsampling: Literal[1, 2, 4] = Field(1, description="frames that become one place of the encoder, with one label")


class SpeechEncoder(nn.Module):
    """encoder(dropout(subsampling(masks((frames - mean) / deviation))))."""

    mean: Tensor
    deviation: Tensor

    def __init__(
        self,
        constants: Constants,
        masks: SpectrogramMasks,
        subsampling: Subsampling | EveryFrame,
        encoder: TokenEncoder,
        dropout: float,
    ):
        super().__init__()
        # numbers of the data, not weights: they stand in the run's own file
        for name, values in zip(("mean", "deviation"), constants, strict=True):
            buffer = torch.tensor(values, dtype=torch.get_default_dtype())
            self.register_buffer(name, buffer, persistent=False)
        self.masks, self.subsampling, self.encoder, self.dropout = masks, subsampling, encoder, Dropout(dropout)

    def forward(self, frames: Frames, valid_lens: Lens) -> tuple[Float[Tensor, "batch places width"], Lens]:
        """States, and how many of them each recording has."""
        x = self.masks((frames - self.mean) / self.deviation)
        x, valid_lens = self.subsampling(x, valid_lens)
        return self.encoder(self.dropout(x), valid_lens), valid_lens


class SpeechClassifier(nn.Module):
    """head(dropout(pooling(listener(frames)))): logits of each recording."""

    def __init__(self, listener: SpeechEncoder, pooling: SequencePooling, head: nn.Linear, dropout: float):
        super().__init__()
        self.listener, self.pooling, self.head, self.dropout = listener, pooling, head, Dropout(dropout)

    def forward(self, frames: Frames, valid_lens: Lens) -> Float[Tensor, "batch outputs"]:
        logits: Tensor = self.head(self.dropout(self.pooling(*self.listener(frames, valid_lens))))
        return logits


class FrameLabeller(nn.Module):
    """head(dropout(listener(frames))): logits of every place of each recording, and how many places it has."""

    def __init__(self, listener: SpeechEncoder, head: nn.Linear, dropout: float):
        super().__init__()
        self.listener, self.head, self.dropout = listener, head, Dropout(dropout)

    def forward(self, frames: Frames, valid_lens: Lens) -> tuple[Float[Tensor, "batch places outputs"], Lens]:
        states, lens = self.listener(frames, valid_lens)
        return self.head(self.dropout(states)), lens


class FrameTagger(nn.Module):
    """The logits of a labeller for every frame: those of a place for each of the frames that it was made of.

    Args:
        factor: frames of a place.
    """

    def __init__(self, labeller: FrameLabeller, factor: int):
        super().__init__()
        self.labeller, self.factor = labeller, factor

    def forward(self, frames: Frames, valid_lens: Lens) -> Float[Tensor, "batch length outputs"]:
        logits, _ = self.labeller(frames, valid_lens)
        return logits.repeat_interleave(self.factor, 1)[:, : frames.shape[1]]


def build_speech_encoder(config: FrameEncoderConfig, frames: FramesConfig, constants: Constants) -> SpeechEncoder:
    """The listening part of a configuration, its weights not yet initialised."""
    masks = SpectrogramMasks(
        frames.time_masks, frames.longest_time_mask, frames.band_masks, min(frames.widest_band_mask, frames.bands)
    )
    if isinstance(config, FrameWindowConfig):
        return SpeechEncoder(constants, masks, EveryFrame(), config.encoder(frames.bands), config.dropout)
    subsampling = Subsampling(frames.bands, input_width(config), frames.subsampling)
    return SpeechEncoder(constants, masks, subsampling, config.encoder(), config.dropout)


def build_speech_classifier(
    config: SpeechEncoderConfig,
    frames: FramesConfig,
    pooling: SequencePoolingConfig,
    constants: Constants,
    outputs: int,
) -> SpeechClassifier:
    """A model that says one thing of a whole recording.

    >>> import torch
    >>> from headwise.tasks.speech.encoders import ConformerConfig
    >>> config = ConformerConfig(d_model=8, d_ff=8, num_heads=2, encoder_layers=1)
    >>> constants = [0.0] * 5, [1.0] * 5
    >>> model = build_speech_classifier(config, FramesConfig(bands=5), SequencePoolingConfig(), constants, 3)
    >>> model(torch.zeros(2, 9, 5), torch.tensor([9, 4])).shape
    torch.Size([2, 3])
    """
    listener = build_speech_encoder(config, frames, constants)
    width = listener.encoder.width
    pool = pooling.pooling(width, listener.encoder.backward)
    model = SpeechClassifier(listener, pool, nn.Linear(width, outputs), config.dropout)
    initialize_with_cells(model, config.initializer)
    return model


def build_frame_labeller(
    config: FrameEncoderConfig, frames: FramesConfig, constants: Constants, outputs: int
) -> FrameLabeller:
    """A model that says something of every place."""
    listener = build_speech_encoder(config, frames, constants)
    model = FrameLabeller(listener, nn.Linear(listener.encoder.width, outputs), config.dropout)
    initialize_with_cells(model, config.initializer)
    return model


def build_frame_tagger(
    config: FrameEncoderConfig, frames: FramesConfig, constants: Constants, outputs: int
) -> FrameTagger:
    """A model that says something of every frame of 10 ms.

    >>> config, constants = FrameWindowConfig(hidden=[]), ([0.0] * 39, [1.0] * 39)
    >>> model = build_frame_tagger(config, FramesConfig(bands=39, subsampling=1), constants, 48)
    >>> model(torch.zeros(2, 500, 39), torch.tensor([500, 100])).shape, model.labeller.head.weight.numel()
    (torch.Size([2, 500, 48]), 20592)
    """
    factor = 1 if isinstance(config, FrameWindowConfig) else frames.subsampling
    return FrameTagger(build_frame_labeller(config, frames, constants, outputs), factor)


class SpeechReader(Encoder):
    """projection(listener(frames)): a state for every place of a recording, by the number of places that it has.

    Args:
        projection: to the width of the decoder.
        factor: frames of a place; recordings are filled up to whole places, as `filled` does.
        units: logits of every unit at a place, for connectionist temporal classification beside the decoder; None: no.
    """

    def __init__(self, listener: SpeechEncoder, projection: nn.Module, factor: int, units: nn.Linear | None):
        super().__init__()
        self.listener, self.projection, self.factor, self.units = listener, projection, factor, units

    def forward(self, inputs: Frames, valid_lens: Lens) -> Memory:
        states, _ = self.listener(inputs, valid_lens * self.factor)
        return Memory(self.projection(states))


def filled(frames: Frames, lens: Lens, factor: int) -> tuple[Float[Tensor, "batch filled bands"], Lens]:
    """Frames up to a whole number of places, the last one again and again behind the end; and the places of each.

    >>> x, places = filled(torch.tensor([[[1.0], [2.0], [3.0]], [[4.0], [0.0], [0.0]]]), torch.tensor([3, 1]), 2)
    >>> x[..., 0].tolist(), places.tolist()
    ([[1.0, 2.0, 3.0, 3.0], [4.0, 4.0, 4.0, 4.0]], [2, 1])
    """
    places = (lens + factor - 1) // factor
    length = (frames.shape[1] + factor - 1) // factor * factor
    at = torch.minimum(torch.arange(length, device=frames.device), lens[:, None] - 1)
    return frames.gather(1, at[..., None].expand(-1, -1, frames.shape[2])), places


def build_speech_writer(
    config: SpeechEncoderConfig,
    decoder: DecoderConfig,
    frames: FramesConfig,
    constants: Constants,
    vocab_size: int,
    *,
    units: bool,
) -> Seq2Seq:
    """The model of a configuration; a linear layer joins encoder and decoder where their widths differ.

    Args:
        units: whether places have logits of units too.
    Raises: ConfigError: a decoder with a memory of segments.

    >>> from headwise.tasks.speech.encoders import ConformerConfig
    >>> small = {"d_model": 8, "d_ff": 8, "num_heads": 2}
    >>> configs = ConformerConfig(**small, encoder_layers=1), DecoderConfig(**small, num_layers=1)
    >>> model = build_speech_writer(*configs, FramesConfig(bands=5), ([0.0] * 5, [1.0] * 5), 7, units=False)
    >>> model(torch.zeros(2, 8, 5), torch.tensor([4, 2]), torch.tensor([[1], [1]])).shape
    torch.Size([2, 1, 7])
    """
    if decoder.memory_len:
        raise ConfigError(f"output.decoder.memory_len ({decoder.memory_len}) is for long texts; leave it out here")
    listener = build_speech_encoder(config, frames, constants)
    width = listener.encoder.width
    joined = nn.Identity() if width == decoder.d_model else nn.Linear(width, decoder.d_model)
    head = nn.Linear(decoder.d_model, vocab_size) if units else None
    reader = SpeechReader(listener, joined, frames.subsampling, head)
    initialize_with_cells(reader, config.initializer)
    embedding = token_embedding(decoder, vocab_size, build_positions(decoder))
    writer = build_writer(decoder, embedding, decoder.mechanism, decoder.num_layers, cross=True)
    return Seq2Seq(reader, initialize_and_tie(writer, writer, decoder.initializer, decoder.tie_output))
