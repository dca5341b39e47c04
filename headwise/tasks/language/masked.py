"""Masked language models: windows with tokens masked, and the encoder that predicts those."""

from collections.abc import Collection
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
from headwise.layers.norms import build_norm
from headwise.models.recurrent import initialize_with_cells
from headwise.models.token_encoders import EncoderConfig, TokenEncoder, input_width
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

    Args:
        mask_id: what stands for a masked token.
        special: tokens that are never masked, nor put in place of others.
        before, behind: what stands around the tokens of every window.

    Source: Devlin et al. 2019, arXiv 1810.04805, section 3.1; here each token is chosen by itself, so that their share
    differs from row to row, and special tokens such as the unknown one never are.
    """

    config: MaskingConfig
    vocab_size: int
    seed: int = 0
    mask_id: int = MASK_ID
    special: Collection[int] = range(SPECIALS)
    before: tuple[int, ...] = ()
    behind: tuple[int, ...] = ()

    @classmethod
    def of(cls, config: MaskingConfig, tokenizer: Tokenizer, seed: int) -> "Masking":
        """That of a tokenizer; an imported one has a mask of its own, and tokens around every text."""
        known = tokenizer.imported
        if known is None:
            return cls(config, tokenizer.vocab_size, seed)
        assert known.mask is not None, "a tokenizer without a mask is not imported for this task"
        return cls(config, tokenizer.vocab_size, seed, known.mask, known.silent, *tokenizer.around)

    @property
    def num_around(self) -> int:
        """Tokens around those of a window."""
        return len(self.before) + len(self.behind)

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
        is_ordinary = np.ones(self.vocab_size, dtype=bool)
        is_ordinary[list(self.special)] = False
        ordinary, lens = np.flatnonzero(is_ordinary), read.lens.numpy()
        real = np.arange(tokens.shape[1]) < lens[:, None]
        chosen = is_ordinary[tokens] & real & (self._draw(place, 0, epoch) < self.config.share)
        how = self._draw(place, 1, epoch)
        drawn = ordinary[(self._draw(place, 2, epoch) * len(ordinary)).astype(np.int64)]
        hidden, random = self.config.hidden, self.config.random
        put = np.where(how < hidden, self.mask_id, np.where(how < hidden + random, drawn, tokens))
        inputs = torch.from_numpy(self._framed(np.where(chosen, put, tokens), lens))
        wide = np.pad(chosen, ((0, 0), (len(self.before), len(self.behind))))
        places, targets = torch.from_numpy(np.flatnonzero(wide)), torch.from_numpy(tokens[chosen])
        return MaskedBatch(inputs, read.lens + self.num_around, places, targets, read.indices)

    def _framed(self, tokens: np.ndarray, lens: np.ndarray) -> np.ndarray:
        """Rows of tokens with what stands around each."""
        first = len(self.before)
        rows = np.pad(tokens, ((0, 0), (first, len(self.behind))))
        rows[:, :first] = self.before
        for number, token in enumerate(self.behind):
            rows[np.arange(len(rows)), first + lens + number] = token
        return rows

    def _draw(self, place: np.ndarray, purpose: int, epoch: int) -> np.ndarray:
        return uniform(random_bits(place.astype(np.uint64), self.seed, _STREAMS + 3 * epoch + purpose))


def masked_windows(text: Text, length: int, rows: int, masking: Masking, *, shuffle: bool) -> Drawn[MaskedBatch]:
    """Windows of `length` tokens with those around them, `rows` in a batch, masked anew in every pass.

    Args:
        shuffle: as of `windows`; False: also the same masks in every pass, for evaluation.
    """

    inside = length - masking.num_around

    def collate(starts: list[int]) -> MaskedBatch:
        bounds = [(start, min(start + inside, len(text))) for start in starts]
        return masking.batch(text, bounds, source.epoch if shuffle else 0)

    order = windows(text, inside, rows, shuffle=shuffle)
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
    config: EncoderConfig, vocab_size: int, *, embedding_std: float, tie_output: bool, transform_bias: bool = True
) -> MaskedEncoder:
    """The model of a configuration.

    Args:
        tie_output: the output's matrix is that of the embeddings.
        transform_bias: the layer below it has a bias.

    >>> import torch
    >>> from headwise.models.token_encoders import WindowConfig
    >>> model = build_masked_encoder(WindowConfig(d_model=8, d_ff=16), 11, embedding_std=0.1, tie_output=True)
    >>> model(torch.tensor([[4, 0, 6]]), torch.tensor([3]), torch.tensor([1])).shape
    torch.Size([1, 11])
    """
    width = input_width(config)
    encoder, embedding = config.encoder(), nn.Embedding(vocab_size, width)
    nn.init.normal_(embedding.weight, std=embedding_std)
    dense = nn.Linear(encoder.width, width, bias=transform_bias)
    norm = build_norm("layer", width, getattr(config, "norm_eps", None), getattr(config, "norm_bias", True))
    transform = nn.Sequential(dense, nn.GELU(), norm)
    model = MaskedEncoder(embedding, encoder, transform, nn.Linear(width, vocab_size), config.dropout)
    initialize_with_cells(model, config.initializer)
    if tie_output:
        model.output.weight = embedding.weight
    return model
