"""A model with one output vector for a text: embeddings, an encoder, a pooling over the sequence, a linear head."""

from typing import Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from headwise.attention import normalizers, scores
from headwise.attention.dropout import Dropout
from headwise.attention.mechanisms.scored import Scored
from headwise.config import Config
from headwise.errors import ConfigError
from headwise.layers.attention import MultiHeadAttention, check_heads
from headwise.models.initializers import initialize
from headwise.models.pooling import (
    AttentionOverSequence,
    FirstOfSequence,
    LastOfSequence,
    MaxOverSequence,
    MeanOverSequence,
    SequencePooling,
)
from headwise.models.recurrent import initialize_cells
from headwise.models.token_encoders import AttentionConfig, BidirectionalConfig, EncoderConfig, TokenEncoder
from headwise.models.transformer_config import BlocksConfig


class SequencePoolingConfig(Config):
    """The pooling of the states of a text into one vector."""

    kind: Literal["mean", "max", "last", "attention", "cls"] = Field(
        "mean",
        description="mean or max over all places, the last state, attention with one query, or the state of a learned "
        "token in front (cls)",
    )
    query: Literal["learned", "last"] = Field("learned", description="of attention: learned, or the last state")
    num_heads: int = Field(1, ge=1, description="of attention: heads, each with a query of its own")
    score: str = Field("scaled_dot", description="of attention: how alike query and state are; `headwise list scores`")
    normalizer: str = Field("softmax", description="of attention: scores to weights; `headwise list normalizers`")

    def model_post_init(self, context: object) -> None:
        scores.check_name(self.score)
        normalizers.build(self.normalizer, self.num_heads)

    def check(self, encoder: EncoderConfig | BlocksConfig) -> None:
        """Raises: ConfigError if the pooling does not fit the encoder."""
        if self.kind == "cls" and encoder.kind not in ("attention", "rnn"):
            raise ConfigError(
                f'pooling.kind = "cls" needs a first place that reads the whole text, which model.kind ='
                f' "{encoder.kind}" has not; set model.kind to "attention" or "rnn", or another pooling.kind'
            )
        if self.kind == "cls" and isinstance(encoder, AttentionConfig) and encoder.causal:
            raise ConfigError(
                'pooling.kind = "cls" needs a first place that reads the whole text, and with model.causal it sees'
                ' itself alone; set pooling.kind to "last" or another one'
            )
        if self.kind == "attention":
            check_heads(_width(encoder), self.num_heads, None)

    def pooling(self, width: int, backward: int) -> SequencePooling:
        """A new pooling of states of this width, whose last columns come from a backward pass."""
        last = LastOfSequence(backward)
        if self.kind != "attention":
            plain = {"mean": MeanOverSequence(), "max": MaxOverSequence(), "last": last, "cls": FirstOfSequence()}
            return plain[self.kind]
        head_dim = width // self.num_heads
        score = scores.build(self.score, head_dim, head_dim, head_dim, self.num_heads)
        mechanism = Scored(score, normalizers.build(self.normalizer, self.num_heads))
        attention = MultiHeadAttention(width, self.num_heads, mechanism, memory_dim=width)
        return AttentionOverSequence(attention, last if self.query == "last" else None)


class PooledEncoder(nn.Module):
    """head(dropout(pooling(encoder(dropout(E[token]))))).

    Args:
        front: a learned vector before the first token; None: none.
        dropout: on the embeddings and on the input of the head.
        token_dropout: share of the embeddings that are set to zero while training.
    """

    def __init__(
        self,
        embedding: nn.Embedding,
        encoder: TokenEncoder,
        pooling: SequencePooling,
        head: nn.Linear,
        *,
        front: nn.Parameter | None,
        dropout: float,
        token_dropout: float,
    ):
        super().__init__()
        self.embedding, self.encoder, self.pooling, self.head = embedding, encoder, pooling, head
        self.front, self.dropout, self.token_dropout = front, Dropout(dropout), token_dropout

    def states(
        self, tokens: Int[Tensor, "batch length"], valid_lens: Int[Tensor, "batch"]
    ) -> tuple[Float[Tensor, "batch places width"], Int[Tensor, "batch"]]:
        """The states of the encoder, that of the front vector first, and the length of each text with it."""
        x = self.embedding(tokens)
        if self.training and self.token_dropout:
            keep = torch.rand(tokens.shape, device=tokens.device) >= self.token_dropout
            x = x * keep[..., None]
        if self.front is not None:
            x = torch.cat([self.front.expand(x.shape[0], 1, -1), x], 1)
            valid_lens = valid_lens + 1
        return self.encoder(self.dropout(x), valid_lens), valid_lens

    def forward(
        self, tokens: Int[Tensor, "batch length"], valid_lens: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch outputs"]:
        """The output of the head for each text.

        Args:
            tokens: of length 1 at least.
            valid_lens: real tokens of each text; 0: an empty one.
        """
        logits: Tensor = self.head(self.dropout(self.pooling(*self.states(tokens, valid_lens))))
        return logits


def _width(encoder: EncoderConfig | BlocksConfig) -> int:
    return 2 * encoder.hidden_dim if isinstance(encoder, BidirectionalConfig) else encoder.d_model


def build_pooled_encoder(
    config: EncoderConfig,
    pooling: SequencePoolingConfig,
    vocab_size: int,
    outputs: int,
    *,
    embedding_std: float,
    token_dropout: float,
) -> PooledEncoder:
    """The model of a configuration.

    Args:
        embedding_std: standard deviation of the initial embeddings. Tokens that training never sees add noise to the
            pooled vector: it has to be small beside the trained embeddings.

    >>> from headwise.models.token_encoders import ConvolutionConfig
    >>> config, pooling = ConvolutionConfig(d_model=8), SequencePoolingConfig(kind="max")
    >>> model = build_pooled_encoder(config, pooling, 11, 3, embedding_std=0.1, token_dropout=0.0)
    >>> model(torch.tensor([[4, 5, 6]]), torch.tensor([3])).shape
    torch.Size([1, 3])
    """
    encoder, embedding = config.encoder(), nn.Embedding(vocab_size, config.d_model)
    nn.init.normal_(embedding.weight, std=embedding_std)
    front = nn.Parameter(embedding_std * torch.randn(config.d_model)) if pooling.kind == "cls" else None
    pool = pooling.pooling(encoder.width, encoder.backward)
    head = nn.Linear(encoder.width, outputs)
    model = PooledEncoder(
        embedding, encoder, pool, head, front=front, dropout=config.dropout, token_dropout=token_dropout
    )
    initialize(model, config.initializer)
    initialize_cells(model, config.initializer)
    return model
