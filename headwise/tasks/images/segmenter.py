"""A model that says which class each pixel is of: an encoder of images, and a head from its maps back to pixels."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.dropout import Dropout
from headwise.models.recurrent import initialize_with_cells
from headwise.tasks.images.encoders import (
    Augmentation,
    Constants,
    ImageEncoder,
    ImageEncoderConfig,
    PatchConfig,
    Pixels,
    ResidualConfig,
    Sizes,
    Standardized,
)

Scores = Float[Tensor, "batch classes height width"]


class Rung(nn.Module):
    """relu(mix(raised + finer)): a map made as wide and as fine as a finer one, and joined with it.

    Args:
        reduce: a convolution of size 1 to the channels of the finer map.
        mix: a convolution over the sum.
        skips: whether the finer map is added; otherwise only its size is taken.
    """

    def __init__(self, reduce: nn.Module, mix: nn.Module, *, skips: bool):
        super().__init__()
        self.reduce, self.mix, self.skips = reduce, mix, skips

    def forward(
        self, coarse: Float[Tensor, "batch features rows columns"], finer: Float[Tensor, "batch width height across"]
    ) -> Float[Tensor, "batch width height across"]:
        # to the size of the finer map, which need not be twice that of the coarse one
        raised = F.interpolate(self.reduce(coarse), finer.shape[2:], mode="bilinear")
        return F.relu(self.mix(raised + finer if self.skips else raised))


class Ladder(nn.Module):
    """From the coarsest map up to the finest, a rung for each step, and at its top a score of every class.

    Source: Long et al. 2015, arXiv:1411.4038, section 4.2 (skips to finer maps, up-sampling), where scores are added;
    here features are added and convolved, where Ronneberger et al. 2015, arXiv:1505.04597, set them side by side.
    """

    def __init__(self, rungs: Sequence[Rung], score: nn.Module):
        super().__init__()
        self.rungs, self.score = nn.ModuleList(rungs), score

    def forward(self, maps: list[Tensor]) -> Scores:
        """Scores as fine as the first map, from maps that run from fine to coarse."""
        x = maps[-1]
        for rung, finer in zip(self.rungs, maps[-2::-1], strict=True):
            x = rung(x, finer)
        scores: Tensor = self.score(x)
        return scores


class Patches(nn.Module):
    """Scores of the pixels of each patch from the one vector of it.

    Args:
        score: a convolution of size 1 to classes x patch x patch channels.
        patch: side of a patch, in pixels.
    """

    def __init__(self, score: nn.Module, patch: int):
        super().__init__()
        self.score, self.patch = score, patch

    def forward(self, maps: list[Tensor]) -> Scores:
        return F.pixel_shuffle(self.score(maps[-1]), self.patch)


class Segmenter(nn.Module):
    """head(encoder.maps(standardized(pixels))), drawn out to the size of the image where the first map is coarser."""

    def __init__(self, augmentation: Augmentation, standardized: Standardized, encoder: ImageEncoder, head: nn.Module):
        super().__init__()
        self.augmentation, self.standardized, self.encoder, self.head = augmentation, standardized, encoder, head

    def forward(self, pixels: Pixels) -> Scores:
        scores: Tensor = self.head(self.encoder.maps(self.standardized(pixels)))
        if scores.shape[2:] == pixels.shape[2:]:
            return scores
        return F.interpolate(scores, pixels.shape[2:], mode="bilinear")

    def moved(self, pixels: Pixels, masks: UInt8[Tensor, "batch height width"]) -> tuple[Tensor, Tensor]:
        """Pictures and masks changed at random in the same way, while training."""
        both = self.augmentation(torch.cat([pixels, masks[:, None]], 1))
        return both[:, :-1], both[:, -1]


def build_segmenter(
    config: ImageEncoderConfig,
    augmentation: Augmentation,
    constants: Constants,
    sizes: Sizes,
    num_classes: int,
    *,
    skips: bool,
) -> Segmenter:
    """The model of a configuration: a ladder on a residual network, else patches back to pixels.

    Args:
        skips: whether finer maps join on the way up a ladder.
    Raises: ConfigError: an image that the encoder cannot read.

    >>> from headwise.tasks.images.encoders import CnnConfig
    >>> still = Augmentation(0, flip=False)
    >>> model = build_segmenter(CnnConfig(width=4), still, ([0.5], [0.5]), (13, 11, 1), 3, skips=True)
    >>> model(torch.zeros(2, 1, 13, 11, dtype=torch.uint8)).shape
    torch.Size([2, 3, 13, 11])
    """
    encoder = config.encoder(sizes)
    if isinstance(config, ResidualConfig):
        head: nn.Module = _ladder(config, num_classes, skips=skips)
    else:
        patch = config.patch if isinstance(config, PatchConfig) else 1
        head = Patches(_score(encoder.width, num_classes * patch**2, config.dropout), patch)
    model = Segmenter(augmentation, Standardized(*constants), encoder, head)
    initialize_with_cells(model, config.initializer)
    return model


def _ladder(config: ResidualConfig, num_classes: int, *, skips: bool) -> Ladder:
    widths = config.widths()
    rungs = [
        Rung(nn.Conv2d(wide, narrow, 1), config.convolution(narrow, narrow, (3, 1)), skips=skips)
        for narrow, wide in reversed(list(pairwise(widths)))
    ]
    return Ladder(rungs, _score(widths[0], num_classes, config.dropout))


def _score(width: int, channels: int, dropout: float) -> nn.Sequential:
    conv = nn.Conv2d(width, channels, 1)
    nn.init.xavier_uniform_(conv.weight.detach().flatten(1))
    nn.init.zeros_(conv.bias.detach())  # type: ignore[union-attr]
    return nn.Sequential(Dropout(dropout), conv)
