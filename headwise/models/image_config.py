"""Encoders of images as a recipe names them: their sizes and parts, and how they are built."""

import math
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import nn

from headwise.attention import mechanisms, normalizers, scores
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.attention.mechanisms.scored import Scored
from headwise.config import Config
from headwise.errors import ConfigError
from headwise.layers.attention import MultiHeadAttention
from headwise.layers.image_blocks import Gate, MapAttention, ResidualConvolutions
from headwise.layers.initializers import Scheme
from headwise.models.image_encoders import ConvolutionalEncoder, ImageEncoder, PatchEncoder, PixelEncoder
from headwise.models.token_encoders import EncoderConfig
from headwise.models.transformer import build_encoder
from headwise.models.transformer_config import BlocksConfig
from headwise.positions import position_type

# height, width and channels of the images
Sizes = tuple[int, int, int]
# (size, stride) of a convolution
Step = tuple[int, int]


class PatchConfig(BlocksConfig):
    """A Transformer over patches of the image."""

    kind: Literal["vit"] = Field("vit", description="the family of the encoder")
    patch: int = Field(4, ge=1, description="side of a square patch, in pixels; a divisor of height and width")
    pooling: Literal["cls", "mean"] = Field("cls", description="a class token reads the image, or the mean of patches")
    position: str = Field(
        "learned", description="where position enters; `headwise list positions`, such as relative_2d"
    )
    max_len: int = Field(512, ge=1, description="follows from the image here: its patches, and the class token")

    def map(self, sizes: Sizes) -> tuple[int, int]:
        """Rows and columns of patches."""
        return sizes[0] // self.patch, sizes[1] // self.patch

    def encoder(self, sizes: Sizes) -> ImageEncoder:
        """A new encoder, its linear layers not yet initialised. Raises: ConfigError for patches that do not fit."""
        height, width, channels = sizes
        if height % self.patch or width % self.patch:
            raise ConfigError(
                f"model.patch ({self.patch}) must divide the image of {height} x {width} pixels; use another, or set"
                f" data.size to {_multiple(height, self.patch)} and {_multiple(width, self.patch)}"
            )
        grid, head_dim = self.map(sizes), self.d_model // self.num_heads
        class_token, kind = self.pooling == "cls", position_type(self.position)
        in_rows = "on_grid" in vars(kind)
        if class_token and in_rows and kind.where != "embeddings":
            raise ConfigError(
                f"position '{self.position}' counts the ways from patch to patch, and there is none to a class token;"
                ' set model.pooling = "mean"'
            )
        tokens = grid[0] * grid[1] + class_token
        placed = self.model_copy(update={"max_len": tokens})
        # tables inside attention are for all tokens, the class token among them; those of embeddings for the patches
        widths = self.d_model, head_dim, self.num_heads
        inside = kind.where != "embeddings" and not in_rows
        position = kind.sized(*widths, tokens) if inside else kind.on_grid(*widths, *grid)
        projection = nn.Conv2d(channels, self.d_model, self.patch, stride=self.patch)
        # a convolution whose stride is its size is a linear layer over each patch
        nn.init.xavier_uniform_(projection.weight.detach().flatten(1))
        projection.bias = nn.Parameter(torch.zeros(self.d_model))
        stack = build_encoder(placed, nn.Identity(), position)
        return PatchEncoder(projection, position, stack, grid, self.dropout, class_token=class_token)


class PixelConfig(Config):
    """Every pixel a token of a sequence."""

    kind: Literal["pixels"] = Field("pixels", description="the family of the encoder")
    sequence: EncoderConfig = Field(description="what reads the pixels, row by row: token, window, cnn, rnn, attention")
    dropout: float = Field(0.1, ge=0, lt=1, description="on what the head reads")
    initializer: Scheme = Field("xavier", description="of the linear layers")

    def map(self, sizes: Sizes) -> tuple[int, int]:
        """Rows and columns of pixels."""
        return sizes[:2]

    def encoder(self, sizes: Sizes) -> ImageEncoder:
        """A new encoder, its linear layers not yet initialised."""
        height, width, channels = sizes
        return PixelEncoder(nn.Linear(channels, self.sequence.d_model), self.sequence.encoder(), (height, width))


class ResidualConfig(Config):
    """What residual networks have; each stage but the first halves the map and doubles the channels."""

    width: int = Field(
        32, ge=1, le=2**14, description="channels of the first stage; each further one has twice as many"
    )
    stages: int = Field(3, ge=1, le=8, description="stages; each but the first halves height and width")
    blocks: int = Field(1, ge=1, le=64, description="residual blocks of two convolutions in each stage")
    stride: int = Field(1, ge=1, le=8, description="of the first convolution; 2 reads the image at half its size")
    norm: Literal["batch", "none"] = Field("batch", description="of every convolution; without, branches begin at zero")
    dropout: float = Field(0.1, ge=0, lt=1, description="on what the head reads")
    initializer: Scheme = Field("xavier", description="of the linear layers; convolutions follow He et al. 2015")

    def widths(self) -> list[int]:
        """Channels of every stage."""
        return [self.width * 2**stage for stage in range(self.stages)]

    def map(self, sizes: Sizes) -> tuple[int, int]:
        """Rows and columns of the last map. Raises: ConfigError as `grids`."""
        return self.grids(sizes)[-1]

    def grids(self, sizes: Sizes) -> list[tuple[int, int]]:
        """Rows and columns of the map of every stage. Raises: ConfigError for an image too small for the stages."""
        height, width = (math.ceil(side / self.stride) for side in sizes[:2])
        grids = [(math.ceil(height / 2**stage), math.ceil(width / 2**stage)) for stage in range(self.stages)]
        if min(grids[-1]) < 2:
            raise ConfigError(
                f"an image of {sizes[0]} x {sizes[1]} pixels is too small for model.stages = {self.stages} and"
                f" model.stride = {self.stride}: the last map is {grids[-1][0]} x {grids[-1][1]}; use fewer stages"
            )
        return grids

    def parts(self, sizes: Sizes) -> tuple[nn.Module, list[nn.Module], int]:
        """The stem, the stages, and the receptive field of the last map."""
        self.grids(sizes)
        stem, steps = self.convolution(sizes[2], self.width, (3, self.stride)), [(3, self.stride)]
        stages, before = [], self.width
        for stage, width in enumerate(self.widths()):
            stack: list[nn.Module] = []
            for block in range(self.blocks):
                stride = 2 if stage and not block else 1
                stack.append(self._block(before, width, stride))
                before, steps = width, [*steps, (3, stride), (3, 1)]
            stages.append(nn.Sequential(*stack))
        return stem, list(stages), field_of(steps)

    def _block(self, before: int, width: int, stride: int) -> ResidualConvolutions:
        second = self.convolution(width, width, (3, 1))
        # the branch begins at zero: Goyal et al. 2017, arXiv:1706.02677, section 5.1; De and Smith 2020
        if isinstance(norm := second[-1], nn.BatchNorm2d):
            nn.init.zeros_(norm.weight.detach())
        else:
            second.append(Gate())
        changes = before != width or stride > 1
        shortcut = self.convolution(before, width, (1, 1)) if changes else nn.Identity()
        return ResidualConvolutions(self.convolution(before, width, (3, stride)), second, shortcut, stride)

    def convolution(self, before: int, width: int, step: Step) -> nn.Sequential:
        """A convolution of (size, stride) from so many channels to others, and its norm where there is one."""
        size, stride = step
        batch = self.norm == "batch"
        made = nn.Conv2d(before, width, size, stride, padding=size // 2, bias=not batch)
        nn.init.kaiming_normal_(made.weight.detach(), mode="fan_out", nonlinearity="relu")
        if made.bias is not None:
            nn.init.zeros_(made.bias.detach())
        return nn.Sequential(made, nn.BatchNorm2d(width)) if batch else nn.Sequential(made)


class CnnConfig(ResidualConfig):
    """A residual network of convolutions."""

    kind: Literal["cnn"] = Field("cnn", description="the family of the encoder")

    def encoder(self, sizes: Sizes) -> ImageEncoder:
        """A new encoder, its linear layers not yet initialised."""
        stem, stages, seen = self.parts(sizes)
        last = self.map(sizes)
        return ConvolutionalEncoder(stem, stages, self.widths()[-1], (last, last), seen)


class AttentionCnnConfig(ResidualConfig):
    """A residual network in which every place of one map looks at all others (SAGAN)."""

    kind: Literal["attention_cnn"] = Field("attention_cnn", description="the family of the encoder")
    attention_after: int = Field(2, ge=1, description="the stage, from 1, whose map is attended to")
    reduction: int = Field(8, ge=1, description="channels of the map for each one of queries, keys and values")
    num_heads: int = Field(1, ge=1, description="attention heads, which share the reduced channels")
    mechanism: str = Field("scored", description="what attention computes; `headwise list mechanisms`")
    score: str = Field("dot", description="how alike query and key are; `headwise list scores`")
    normalizer: str = Field("softmax", description="scores to weights; `headwise list normalizers`")
    position: str = Field("none", description="position inside attention, such as relative_2d or rotary")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="on attention weights")

    def model_post_init(self, context: object) -> None:
        scores.check_name(self.score)
        normalizers.build(self.normalizer, self.num_heads)
        kind, found = mechanisms.mechanism_type(self.mechanism), position_type(self.position)
        if self.mechanism != "scored" and (self.score, self.normalizer) != ("dot", "softmax"):
            raise ConfigError(f"score and normalizer belong to mechanism 'scored', not to '{self.mechanism}'")
        if not kind.facts.bidirectional:
            raise ConfigError(f"mechanism '{self.mechanism}' sees no later places; an image needs one that does")
        if found.where == "embeddings" or (
            found.where.startswith("scores") and not (kind.facts.bias and kind.facts.relative)
        ):
            raise ConfigError(f"position '{self.position}' cannot act inside mechanism '{self.mechanism}'; use 'none'")
        if self.attention_after > self.stages:
            raise ConfigError(f"attention_after ({self.attention_after}) is beyond the {self.stages} stages")
        if self._inner() % self.num_heads or not self._inner():
            raise ConfigError(
                f"the {self.widths()[self.attention_after - 1]} channels of stage {self.attention_after} divided by"
                f" reduction ({self.reduction}) must be a multiple of num_heads ({self.num_heads})"
            )

    def encoder(self, sizes: Sizes) -> ImageEncoder:
        """A new encoder, its linear layers not yet initialised."""
        stem, stages, _ = self.parts(sizes)
        grid, width = self.grids(sizes)[self.attention_after - 1], self.widths()[self.attention_after - 1]
        head_dim = self._inner() // self.num_heads
        position = position_type(self.position).on_grid(width, head_dim, self.num_heads, *grid)
        attention = MultiHeadAttention(
            width,
            self.num_heads,
            self._mechanism(head_dim, grid[0] * grid[1]),
            head_dim=head_dim,
            position=position if position.acts_in_attention() else None,
        )
        stages.insert(self.attention_after, MapAttention(attention))
        return ConvolutionalEncoder(stem, stages, self.widths()[-1], (grid, self.map(sizes)), None)

    def _inner(self) -> int:
        return self.widths()[self.attention_after - 1] // self.reduction

    def _mechanism(self, head_dim: int, places: int) -> Mechanism:
        if self.mechanism == "scored":
            score = scores.build(self.score, head_dim, head_dim, head_dim, self.num_heads)
            return Scored(score, normalizers.build(self.normalizer, self.num_heads), self.attention_dropout)
        kind = mechanisms.mechanism_type(self.mechanism)
        return kind.sized(head_dim=head_dim, num_heads=self.num_heads, max_len=places, dropout=self.attention_dropout)


ImageEncoderConfig = Annotated[PatchConfig | PixelConfig | CnnConfig | AttentionCnnConfig, Field(discriminator="kind")]


def field_of(steps: list[Step]) -> int:
    """The side of what one place sees through convolutions of these (size, stride): 1 + sum of (size - 1) jump.

    Source: Araujo et al. 2019, "Computing Receptive Fields of Convolutional Neural Networks", eq. 2.

    >>> field_of([(3, 1), (3, 1), (3, 2), (3, 1)])
    11
    """
    jump, field = 1, 1
    for size, stride in steps:
        field += (size - 1) * jump
        jump *= stride
    return field


def _multiple(side: int, patch: int) -> int:
    return max(1, round(side / patch)) * patch
