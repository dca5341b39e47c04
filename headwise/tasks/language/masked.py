"""Masked language models: windows with tokens masked, and the encoder that predicts those."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from headwise.attention.dropout import Dropout
from headwise.config import Config
from headwise.data.batches import OnDevice
from headwise.data.buckets import random_bits, uniform
from headwise.data.sources import Drawn
from headwise.data.streams import Text, text_batch, windows
from headwise.data.tokenizers import Tokenizer
from headwise.errors import ConfigError
from headwise.models.recurrent import initialize_with_cells
from headwise.models.token_encoders import EncoderConfig, TokenEncoder
from headwise.tasks.text.plain import SPECIALS

# no text has the number of padding, which elsewhere stands only behind texts: within one it is a masked token
MASK_ID = Tokenizer.pad_id
# streams of random bits that the order of the windows does not use
_STREAMS = 1 << 32


class MaskingConfig(Config):
    """Which tokens have to be told, and what stands in their place."""

    share: float = Field(0.15, gt=0, le=1, description="share of the tokens to predict")
    hidden: float = Field(0.8, ge=0, le=1, description="share of these that are masked")
    random: float = Field(0.1, ge=0, le=1, description="share of these with a random token; the rest stay as they are")

    def model_post_init(self, context: object) -> None:
        if self.hidden + self.random > 1:
            raise ConfigError(
                f"masking.hidden ({self.hidden:g}) and masking.random ({self.random:g}) are shares of the same tokens:"
                " lower one, so that they are 1 together at most"
            )


@dataclass(frozen=True)
class MaskedBatch(OnDevice):
    """Rows of tokens, some of them masked, and what they were.

    Args:
        lens: real tokens of each row.
        places: where the tokens to tell stand, counted over all rows one after another.
        targets: what they are.
        indices: where in the text each row begins.
    """

    inputs: Int[Tensor, "rows length"]
    lens: Int[Tensor, "rows"]
    places: Int[Tensor, "masked"]
    targets: Int[Tensor, "masked"]
    indices: list[int]

    @property
    def num_tokens(self) -> int:
        """Tokens to tell."""
        return len(self.targets)


@dataclass(frozen=True)
class Masking:
    """Masks tokens of a text: each by seed, pass and place in the text alone, whatever batch it is in.

    Source: Devlin et al. 2019, arXiv 1810.04805, section 3.1; here each token is chosen by itself, so that their share
    differs from row to row, and special tokens such as the unknown one never are.
    """

    config: MaskingConfig
    vocab_size: int
    seed: int = 0

    def batch(self, text: Text, bounds: list[tuple[int, int]], epoch: int) -> MaskedBatch:
        """Windows (start, stop) of a text, masked as in a pass.

        >>> masking = Masking(MaskingConfig(share=1, hidden=1, random=0), vocab_size=9)
        >>> batch = masking.batch(Text(np.array([1, 5, 3, 7]), chars=3), [(0, 3)], 0)
        >>> batch.inputs.tolist(), batch.places.tolist(), batch.targets.tolist()
        ([[0, 3, 0]], [0, 2], [5, 7])
        """
        read = text_batch(text, bounds)
        tokens = read.targets.numpy()
        place = np.array([start for start, _ in bounds])[:, None] + np.arange(tokens.shape[1])
        chosen = (tokens >= SPECIALS) & (self._draw(place, 0, epoch) < self.config.share)
        how = self._draw(place, 1, epoch)
        drawn = SPECIALS + (self._draw(place, 2, epoch) * (self.vocab_size - SPECIALS)).astype(np.int64)
        hidden, random = self.config.hidden, self.config.random
        put = np.where(how < hidden, MASK_ID, np.where(how < hidden + random, drawn, tokens))
        inputs = torch.from_numpy(np.where(chosen, put, tokens))
        places = torch.from_numpy(np.flatnonzero(chosen))
        return MaskedBatch(inputs, read.lens, places, read.targets.flatten()[places], read.indices)

    def _draw(self, place: np.ndarray, purpose: int, epoch: int) -> np.ndarray:
        return uniform(random_bits(place.astype(np.uint64), self.seed, _STREAMS + 3 * epoch + purpose))


def masked_windows(text: Text, length: int, rows: int, masking: Masking, *, shuffle: bool) -> Drawn[MaskedBatch]:
    """Windows of `length` tokens, `rows` in a batch, masked anew in every pass.

    Args:
        shuffle: as of `windows`; False: also the same masks in every pass, for evaluation.
    """

    def collate(starts: list[int]) -> MaskedBatch:
        bounds = [(start, min(start + length, len(text))) for start in starts]
        return masking.batch(text, bounds, source.epoch if shuffle else 0)

    order = windows(text, length, rows, shuffle=shuffle)
    source: Drawn[MaskedBatch] = Drawn(order.draw, collate, seed=masking.seed)
    return source


class MaskedEncoder(nn.Module):
    """output(norm(gelu(dense(encoder(dropout(E[token])))))), at the places that are asked for.

    Args:
        transform: from the width of the encoder to that of the output; Devlin et al. 2019 have it in their program.
        output: to the vocabulary.
        dropout: on the embeddings.
    """

    def __init__(
        self, embedding: nn.Embedding, encoder: TokenEncoder, transform: nn.Module, output: nn.Linear, dropout: float
    ):
        super().__init__()
        self.embedding, self.encoder, self.transform, self.output = embedding, encoder, transform, output
        self.dropout = Dropout(dropout)

    def hidden(
        self, tokens: Int[Tensor, "batch length"], valid_lens: Int[Tensor, "batch"], places: Int[Tensor, "places"]
    ) -> Float[Tensor, "places d_model"]:
        """What the output reads.

        Args:
            valid_lens: real tokens of each row.
            places: places that are asked for, counted over all rows one after another; each holds a real token.
        """
        states = self.encoder(self.dropout(self.embedding(tokens)), valid_lens)
        transformed: Tensor = self.transform(states.flatten(0, 1).index_select(0, places))
        return transformed

    def forward(
        self, tokens: Int[Tensor, "batch length"], valid_lens: Int[Tensor, "batch"], places: Int[Tensor, "places"]
    ) -> Float[Tensor, "places vocab"]:
        logits: Tensor = self.output(self.hidden(tokens, valid_lens, places))
        return logits


def build_masked_encoder(
    config: EncoderConfig, vocab_size: int, *, embedding_std: float, tie_output: bool
) -> MaskedEncoder:
    """The model of a configuration.

    Args:
        tie_output: the output's matrix is that of the embeddings.

    >>> import torch
    >>> from headwise.models.token_encoders import WindowConfig
    >>> model = build_masked_encoder(WindowConfig(d_model=8, d_ff=16), 11, embedding_std=0.1, tie_output=True)
    >>> model(torch.tensor([[4, 0, 6]]), torch.tensor([3]), torch.tensor([1])).shape
    torch.Size([1, 11])
    """
    encoder, embedding = config.encoder(), nn.Embedding(vocab_size, config.d_model)
    nn.init.normal_(embedding.weight, std=embedding_std)
    dense = nn.Linear(encoder.width, config.d_model)
    transform = nn.Sequential(dense, nn.GELU(), nn.LayerNorm(config.d_model))
    model = MaskedEncoder(embedding, encoder, transform, nn.Linear(config.d_model, vocab_size), config.dropout)
    initialize_with_cells(model, config.initializer)
    if tie_output:
        model.output.weight = embedding.weight
    return model
