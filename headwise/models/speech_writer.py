"""A model that writes what it hears: an encoder of frames whose places are the memory of a decoder."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.errors import ConfigError
from headwise.layers.embeddings import TokenEmbedding
from headwise.layers.initializers import initialize
from headwise.layers.recurrent import initialize_cells
from headwise.models.conformer import SpeechEncoderConfig
from headwise.models.protocols import Encoder, Memory, Seq2Seq
from headwise.models.speech_models import FramesConfig, SpeechEncoder, build_speech_encoder
from headwise.models.transformer import build_writer, finished
from headwise.models.transformer_config import DecoderConfig
from headwise.models.transformer_parts import build_positions


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

    def forward(self, inputs: Float[Tensor, "batch length bands"], valid_lens: Int[Tensor, "batch"]) -> Memory:
        states, _ = self.listener(inputs, valid_lens * self.factor)
        return Memory(self.projection(states))


def filled(
    frames: Float[Tensor, "batch length bands"], lens: Int[Tensor, "batch"], factor: int
) -> tuple[Float[Tensor, "batch filled bands"], Int[Tensor, "batch"]]:
    """Frames up to a whole number of places, the last one again and again behind the end; and the places of each.

    >>> x, places = filled(torch.tensor([[[1.0], [2.0], [3.0]], [[4.0], [0.0], [0.0]]]), torch.tensor([3, 1]), 2)
    >>> x[..., 0].tolist(), places.tolist()
    ([[1.0, 2.0, 3.0, 3.0], [4.0, 4.0, 4.0, 4.0]], [2, 1])
    """
    places = (lens + factor - 1) // factor
    wanted = (frames.shape[1] + factor - 1) // factor * factor
    at = torch.minimum(torch.arange(wanted, device=frames.device), lens[:, None] - 1)
    return frames.gather(1, at[..., None].expand(-1, -1, frames.shape[2])), places


def build_speech_writer(
    config: SpeechEncoderConfig,
    decoder: DecoderConfig,
    frames: FramesConfig,
    constants: tuple[Sequence[float], Sequence[float]],
    vocab_size: int,
    *,
    units: bool,
) -> Seq2Seq:
    """The model of a configuration; a linear layer joins encoder and decoder where their widths differ.

    Args:
        constants: mean and standard deviation of every band.
        units: whether places have logits of units too.
    Raises:
        ConfigError: a decoder with a memory of segments.

    >>> from headwise.models.conformer import ConformerConfig
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
    initialize(reader, config.initializer)
    initialize_cells(reader, config.initializer)
    embedding = TokenEmbedding(vocab_size, decoder.d_model, build_positions(decoder), decoder.dropout)
    writer = build_writer(decoder, embedding, decoder.mechanism, decoder.num_layers, cross=True)
    return Seq2Seq(reader, finished(writer, writer, decoder.initializer, decoder.tie_output))
