"""A model that writes about an image: an encoder of images whose places are the memory of a decoder."""

from collections.abc import Sequence

from jaxtyping import Int, UInt8
from torch import Tensor, nn

from headwise.errors import ConfigError
from headwise.layers.embeddings import TokenEmbedding
from headwise.layers.image_blocks import Augmentation, Standardized
from headwise.layers.initializers import initialize
from headwise.layers.recurrent import initialize_cells
from headwise.models.image_config import ImageEncoderConfig, Sizes
from headwise.models.image_encoders import ImageEncoder
from headwise.models.protocols import Encoder, Memory, Seq2Seq
from headwise.models.transformer import build_writer, finished
from headwise.models.transformer_config import DecoderConfig
from headwise.models.transformer_parts import build_positions


class ImageReader(Encoder):
    """projection(places(standardized(augmentation(pixels)))): a state for every place of an image, row by row.

    Args:
        projection: to the width of the decoder.
    """

    def __init__(
        self, augmentation: Augmentation, standardized: Standardized, encoder: ImageEncoder, projection: nn.Module
    ):
        super().__init__()
        self.augmentation, self.standardized = augmentation, standardized
        self.encoder, self.projection = encoder, projection

    @property
    def num_places(self) -> int:
        """States of an image."""
        rows, columns = self.encoder.map
        return rows * columns

    def forward(self, inputs: UInt8[Tensor, "batch channels height width"], valid_lens: Int[Tensor, "batch"]) -> Memory:
        return Memory(self.projection(self.encoder.places(self.standardized(self.augmentation(inputs)))))


def build_captioner(
    encoder: ImageEncoderConfig,
    decoder: DecoderConfig,
    augmentation: Augmentation,
    constants: tuple[Sequence[float], Sequence[float]],
    sizes: Sizes,
    vocab_size: int,
) -> Seq2Seq:
    """The model of a configuration; a linear layer joins encoder and decoder where their widths differ.

    Args:
        constants: mean and standard deviation of each channel, of bytes as fractions of 255.
        sizes: height, width and channels of the images.
    Raises:
        ConfigError: an image that the encoder cannot read; a decoder with a memory of segments.

    >>> import torch
    >>> from headwise.models.image_config import PatchConfig
    >>> small = {"d_model": 8, "d_ff": 16, "num_heads": 2}
    >>> configs = PatchConfig(**small, encoder_layers=1, patch=7), DecoderConfig(**small, num_layers=1)
    >>> model = build_captioner(*configs, Augmentation(0, flip=False), ([0.5], [0.5]), (28, 21, 1), 10)
    >>> model(torch.zeros(2, 1, 28, 21, dtype=torch.uint8), torch.tensor([12, 12]), torch.tensor([[1], [1]])).shape
    torch.Size([2, 1, 10])
    """
    if decoder.memory_len:
        raise ConfigError(f"model.memory_len ({decoder.memory_len}) is for long texts; leave it out here")
    reader = encoder.encoder(sizes)
    joined = nn.Identity() if reader.width == decoder.d_model else nn.Linear(reader.width, decoder.d_model)
    inputs = ImageReader(augmentation, Standardized(*constants), reader, joined)
    initialize(inputs, encoder.initializer)
    initialize_cells(inputs, encoder.initializer)
    embedding = TokenEmbedding(vocab_size, decoder.d_model, build_positions(decoder), decoder.dropout)
    writer = build_writer(decoder, embedding, decoder.mechanism, decoder.num_layers, cross=True)
    return Seq2Seq(inputs, finished(writer, writer, decoder.initializer, decoder.tie_output))
