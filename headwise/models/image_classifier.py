"""A model that says which class an image is of: an encoder of images and a linear head."""

from collections.abc import Sequence

from jaxtyping import Float, UInt8
from torch import Tensor, nn

from headwise.attention.dropout import Dropout
from headwise.layers.image_blocks import Augmentation, Standardized
from headwise.layers.initializers import initialize
from headwise.layers.recurrent import initialize_cells
from headwise.models.image_config import ImageEncoderConfig, Sizes
from headwise.models.image_encoders import ImageEncoder


class ImageClassifier(nn.Module):
    """head(dropout(encoder(standardized(augmentation(pixels)))))."""

    def __init__(
        self,
        augmentation: Augmentation,
        standardized: Standardized,
        encoder: ImageEncoder,
        head: nn.Linear,
        dropout: float,
    ):
        super().__init__()
        self.augmentation, self.standardized, self.encoder = augmentation, standardized, encoder
        self.head, self.dropout = head, Dropout(dropout)

    def forward(self, pixels: UInt8[Tensor, "batch channels height width"]) -> Float[Tensor, "batch classes"]:
        """Logits of the classes."""
        x = self.standardized(self.augmentation(pixels))
        logits: Tensor = self.head(self.dropout(self.encoder(x)))
        return logits


def build_image_classifier(
    config: ImageEncoderConfig,
    augmentation: Augmentation,
    constants: tuple[Sequence[float], Sequence[float]],
    sizes: Sizes,
    num_classes: int,
) -> ImageClassifier:
    """The model of a configuration.

    Args:
        constants: mean and standard deviation of each channel, of bytes as fractions of 255.
        sizes: height, width and channels of the images.
    Raises:
        ConfigError: an image that the encoder cannot read, with the sizes that it can.

    >>> import torch
    >>> from headwise.models.image_config import PatchConfig
    >>> config = PatchConfig(d_model=8, d_ff=16, num_heads=2, encoder_layers=1, patch=7)
    >>> model = build_image_classifier(config, Augmentation(0, flip=False), ([0.5], [0.5]), (28, 21, 1), 10)
    >>> model(torch.zeros(2, 1, 28, 21, dtype=torch.uint8)).shape
    torch.Size([2, 10])
    """
    encoder = config.encoder(sizes)
    head = nn.Linear(encoder.width, num_classes)
    model = ImageClassifier(augmentation, Standardized(*constants), encoder, head, config.dropout)
    initialize(model, config.initializer)
    initialize_cells(model, config.initializer)
    return model
