"""A model with one output vector for a text: embeddings, an encoder, a pooling over the sequence, a linear head."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.attention.dropout import Dropout
from headwise.models.pooling import SequencePooling, SequencePoolingConfig, norm_above
from headwise.models.recurrent import initialize_with_cells
from headwise.models.token_encoders import EncoderConfig, Lens, TokenEncoder, input_width

Tokens = Int[Tensor, "batch length"]


class PooledEncoder(nn.Module):
    """head(dropout(pooling(encoder(dropout(E[token]))))).

    Args:
        pooling: one vector of all, and the layer behind it if there is one.
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

    def states(self, tokens: Tokens, valid_lens: Lens) -> tuple[Float[Tensor, "batch places width"], Lens]:
        """The states of the encoder, that of the front vector first, and the length of each text with it."""
        x = self.embedding(tokens)
        if self.training and self.token_dropout:
            keep = torch.rand(tokens.shape, device=tokens.device) >= self.token_dropout
            x = x * keep[..., None]
        if self.front is not None:
            x = torch.cat([self.front.expand(x.shape[0], 1, -1), x], 1)
            valid_lens = valid_lens + 1
        return self.encoder(self.dropout(x), valid_lens), valid_lens

    def forward(self, tokens: Tokens, valid_lens: Lens) -> Float[Tensor, "batch outputs"]:
        """The output of the head for each text.

        Args:
            tokens: of length 1 at least.
            valid_lens: real tokens of each text; 0: an empty one.
        """
        return self.head(self.dropout(self.pooling(*self.states(tokens, valid_lens))))


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
    encoder, embedding = config.encoder(), nn.Embedding(vocab_size, input_width(config))
    nn.init.normal_(embedding.weight, std=embedding_std)
    front = nn.Parameter(embedding_std * torch.randn(input_width(config))) if pooling.kind == "cls" else None
    pool = pooling.pooling(encoder.width, encoder.backward, norm_above(config))
    head = nn.Linear(encoder.width, outputs)
    model = PooledEncoder(
        embedding, encoder, pool, head, front=front, dropout=config.dropout, token_dropout=token_dropout
    )
    initialize_with_cells(model, config.initializer)
    return model
