"""Words as subwords: which tokens belong to which word of a sentence, and batches of such sentences."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from headwise.data.batches import Ragged, padded
from headwise.data.tokenizers import Tokenizer
from headwise.errors import ShapeError

# in place of the tag of padding, and of a word whose tag is not known
NO_TAG = -1


@dataclass(frozen=True, slots=True)
class WordRows:
    """Sentences as tokens, and how many of these each word has, at least one.

    `tags` are numbers, one for each word; `NO_TAG` where it is not known.
    """

    tokens: Ragged
    pieces: Ragged
    tags: Ragged

    def __len__(self) -> int:
        return len(self.tokens)

    def take(self, rows: np.ndarray) -> "WordRows":
        """These sentences, in this order."""
        return WordRows(self.tokens.take(rows), self.pieces.take(rows), self.tags.take(rows))

    def lengths(self) -> np.ndarray:
        """(sentences, 1): the tokens of each, as `token_batches` wants them."""
        return self.tokens.lengths[:, None]


@dataclass(frozen=True, slots=True)
class WordBatch:
    """Padded sentences: their tokens, how many of them each word has (0: no word), and the tags of the words."""

    tokens: Int[Tensor, "batch length"]
    pieces: Int[Tensor, "batch words"]
    tags: Int[Tensor, "batch words"]
    indices: list[int]
    num_tags: int

    @property
    def num_tokens(self) -> int:
        """Words whose tag is known."""
        return self.num_tags

    def to(self, device: torch.device | str) -> "WordBatch":
        """The same batch on another device."""
        names = ("tokens", "pieces", "tags")
        return replace(self, **{name: getattr(self, name).to(device, non_blocking=True) for name in names})


def encode_words(
    sentences: Sequence[Sequence[str]], tokenizer: Tokenizer, tags: Sequence[Sequence[int]] | None = None
) -> WordRows:
    """Cuts every word alone, each different one once; a word that gives no token becomes the unknown token.

    Args:
        tags: numbers, one for each word; None: not known.

    Raises:
        ShapeError: a sentence with another number of tags than words.

    >>> from headwise.data.tokenizers import TokenizerConfig
    >>> letters = Tokenizer.train(["ab"], TokenizerConfig(kind="char"))
    >>> rows = encode_words([["ab", "a"], ["b"]], letters)
    >>> rows.tokens[0].tolist(), rows.pieces[0].tolist(), rows.tokens.lengths.tolist()
    ([4, 5, 4], [2, 1], [3, 1])
    """
    number: dict[str, int] = {}
    flat = [number.setdefault(word, len(number)) for sentence in sentences for word in sentence]
    table = Ragged.of([ids or [tokenizer.unk_id] for ids in tokenizer.encode_batch(number)])
    lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
    words = table.take(np.asarray(flat, dtype=np.int64))
    pieces = Ragged(words.lengths, lengths)
    # tokens before each word, and behind the last one
    before = np.concatenate([[0], np.cumsum(words.lengths)])
    tokens = Ragged(words.values, before[pieces.starts + lengths] - before[pieces.starts])
    if tags is None:
        known = Ragged(np.full(len(flat), NO_TAG, dtype=np.int64), lengths)
    else:
        values = np.fromiter(itertools.chain.from_iterable(tags), dtype=np.int64)
        known = Ragged(values, np.fromiter(map(len, tags), dtype=np.int64, count=len(tags)))
        if not np.array_equal(known.lengths, lengths):
            raise ShapeError("every word needs one tag: words and tags of a sentence differ in number")
    return WordRows(tokens, pieces, known)


def collate_words(rows: WordRows, indices: Sequence[int], pad_id: int) -> WordBatch:
    """Pads the sentences at `indices` to one batch of int64 tensors; no Python work per token.

    Raises:
        ShapeError: no indices.
    """
    if not len(indices):
        raise ShapeError("a batch needs at least one example")
    chosen = rows.take(np.asarray(indices, dtype=np.int64))
    return WordBatch(
        tokens=padded(chosen.tokens, pad_id),
        pieces=padded(chosen.pieces, 0),
        tags=padded(chosen.tags, NO_TAG),
        indices=list(indices),
        num_tags=int((chosen.tags.values != NO_TAG).sum()),
    )
