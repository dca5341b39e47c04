"""A model that gives every word a tag: embeddings, an encoder, subwords pooled to words, a linear head."""

from typing import Literal

from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn

from headwise.attention.dropout import Dropout
from headwise.attention.zeros import zeroed
from headwise.config import Config
from headwise.layers.chain import Independent, Tagging
from headwise.layers.initializers import initialize
from headwise.layers.pooling import Pooling, build
from headwise.layers.recurrent import initialize_cells
from headwise.models.token_encoders import EncoderConfig, TokenEncoder

Place = Literal["before", "after"]


class PoolingConfig(Config):
    """How subwords become words."""

    kind: Literal["mean", "first"] = Field("mean", description="the mean of a word's tokens, or the first of them")
    place: Place = Field("after", description="before the encoder, which then reads words, or after it")


class OutputConfig(Config):
    """How the tags of a sentence are chosen."""

    kind: Literal["softmax", "crf"] = Field("softmax", description="each word alone, or all together by a CRF")
    legal: bool = Field(False, description="choose only what the scheme of spans allows; for a CRF")

    @model_validator(mode="after")
    def _legal_is_of_a_chain(self) -> "OutputConfig":
        if self.legal and self.kind != "crf":
            raise ValueError('legal is about neighbours, which softmax does not see: set output.kind = "crf"')
        return self


class TokenTagger(nn.Module):
    """head(dropout(pooling(encoder(dropout(E[token]))))), or with the pooling before the encoder.

    Args:
        place: where the pooling stands.
        tagging: chooses tags by the scores that `forward` gives, and has the loss.
        dropout: on the embeddings, and on what the head reads.
    """

    def __init__(
        self,
        embedding: nn.Embedding,
        encoder: TokenEncoder,
        pooling: Pooling,
        head: nn.Linear,
        tagging: Tagging,
        place: Place,
        dropout: float,
    ):
        super().__init__()
        self.embedding, self.encoder, self.pooling, self.head = embedding, encoder, pooling, head
        self.tagging, self.place, self.dropout = tagging, place, Dropout(dropout)

    def forward(
        self, tokens: Int[Tensor, "batch length"], pieces: Int[Tensor, "batch words"]
    ) -> Float[Tensor, "batch words tags"]:
        """Scores of the tags of every word, which `tagging` reads: logits where it takes each word alone.

        Args:
            pieces: how many tokens each word has, 0 where there is no word.
        """
        x, lens = self.embedding(tokens), pieces.sum(1)
        if self.place == "before":
            words = self.encoder(self.dropout(self.pooling(x, pieces)), (pieces > 0).sum(1))
        else:
            words = self.pooling(self.encoder(self.dropout(x), lens), pieces)
        # what is said beyond the last word means nothing: it shall not be NaN
        logits: Tensor = self.head(self.dropout(zeroed(words, (pieces > 0)[..., None])))
        return logits


def build_token_tagger(
    config: EncoderConfig, pooling: PoolingConfig, vocab_size: int, num_tags: int, tagging: Tagging | None = None
) -> TokenTagger:
    """The model of a configuration.

    Args:
        tagging: how tags are chosen; None: each word alone.

    >>> import torch
    >>> from headwise.models.token_encoders import WindowConfig
    >>> model = build_token_tagger(WindowConfig(d_model=8, d_ff=16), PoolingConfig(), 11, 3)
    >>> model(torch.tensor([[4, 5, 6]]), torch.tensor([[1, 2]])).shape
    torch.Size([1, 2, 3])
    """
    encoder, embedding = config.encoder(), nn.Embedding(vocab_size, config.d_model)
    head = nn.Linear(encoder.width, num_tags)
    model = TokenTagger(
        embedding, encoder, build(pooling.kind), head, tagging or Independent(), pooling.place, config.dropout
    )
    initialize(model, config.initializer)
    initialize_cells(model, config.initializer)
    return model
