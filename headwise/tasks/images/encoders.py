"""Encoders of images: their blocks, one for each name in a recipe, and how they are built."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from jaxtyping import Float, UInt8
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from headwise import positions
from headwise.attention import mechanisms, normalizers
from headwise.attention.dropout import Dropout
from headwise.config import Config
from headwise.errors import ConfigError
from headwise.explain.places import Grid
from headwise.layers.attention import MultiHeadAttention
from headwise.models.initializers import Scheme
from headwise.models.names import MechanismName, NormalizerName, PositionName, ScoreName
from headwise.models.token_encoders import EncoderConfig, TokenEncoder, input_width
from headwise.models.transformer import TransformerEncoder, build_encoder
from headwise.models.transformer_config import BlocksConfig
from headwise.positions import Position, position_type

Pixels = UInt8[Tensor, "batch channels height width"]
Maps = Float[Tensor, "batch channels height width"]
# a vector of each place, row by row
States = Float[Tensor, "batch places features"]


class Augmentation(nn.Module):
    """Moves each image by up to `shift` pixels in both directions and mirrors every second one, while training.

    What an image moves away from repeats its edge. Draws come from torch's generator of the device, so that a resumed
    run goes on with the same; in `eval()` nothing is drawn and nothing changes.

    Args:
        shift: pixels at most, every whole number alike.
        flip: whether left and right are exchanged, at even odds.

    >>> Augmentation(2, flip=True).eval()(torch.tensor([[[[7, 9]]]], dtype=torch.uint8)).tolist()
    [[[[7, 9]]]]
    """

    def __init__(self, shift: int, *, flip: bool):
        super().__init__()
        self.shift, self.flip = shift, flip

    def forward(self, pixels: Pixels) -> Pixels:
        if not self.training or not (self.shift or self.flip):
            return pixels
        batch, height, width = pixels.shape[0], *pixels.shape[2:]
        moves = torch.randint(-self.shift, self.shift + 1, (2, batch, 1), device=pixels.device)
        rows, columns = (
            (torch.arange(side, device=pixels.device) + move).clamp(0, side - 1)
            for side, move in zip((height, width), moves, strict=True)
        )
        if self.flip:
            mirrored = torch.rand(batch, 1, device=pixels.device) < 0.5
            columns = torch.where(mirrored, width - 1 - columns, columns)
        image = torch.arange(batch, device=pixels.device)[:, None, None]
        # (batch, height, width, channels)
        moved = pixels.permute(0, 2, 3, 1)[image, rows[:, :, None], columns[:, None, :]]
        return moved.permute(0, 3, 1, 2)

    def extra_repr(self) -> str:
        return f"shift={self.shift}, flip={self.flip}"


class Standardized(nn.Module):
    """(x / 255 - mean) / deviation by channel, as float32: bytes to numbers about zero.

    Args:
        mean, deviation: of each channel, as fractions of 255.

    >>> Standardized([0.5], [0.25])(torch.tensor([[[[255]]]], dtype=torch.uint8)).item()
    2.0
    """

    def __init__(self, mean: Sequence[float], deviation: Sequence[float]):
        super().__init__()
        # numbers of the data, not weights: they stand in the run's own file
        self.mean, self.deviation = tuple(mean), tuple(deviation)

    def forward(self, pixels: Pixels) -> Maps:
        mean, deviation = (
            torch.tensor(values, device=pixels.device)[:, None, None] * 255 for values in (self.mean, self.deviation)
        )
        return (pixels.float() - mean) / deviation

    def extra_repr(self) -> str:
        return f"mean={self.mean}, deviation={self.deviation}"


class Gate(nn.Module):
    """gamma x with one learned number gamma that is 0 at first, so that a branch behind it begins as nothing.

    Source: Zhang et al. 2019 (SAGAN), arXiv:1805.08318, eq. 3; De and Smith 2020 (SkipInit), arXiv:2002.10444.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.zeros(()))

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return self.gamma * x


class ResidualConvolutions(nn.Module):
    """relu(shortcut(x) + second(relu(first(x)))), the shortcut reading every `stride`-th row and column.

    Args:
        first, second: convolutions with their norms; `first` may halve the map.
        shortcut: the identity, or a convolution of size 1 and stride 1 where the map changes.
        stride: of `first`.
    Source: He et al. 2016, arXiv:1512.03385, eq. 1 and 2. There the shortcut's convolution has the stride, which is the
        same; its gradient by oneDNN 3.x writes beyond its memory on processors with AVX2 alone.
    """

    def __init__(self, first: nn.Module, second: nn.Module, shortcut: nn.Module, stride: int = 1):
        super().__init__()
        self.first, self.second, self.shortcut, self.stride = first, second, shortcut, stride

    def forward(self, x: Maps) -> Float[Tensor, "batch out_channels out_height out_width"]:
        shortcut = self.shortcut(x[:, :, :: self.stride, :: self.stride])
        return F.relu(shortcut + self.second(F.relu(self.first(x))))


class MapAttention(nn.Module):
    """x + gamma attention(x): every place of a map looks at all places; the identity until gamma leaves 0.

    With the score "dot" and one head of C / 8 it is the block of SAGAN: o_j = W_v sum_i softmax_i(f(x_i) . g(x_j))
    h(x_i), where g makes the queries, f the keys and h the values; here the projections have biases. Costs
    (height x width)^2.

    Args:
        attention: over the places of the map, row by row.
    Source: Zhang et al. 2019, arXiv:1805.08318, eq. 1 to 3, without its spectral norm.

    >>> x = torch.randn(2, 16, 3, 5)
    >>> torch.equal(MapAttention(MultiHeadAttention(16, 1, head_dim=2))(x), x)
    True
    """

    def __init__(self, attention: MultiHeadAttention):
        super().__init__()
        self.attention, self.gate = attention, Gate()

    def forward(self, x: Maps) -> Maps:
        attended: Tensor = self.attention(x.flatten(2).mT)
        gated: Tensor = self.gate(attended.mT.unflatten(2, x.shape[2:]))
        return x + gated


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

    @property
    def patches(self) -> Grid:
        """What attention looks at."""
        return Grid(*self.grid, self.class_tokens)

    @abstractmethod
    def forward(self, x: Maps) -> Float[Tensor, "batch features"]: ...

    @abstractmethod
    def places(self, x: Maps) -> States:
        """A vector of each place of the map, row by row; tokens of a class are left out."""

    def maps(self, x: Maps) -> list[Tensor]:
        """Maps (batch, features, rows, columns) of the image, from fine to coarse; here that of the places alone."""
        return [self.places(x).mT.unflatten(2, self.map)]


class PatchEncoder(ImageEncoder):
    """A Transformer over patches: a strided projection, positions, perhaps a class token, encoder blocks.

    Args:
        projection: a convolution whose stride is its size.
        position: tells patches where they are, before the class token joins them.
        class_tokens: learned vectors that read the image, the first of which is the result; 0: the mean of the patches.
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
        class_tokens: int,
    ):
        super().__init__()
        self.projection, self.position, self.encoder = projection, position, encoder
        self.grid = self.map = grid
        self.width, self.class_tokens, self.dropout = projection.out_channels, class_tokens, Dropout(dropout)
        self.token = nn.Parameter(torch.empty(class_tokens, self.width)) if class_tokens else None
        if self.token is not None:
            nn.init.normal_(self.token, std=0.02)

    def forward(self, x: Maps) -> Float[Tensor, "batch features"]:
        states = self._states(x)
        pooled: Tensor = states.mean(1) if self.token is None else states[:, 0]
        return pooled

    def places(self, x: Maps) -> States:
        return self._states(x)[:, self.class_tokens :]

    def _states(self, x: Tensor) -> Tensor:
        patches = self.position.embed(self.projection(x).flatten(2).mT, 0)
        if self.token is not None:
            patches = torch.cat([self.token.to(patches.dtype).expand(x.shape[0], -1, -1), patches], 1)
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

    def forward(self, x: Maps) -> Float[Tensor, "batch features"]:
        return self.places(x).mean(1)

    def places(self, x: Maps) -> States:
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

    def forward(self, x: Maps) -> Float[Tensor, "batch features"]:
        return self.maps(x)[-1].mean((2, 3))

    def places(self, x: Maps) -> States:
        return self.maps(x)[-1].flatten(2).mT

    def maps(self, x: Maps) -> list[Tensor]:
        """The map of every stage, after the attention where there is some."""
        x = F.relu(self.stem(x))
        maps: list[Tensor] = []
        for stage in self.stages:
            x = stage(x)
            # attention changes the map of the stage before it
            maps[-1 if isinstance(stage, MapAttention) else len(maps) :] = [x]
        return maps


# mean and standard deviation of each channel, of bytes as fractions of 255
Constants = tuple[Sequence[float], Sequence[float]]
# height, width and channels of the images
Sizes = tuple[int, int, int]
# (size, stride) of a convolution
Step = tuple[int, int]


class PatchConfig(BlocksConfig):
    """A Transformer over patches of the image."""

    kind: Literal["vit"] = Field("vit", description="the family of the encoder")
    patch: int = Field(4, ge=1, description="side of a square patch, in pixels; a divisor of height and width")
    pooling: Literal["cls", "mean"] = Field("cls", description="a class token reads the image, or the mean of patches")
    extra_tokens: int = Field(
        0, ge=0, le=64, description="learned tokens behind the class token, such as that for distillation in DeiT"
    )
    position: PositionName = Field("learned", description="where position enters, such as relative_2d; `headwise list`")
    max_len: int = Field(512, ge=1, description="follows from the image here: its patches, and the class token")

    def map(self, sizes: Sizes) -> tuple[int, int]:
        return sizes[0] // self.patch, sizes[1] // self.patch

    def encoder(self, sizes: Sizes) -> ImageEncoder:
        """A new encoder, its linear layers not yet initialised. Raises: ConfigError for patches that do not fit."""
        height, width, channels = sizes
        if height % self.patch or width % self.patch:
            raise ConfigError(
                f"model.patch ({self.patch}) must divide the image of {height} x {width} pixels; use another, or set"
                f" data.size to {_multiple(height, self.patch)} and {_multiple(width, self.patch)}"
            )
        grid, head_dim = self.map(sizes), self.head_width
        class_token, kind = self.pooling == "cls", position_type(self.position)
        if self.extra_tokens and not class_token:
            raise ConfigError('model.extra_tokens stand behind a class token; set model.pooling = "cls"')
        scheme = positions.REGISTRY.class_of(self.position)
        in_rows = bool(scheme.grid) or "on_grid" in vars(scheme)
        if class_token and in_rows and kind.where != "embeddings":
            raise ConfigError(
                f"position '{self.position}' counts the ways from patch to patch, and there is none to a class token;"
                ' set model.pooling = "mean"'
            )
        class_tokens = 1 + self.extra_tokens if class_token else 0
        tokens = grid[0] * grid[1] + class_tokens
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
        return PatchEncoder(projection, position, stack, grid, self.dropout, class_tokens=class_tokens)


class PixelConfig(Config):
    """Every pixel a token of a sequence."""

    kind: Literal["pixels"] = Field("pixels", description="the family of the encoder")
    sequence: EncoderConfig = Field(description="what reads the pixels, row by row: token, window, cnn, rnn, attention")
    dropout: float = Field(0.1, ge=0, lt=1, description="on what the head reads")
    initializer: Scheme = Field("xavier", description="of the linear layers")

    def map(self, sizes: Sizes) -> tuple[int, int]:
        return sizes[:2]

    def encoder(self, sizes: Sizes) -> ImageEncoder:
        height, width, channels = sizes
        return PixelEncoder(nn.Linear(channels, input_width(self.sequence)), self.sequence.encoder(), (height, width))


class ResidualConfig(Config):
    """What residual networks have; each stage but the first halves the map and doubles the channels."""

    width: int = Field(32, ge=1, le=2**14, description="channels of the first stage; each further one has twice those")
    stages: int = Field(3, ge=1, le=8, description="stages; each but the first halves height and width")
    blocks: int = Field(1, ge=1, le=64, description="residual blocks of two convolutions in each stage")
    stride: int = Field(1, ge=1, le=8, description="of the first convolution; 2 reads the image at half its size")
    norm: Literal["batch", "none"] = Field("batch", description="of every convolution; without, branches begin at zero")
    dropout: float = Field(0.1, ge=0, lt=1, description="on what the head reads")
    initializer: Scheme = Field("xavier", description="of the linear layers; convolutions follow He et al. 2015")

    def widths(self) -> list[int]:
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
        conv = nn.Conv2d(before, width, size, stride, padding=size // 2, bias=not batch)
        nn.init.kaiming_normal_(conv.weight.detach(), mode="fan_out", nonlinearity="relu")
        if conv.bias is not None:
            nn.init.zeros_(conv.bias.detach())
        return nn.Sequential(conv, nn.BatchNorm2d(width)) if batch else nn.Sequential(conv)


class CnnConfig(ResidualConfig):
    """A residual network of convolutions."""

    kind: Literal["cnn"] = Field("cnn", description="the family of the encoder")

    def encoder(self, sizes: Sizes) -> ImageEncoder:
        stem, stages, receptive_field = self.parts(sizes)
        last = self.map(sizes)
        return ConvolutionalEncoder(stem, stages, self.widths()[-1], (last, last), receptive_field)


class AttentionCnnConfig(ResidualConfig):
    """A residual network in which every place of one map looks at all others (SAGAN)."""

    kind: Literal["attention_cnn"] = Field("attention_cnn", description="the family of the encoder")
    attention_after: int = Field(2, ge=1, description="the stage, from 1, whose map is attended to")
    reduction: int = Field(8, ge=1, description="channels of the map for each one of queries, keys and values")
    num_heads: int = Field(1, ge=1, description="attention heads, which share the reduced channels")
    mechanism: MechanismName = Field("scored", description="what attention computes; `headwise list mechanisms`")
    score: ScoreName = Field("dot", description="how alike query and key are; `headwise list scores`")
    normalizer: NormalizerName = Field("softmax", description="scores to weights; `headwise list normalizers`")
    position: PositionName = Field("none", description="position inside attention, such as relative_2d or rotary")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="on attention weights")

    def model_post_init(self, context: object) -> None:
        normalizers.build(self.normalizer, self.num_heads)
        kind, position = mechanisms.mechanism_type(self.mechanism), position_type(self.position)
        if not mechanisms.is_scored(self.mechanism) and (self.score, self.normalizer) != ("dot", "softmax"):
            raise ConfigError(f"score and normalizer belong to mechanism 'scored', not to '{self.mechanism}'")
        if not kind.facts.bidirectional:
            raise ConfigError(f"mechanism '{self.mechanism}' sees no later places; an image needs one that does")
        if position.where == "embeddings" or (
            position.where.startswith("scores") and not (kind.facts.bias and kind.facts.relative)
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
        stem, stages, _ = self.parts(sizes)
        grid, width = self.grids(sizes)[self.attention_after - 1], self.widths()[self.attention_after - 1]
        head_dim = self._inner() // self.num_heads
        position = position_type(self.position).on_grid(width, head_dim, self.num_heads, *grid)
        mechanism = mechanisms.build(
            self.mechanism,
            head_dim=head_dim,
            num_heads=self.num_heads,
            max_len=grid[0] * grid[1],
            dropout=self.attention_dropout,
            score=self.score,
            normalizer=self.normalizer,
        )
        inside = position if position.acts_in_attention() else None
        attention = MultiHeadAttention(width, self.num_heads, mechanism, head_dim=head_dim, position=inside)
        stages.insert(self.attention_after, MapAttention(attention))
        return ConvolutionalEncoder(stem, stages, self.widths()[-1], (grid, self.map(sizes)), None)

    def _inner(self) -> int:
        return self.widths()[self.attention_after - 1] // self.reduction


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
