"""Words as tokens: pieces and spelling, which tokens belong to which word of a sentence, batches of sentences."""

import itertools
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int
from pydantic import Field
from torch import Tensor

from headwise.config import Config
from headwise.data.batches import NO_TAG, OnDevice, Ragged, padded
from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.errors import ShapeError


class SpellingConfig(Config):
    """Tokens of a word that tell how it is spelled: its beginnings and endings, itself in small letters, its shape."""

    longest: int = Field(0, ge=0, description="longest beginning and ending, in characters; 0: no such tokens")
    vocab_size: int = Field(8000, ge=8, description="largest number of such tokens; the most frequent are kept")
    min_frequency: int = Field(2, ge=1, description="rarer ones count as unknown")


class WordTokenizer:
    """Words to token numbers: their pieces, and behind these their spelling.

    Where the pieces keep spaces, a word is read with the space before it, as it stands within a text.

    Args:
        pieces: cuts a word into subwords.
        spelling: knows beginnings, endings, words and shapes; None: pieces only.
        longest: characters of the longest beginning and ending.
    """

    def __init__(self, pieces: Tokenizer, spelling: Tokenizer | None, longest: int):
        self.pieces, self.spelling, self.longest = pieces, spelling, longest
        # what stands around a sentence
        self.around = pieces.around
        self.vocab_size = pieces.vocab_size + (0 if spelling is None else spelling.vocab_size)

    @classmethod
    def train(cls, words: Sequence[str], pieces: TokenizerConfig, spelling: SpellingConfig) -> "WordTokenizer":
        """Learns from the words of the training data, each as often as it occurs."""
        learned = Tokenizer.train(_as_text(words, pieces), pieces)
        if not spelling.longest:
            return cls(learned, None, 0)
        config = TokenizerConfig(
            kind="word",
            vocab_size=spelling.vocab_size,
            min_frequency=spelling.min_frequency,
            normalize=pieces.normalize,
            split_punctuation=False,
        )
        spelled = (spelling_of(word, spelling.longest) for word in words)
        return cls(learned, Tokenizer.train(spelled, config), spelling.longest)

    def encode(self, words: Iterable[str]) -> list[list[int]]:
        """The token numbers of each word; a word that gives none becomes the unknown token."""
        word_list = list(words)
        encoded = [
            ids or [self.pieces.unk_id]
            for ids in self.pieces.bare.encode_batch(_as_text(word_list, self.pieces.config))
        ]
        if self.spelling is None:
            return encoded
        spelled = self.spelling.encode_batch(spelling_of(word, self.longest) for word in word_list)
        first = self.pieces.vocab_size
        return [ids + [first + number for number in more] for ids, more in zip(encoded, spelled, strict=True)]

    def clean(self, text: str) -> str:
        return self.pieces.clean(text)


def _as_text(words: Iterable[str], config: TokenizerConfig) -> Iterable[str]:
    """The words as they stand within a text: with the space before them, where spaces are part of tokens."""
    return (f" {word}" for word in words) if config.spaces == "kept" else words


def spelling_of(word: str, longest: int) -> str:
    """Beginnings, endings and the whole of a word in small letters, and its shape, between spaces.

    The shape has X, x and 0 for runs of capitals, other letters and digits.

    >>> spelling_of("McGee3", 2)
    '^m ^mc 3$ e3$ ^mcgee3$ =XxXx0'
    """
    small, sizes = "_".join(word.lower().split()), range(1, longest + 1)
    kinds = ("X" if c.isupper() else "x" if c.isalpha() else "0" if c.isdigit() else c for c in word if c != " ")
    shape = "".join(kind for kind, _ in itertools.groupby(kinds))
    parts = [*(f"^{small[:size]}" for size in sizes), *(f"{small[-size:]}$" for size in sizes)]
    return " ".join([*parts, f"^{small}$", f"={shape}"])


@dataclass(frozen=True, slots=True)
class WordRows:
    """Sentences as tokens, and how many of these each word has, at least one; others stand around each sentence.

    `tags` are numbers, one for each word; `NO_TAG` where it is not known. `unseen` is 1 for a word that training lacks.
    """

    tokens: Ragged
    pieces: Ragged
    tags: Ragged
    unseen: Ragged

    def __len__(self) -> int:
        return len(self.tokens)

    def take(self, rows: np.ndarray) -> "WordRows":
        return WordRows(*(part.take(rows) for part in (self.tokens, self.pieces, self.tags, self.unseen)))

    def lengths(self) -> np.ndarray:
        """(sentences, 2): the tokens and the words of each, as `token_batches` wants them."""
        return np.stack([self.tokens.lengths, self.pieces.lengths], axis=1)


@dataclass(frozen=True, slots=True)
class WordBatch(OnDevice):
    """Padded sentences: their tokens, how many of them each word has (0: no word), tags, which words training lacks."""

    tokens: Int[Tensor, "batch length"]
    pieces: Int[Tensor, "batch words"]
    tags: Int[Tensor, "batch words"]
    unseen: Int[Tensor, "batch words"]
    indices: list[int]
    num_tags: int

    @property
    def lens(self) -> Int[Tensor, "batch"]:
        return (self.pieces > 0).sum(1)

    @property
    def num_tokens(self) -> int:
        """Words whose tag is known."""
        return self.num_tags


def encode_words(
    sentences: Sequence[Sequence[str]],
    tokenizer: WordTokenizer,
    tags: Sequence[Sequence[int]] | None = None,
    vocabulary: Container[str] | None = None,
) -> WordRows:
    """Cuts every word alone, each different one once.

    Args:
        tags: numbers, one for each word; None: not known.
        vocabulary: the words of training; None: all.

    Raises: ShapeError: a sentence with another number of tags than words.

    >>> letters = WordTokenizer.train(["ab"], TokenizerConfig(kind="char"), SpellingConfig())
    >>> rows = encode_words([["ab", "a"], ["b"]], letters)
    >>> rows.tokens[0].tolist(), rows.pieces[0].tolist(), rows.tokens.lengths.tolist()
    ([4, 5, 4], [2, 1], [3, 1])
    """
    number: dict[str, int] = {}
    flat = np.array([number.setdefault(word, len(number)) for sentence in sentences for word in sentence], dtype=int)
    # behind the words what stands before and behind every sentence
    table = Ragged.of([*tokenizer.encode(number), *tokenizer.around])
    lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
    pieces = Ragged(table.lengths[flat], lengths)
    # tokens before each word, and behind the last one
    before = np.concatenate([[0], np.cumsum(pieces.values)])
    counts = before[pieces.starts + lengths] - before[pieces.starts]
    ends = np.stack([pieces.starts, pieces.starts + lengths], axis=1).ravel()
    framed = np.insert(flat, ends, np.tile([len(number), len(number) + 1], len(lengths)))
    tokens = Ragged(table.take(framed).values, counts + sum(map(len, tokenizer.around)))
    if tags is None:
        tag_rows = Ragged(np.full(len(flat), NO_TAG, dtype=np.int64), lengths)
    else:
        values = np.fromiter(itertools.chain.from_iterable(tags), dtype=np.int64)
        tag_rows = Ragged(values, np.fromiter(map(len, tags), dtype=np.int64, count=len(tags)))
        if not np.array_equal(tag_rows.lengths, lengths):
            raise ShapeError("every word needs one tag: words and tags of a sentence differ in number")
    lacking = [vocabulary is not None and tokenizer.clean(word) not in vocabulary for word in number]
    return WordRows(tokens, pieces, tag_rows, Ragged(np.asarray(lacking, dtype=np.int64)[flat], lengths))


def collate_words(rows: WordRows, indices: Sequence[int]) -> WordBatch:
    """Pads the sentences at `indices` to one batch of int64 tensors; no Python work per token.

    Raises: ShapeError: no indices.
    """
    if not len(indices):
        raise ShapeError("a batch needs at least one example")
    chosen = rows.take(np.asarray(indices, dtype=np.int64))
    return WordBatch(
        tokens=padded(chosen.tokens, Tokenizer.pad_id),
        pieces=padded(chosen.pieces, 0),
        tags=padded(chosen.tags, NO_TAG),
        unseen=padded(chosen.unseen, 0),
        indices=list(indices),
        num_tags=int((chosen.tags.values != NO_TAG).sum()),
    )
