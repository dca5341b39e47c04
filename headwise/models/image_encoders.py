"""Encoders that make one vector of an image: Transformers over patches or pixels, residual networks."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.dropout import Dropout
from headwise.layers.image_blocks import MapAttention
from headwise.models.token_encoders import TokenEncoder
from headwise.models.transformer import TransformerEncoder
from headwise.positions import Position


class ImageEncoder(nn.Module, ABC):
    """Reads images and says one vector of each.

    `width` is that of the vector and of the states of places; `grid` the rows and columns of what attention looks at,
    `map` those of the places; `class_tokens` how many tokens stand before those of the grid; `receptive_field` the
    side, in pixels, of what a place of the last map sees, None for the whole image.
    """

    width: int
    grid: tuple[int, int]
    map: tuple[int, int]
    class_tokens: int = 0
    receptive_field: int | None = None

    @abstractmethod
    def forward(self, x: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch features"]: ...

    @abstractmethod
    def places(self, x: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch places features"]:
        """A vector of each place of the map, row by row; tokens of a class are left out."""

    def maps(self, x: Float[Tensor, "batch channels height width"]) -> list[Tensor]:
        """Maps (batch, features, rows, columns) of the image, from fine to coarse; here that of the places alone."""
        return [self.places(x).mT.unflatten(2, self.map)]


class PatchEncoder(ImageEncoder):
    """A Transformer over patches: a strided projection, positions, perhaps a class token, encoder blocks.

    Args:
        projection: a convolution whose stride is its size.
        position: tells patches where they are, before the class token joins them.
        class_token: whether a learned vector reads the image and is the result; otherwise the mean of the patches.
        grid: rows and columns of patches.
        dropout: on the embedded patches.
    Source: Dosovitskiy et al. 2021 (ViT), arXiv:2010.11929, eq. 1 to 4.
    """

    def __init__(
        self,
        projection: nn.Conv2d,
        position: Position,
        encoder: TransformerEncoder,
        grid: tuple[int, int],
        dropout: float,
        *,
        class_token: bool,
    ):
        super().__init__()
        self.projection, self.position, self.encoder = projection, position, encoder
        self.grid = self.map = grid
        self.width, self.class_tokens, self.dropout = projection.out_channels, int(class_token), Dropout(dropout)
        self.token = nn.Parameter(torch.empty(1, self.width)) if class_token else None
        if self.token is not None:
            nn.init.normal_(self.token, std=0.02)

    def forward(self, x: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch features"]:
        states = self._states(x)
        pooled: Tensor = states.mean(1) if self.token is None else states[:, 0]
        return pooled

    def places(self, x: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch places features"]:
        return self._states(x)[:, self.class_tokens :]

    def _states(self, x: Tensor) -> Tensor:
        patches = self.position.embed(self.projection(x).flatten(2).mT, 0)
        if self.token is not None:
            patches = torch.cat([self.token.to(patches.dtype).expand(x.shape[0], 1, -1), patches], 1)
        lens = torch.full((x.shape[0],), patches.shape[1], device=x.device)
        states: Tensor = self.encoder(self.dropout(patches), lens).states
        return states


class PixelEncoder(ImageEncoder):
    """Every pixel a token, row by row, through any encoder of sequences; the mean of what it says of each.

    Args:
        projection: channels of a pixel to the width of a token.
    """

    def __init__(self, projection: nn.Linear, encoder: TokenEncoder, grid: tuple[int, int]):
        super().__init__()
        self.projection, self.encoder, self.width = projection, encoder, encoder.width
        self.grid = self.map = grid

    def forward(self, x: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch features"]:
        return self.places(x).mean(1)

    def places(self, x: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch places features"]:
        tokens = self.projection(x.flatten(2).mT)
        lens = torch.full((x.shape[0],), tokens.shape[1], device=x.device)
        states: Tensor = self.encoder(tokens, lens)
        return states


class ConvolutionalEncoder(ImageEncoder):
    """A residual network: a convolution, stages that halve the map and double the channels, the mean of the last map.

    Args:
        stem: image to the first map.
        stages: one after another; attention over a map stands between them.
        grids: rows and columns of the map that is attended to, or of the last one; and those of the last one.
        receptive_field: what the convolutions of a place of the last map see, as `field_of` counts it.
    Source: He et al. 2016, arXiv:1512.03385; the attention: Zhang et al. 2019 (SAGAN), arXiv:1805.08318.
    """

    def __init__(
        self,
        stem: nn.Module,
        stages: Sequence[nn.Module],
        width: int,
        grids: tuple[tuple[int, int], tuple[int, int]],
        receptive_field: int | None,
    ):
        super().__init__()
        self.stem, self.stages = stem, nn.ModuleList(stages)
        self.grid, self.map = grids
        self.width, self.receptive_field = width, receptive_field

    def forward(self, x: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch features"]:
        return self._last(x).mean((2, 3))

    def places(self, x: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch places features"]:
        return self._last(x).flatten(2).mT

    def maps(self, x: Float[Tensor, "batch channels height width"]) -> list[Tensor]:
        """The map of every stage, after the attention where there is some."""
        x = F.relu(self.stem(x))
        found: list[Tensor] = []
        for stage in self.stages:
            x = stage(x)
            # attention changes the map of the stage before it
            found[-1 if isinstance(stage, MapAttention) else len(found) :] = [x]
        return found

    def _last(self, x: Tensor) -> Tensor:
        return self.maps(x)[-1]
