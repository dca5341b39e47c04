"""Encoders with one output vector per position, one class for each name in a recipe, and their configurations."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, Literal

from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.dropout import drop
from headwise.attention.masks import Causal
from headwise.attention.precision import uncast
from headwise.attention.zeros import zeroed_beyond
from headwise.config import Config
from headwise.errors import ConfigError
from headwise.layers.attention import Vectors
from headwise.layers.blocks import Residual
from headwise.layers.embeddings import Placed
from headwise.layers.feed_forward import FeedForward
from headwise.layers.norms import build_norm, normed
from headwise.models import recurrent
from headwise.models.initializers import Scheme
from headwise.models.recurrent import build_layer, read_both
from headwise.models.transformer import TransformerEncoder, build_encoder
from headwise.models.transformer_config import BlocksConfig, SublayerConfig
from headwise.models.transformer_parts import build_positions
from headwise.positions import position_type

Lens = Int[Tensor, "batch"]
States = Float[Tensor, "batch length width"]


class TokenEncoder(nn.Module, ABC):
    """Maps a sequence of vectors to a sequence of states.

    `width` is that of the states, whose last `backward` columns come from a backward pass.
    `context` is the number of positions that each state depends on, its own in the middle; None: all.
    """

    width: int
    backward: int = 0
    context: int | None = None

    @abstractmethod
    def forward(self, x: Vectors, valid_lens: Lens) -> States:
        """Outputs beyond `valid_lens` are undefined; inputs there are ignored.

        The batch and the length may be 0.
        """


class AloneEncoder(TokenEncoder):
    """Each vector by itself: x + dropout(feed_forward(norm(x))). The baseline without context."""

    context = 1

    def __init__(self, feed_forward: FeedForward, residual: Residual):
        super().__init__()
        self.feed_forward, self.residual = feed_forward, residual
        self.width = feed_forward.outer.out_features

    def forward(self, x: Vectors, valid_lens: Lens) -> States:
        x = zeroed_beyond(x, valid_lens)
        branch = self.feed_forward(self.residual.entering(x, valid_lens))
        return self.residual(x, branch, valid_lens)


def side_by_side(x: Vectors, valid_lens: Lens, radius: int) -> Float[Tensor, "batch length window"]:
    """[x_{i-r}; ...; x_{i+r}] for every position i, with zeros beyond the ends of a sequence.

    >>> import torch
    >>> side_by_side(torch.tensor([[[1.0], [2.0], [9.0]]]), torch.tensor([2]), 1)[0, :2].tolist()
    [[0.0, 1.0, 2.0], [1.0, 2.0, 0.0]]
    """
    # one position too many, so that a sequence without tokens has a window to cut off
    framed = F.pad(zeroed_beyond(x, valid_lens), (0, 0, radius, radius + 1))
    # (batch, length, d_model, window), the window before the vectors it is made of
    return framed.unfold(1, 2 * radius + 1, 1).narrow(1, 0, x.shape[1]).mT.flatten(2)


class WindowEncoder(TokenEncoder):
    """W [x_{i-r}; ...; x_{i+r}] through a feed-forward network, with zeros beyond the ends of a sequence.

    Args:
        join: maps the 2r + 1 vectors of a window to one.
    Source: Collobert et al. 2011, "Natural Language Processing (Almost) from Scratch", section 3.2.1.
    """

    def __init__(self, join: nn.Linear, alone: AloneEncoder, radius: int):
        super().__init__()
        self.join, self.alone, self.radius, self.width = join, alone, radius, alone.width
        self.context = 2 * radius + 1

    def forward(self, x: Vectors, valid_lens: Lens) -> States:
        return self.alone(self.join(side_by_side(x, valid_lens, self.radius)), valid_lens)


class ConvolutionEncoder(TokenEncoder):
    """Blocks of x + dropout(relu(convolution(norm(x)))), with zeros beyond the ends of a sequence in every layer.

    Each layer widens the context by its filter: m filters of size k see 1 + m (k - 1) positions.

    Args:
        convolutions: of an odd size, padded to keep the length.
        norm: closes the stack.
    """

    def __init__(self, convolutions: Sequence[nn.Conv1d], residuals: Sequence[Residual], norm: nn.Module):
        super().__init__()
        self.convolutions, self.residuals = nn.ModuleList(convolutions), nn.ModuleList(residuals)
        self.norm, self.width = norm, convolutions[0].out_channels
        self.context = 1 + sum(convolution.kernel_size[0] - 1 for convolution in convolutions)

    def forward(self, x: Vectors, valid_lens: Lens) -> States:
        if x.shape[1] == 0:
            # PyTorch's convolution refuses an empty sequence
            return normed(self.norm, x, valid_lens)
        x = zeroed_beyond(x, valid_lens)
        for convolution, residual in zip(self.convolutions, self.residuals, strict=True):
            assert isinstance(residual, Residual)
            inside = zeroed_beyond(residual.entering(x, valid_lens), valid_lens)
            x = residual(x, F.relu(convolution(inside.mT).mT), valid_lens)
        return normed(self.norm, x, valid_lens)


class BidirectionalEncoder(TokenEncoder):
    """Recurrent layers in both directions; their states are concatenated.

    Args:
        layers: from the first to the last, one recurrent module for each direction.
        dropout: on the output of every layer but the last, while training.
    Source: Graves and Schmidhuber 2005, "Framewise phoneme classification with bidirectional LSTM".
    """

    def __init__(self, layers: list[list[recurrent.Layer]], dropout: float):
        super().__init__()
        self.layers, self.dropout = nn.ModuleList(nn.ModuleList(directions) for directions in layers), dropout
        ahead, back = (layer.hidden_size for layer in layers[-1])
        self.width, self.backward = ahead + back, back

    def forward(self, x: Vectors, valid_lens: Lens) -> States:
        with uncast(x):
            # under autocast the input may be half precision; the parameters of the cells are not
            parameter = next(self.parameters())
            states = zeroed_beyond(x.to(parameter.dtype), valid_lens).transpose(0, 1)
            for number, directions in enumerate(self.layers):
                assert isinstance(directions, nn.ModuleList)
                if number:
                    states = drop(states, self.dropout if self.training else 0.0)
                states = read_both(directions, states, valid_lens)[0]
            return states.transpose(0, 1)


class AttentionEncoder(TokenEncoder):
    """The encoder of a Transformer over vectors: each position attends to all that the mask allows."""

    def __init__(self, encoder: TransformerEncoder, width: int):
        super().__init__()
        self.encoder, self.width = encoder, width

    def forward(self, x: Vectors, valid_lens: Lens) -> States:
        return self.encoder(zeroed_beyond(x, valid_lens), valid_lens).states


class AloneConfig(SublayerConfig):
    """Each token by itself: the baseline without context."""

    kind: Literal["token"] = Field("token", description="the family of the encoder")
    d_model: int = Field(128, ge=1, description="width of the embeddings")
    d_ff: int = Field(256, ge=1, description="width inside the feed-forward network")
    dropout: float = Field(0.1, ge=0, lt=1, description="on embeddings, inside the network and on its output")
    initializer: Scheme = Field("xavier", description="of the linear layers")

    def encoder(self) -> TokenEncoder:
        """A new encoder, its weights not yet initialised."""
        return _alone(self, self.d_model, self.d_ff, self.dropout)


class WindowConfig(SublayerConfig):
    """Neighbours side by side."""

    kind: Literal["window"] = Field("window", description="the family of the encoder")
    d_model: int = Field(128, ge=1, description="width of the embeddings and of the encoder")
    d_ff: int = Field(256, ge=1, description="width inside the feed-forward network")
    radius: int = Field(2, ge=0, description="neighbouring words seen on each side")
    dropout: float = Field(0.1, ge=0, lt=1, description="on embeddings, inside the network and on its output")
    initializer: Scheme = Field("xavier", description="of the linear layers")

    def encoder(self) -> TokenEncoder:
        join = nn.Linear((2 * self.radius + 1) * self.d_model, self.d_model)
        return WindowEncoder(join, _alone(self, self.d_model, self.d_ff, self.dropout), self.radius)


class ConvolutionConfig(SublayerConfig):
    """A stack of convolutions."""

    kind: Literal["cnn"] = Field("cnn", description="the family of the encoder")
    d_model: int = Field(128, ge=1, description="width of the embeddings and of every layer")
    num_layers: int = Field(3, ge=1, le=1024, description="number of convolutions; each widens the context")
    radius: int = Field(1, ge=0, description="neighbouring words that a filter reads on each side")
    dropout: float = Field(0.1, ge=0, lt=1, description="on embeddings and on the output of every layer")
    initializer: Scheme = Field("xavier", description="of the linear layer of the output")

    def fewest_tensors(self) -> int:
        return 4 * self.num_layers

    def encoder(self) -> TokenEncoder:
        width, numbers = self.d_model, range(self.num_layers)
        stack = [nn.Conv1d(width, width, 2 * self.radius + 1, padding=self.radius) for _ in numbers]
        residuals = [self.residual_around(width, self.dropout) for _ in numbers]
        return ConvolutionEncoder(stack, residuals, build_norm(self.norm, width))


class BidirectionalConfig(Config):
    """Recurrent layers in both directions."""

    kind: Literal["rnn"] = Field("rnn", description="the family of the encoder")
    cell: recurrent.Name = Field("gru", description="the recurrent cell; gru is faster than lstm, rnn is tanh alone")
    d_model: int = Field(128, ge=1, description="width of the embeddings")
    hidden_dim: int = Field(128, ge=1, description="width of the hidden states of each direction")
    num_layers: int = Field(1, ge=1, le=1024, description="recurrent layers")
    dropout: float = Field(0.1, ge=0, lt=1, description="on embeddings, between layers and on the output")
    initializer: Scheme = Field("xavier", description="of the matrices of linear and recurrent layers")

    def fewest_tensors(self) -> int:
        return 4 * 2 * self.num_layers

    def encoder(self) -> TokenEncoder:
        sizes = [self.d_model] + [2 * self.hidden_dim] * (self.num_layers - 1)
        layers = [[build_layer(self.cell, size, self.hidden_dim) for _ in range(2)] for size in sizes]
        return BidirectionalEncoder(layers, self.dropout)


class AttentionConfig(BlocksConfig):
    """The encoder of a Transformer."""

    kind: Literal["attention"] = Field("attention", description="the family of the encoder")
    causal: bool = Field(
        False, description="each position attends only to itself and those before it, as in a language model"
    )
    embedding_norm: bool = Field(False, description="normalization of the sum of embedding and position")
    embedding_dim: int | None = Field(
        None, ge=1, le=2**20, description="width of the embeddings, if a linear layer widens them to d_model (ELECTRA)"
    )

    def model_post_init(self, context: object) -> None:
        super().model_post_init(context)
        if self.causal and (self.segment is not None or self.convolution_heads):
            raise ConfigError("causal determines what each position sees: leave out segment and convolution_heads")

    def looks_ahead(self) -> bool:
        return not self.causal

    def encoder(self) -> TokenEncoder:
        width = input_width(self)
        # of a scheme inside attention the width is that of the model
        position = build_positions(self, width=width if position_type(self.position).where == "embeddings" else None)
        project = None if self.embedding_dim is None else nn.Linear(width, self.d_model)
        placed = Placed(position, self.new_norm(width) if self.embedding_norm else None, project)
        stack = build_encoder(self, placed, position, Causal() if self.causal else None)
        return AttentionEncoder(stack, self.d_model)


EncoderConfig = Annotated[
    AloneConfig | WindowConfig | ConvolutionConfig | BidirectionalConfig | AttentionConfig, Field(discriminator="kind")
]


def input_width(config: "EncoderConfig | BlocksConfig") -> int:
    """Width of the vectors that an encoder reads."""
    own = config.embedding_dim if isinstance(config, AttentionConfig) else None
    return own or config.d_model


def _alone(config: SublayerConfig, d_model: int, d_ff: int, dropout: float) -> AloneEncoder:
    return AloneEncoder(FeedForward(d_model, d_ff, dropout=dropout), config.residual_around(d_model, dropout))
