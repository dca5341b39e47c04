"""Sentence pairs as the book reads them: a vocabulary for each side, batches padded to a number of steps."""

import os
from collections.abc import Iterable, Sequence
from typing import overload

from jaxtyping import Int
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from headwise.data.batches import Ragged, collate
from headwise.data.corpus import data_cache, resolve
from headwise.data.readers import Reading, read_pairs
from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.errors import ConfigError, DataError

Tokens = Int[Tensor, "batch steps"]
Lens = Int[Tensor, "batch"]

FRA_ENG = "tatoeba-en-fr/fra-eng.tsv.gz"
ADVICE = (
    "unpack fra-eng.zip of https://www.manythings.org/anki and give path='fra.txt', or use"
    " path='headwise:phrasebook.en-fr.tsv', which ships with the package"
)


class Vocab:
    """Words, in small letters, and their numbers; an unknown word has the number of "<unk>".

    Args:
        texts: sentences to learn the words of.
        min_freq: words seen fewer times are unknown.

    >>> vocab = Vocab(["go .", "i'm home ."])
    >>> len(vocab), vocab["<pad>"], vocab[["go", "away"]], vocab.to_tokens([6, 4])
    (8, 0, [5, 3], ['home', '.'])
    """

    def __init__(self, texts: Iterable[str], min_freq: int = 1):
        config = TokenizerConfig(kind="word", joint=False, lowercase=True, min_frequency=min_freq, vocab_size=2**31)
        self._tokenizer = Tokenizer.train(texts, config)
        self.idx_to_token = self._tokenizer.pieces()
        self.token_to_idx = {token: index for index, token in enumerate(self.idx_to_token)}
        self.unk = self._tokenizer.unk_id

    def __len__(self) -> int:
        return len(self.idx_to_token)

    @overload
    def __getitem__(self, tokens: str) -> int: ...
    @overload
    def __getitem__(self, tokens: list[str] | tuple[str, ...]) -> list[int]: ...
    def __getitem__(self, tokens: str | list[str] | tuple[str, ...]) -> int | list[int]:
        if isinstance(tokens, str):
            return self.token_to_idx.get(tokens, self.unk)
        return [self[token] for token in tokens]

    @overload
    def to_tokens(self, indices: int) -> str: ...
    @overload
    def to_tokens(self, indices: Sequence[int]) -> list[str]: ...
    def to_tokens(self, indices: int | Sequence[int]) -> str | list[str]:
        """The word of a number, or the words of several."""
        if isinstance(indices, int):
            return self.idx_to_token[indices]
        return [self.idx_to_token[index] for index in indices]

    def encode(self, texts: Iterable[str], num_steps: int) -> Ragged:
        """The word numbers of sentences, cut to leave room for an end within `num_steps`; punctuation may touch words.

        Raises:
            ConfigError: no room for any word.
        """
        if num_steps < 2:
            raise ConfigError(f"num_steps ({num_steps}) must be at least 2: one word and the end")
        return Ragged.of(self._tokenizer.encode_batch(texts)).cut(num_steps - 1)


def load_data_nmt(
    batch_size: int, num_steps: int, num_examples: int | None = 600, path: str | os.PathLike[str] = FRA_ENG
) -> tuple[DataLoader[tuple[Tensor, ...]], Vocab, Vocab]:
    """Batches (source, its lengths, target, its lengths) in random order, and the vocabularies of both sides.

    Every row is padded to `num_steps`, or cut to it, and ends in "<eos>", which its length counts. Words seen once are
    unknown.

    Args:
        batch_size: sentence pairs in a batch.
        num_steps: columns of a batch.
        num_examples: how many pairs of the file are read, from its first; None: all.
        path: a file of tab-separated pairs, English first, plain or gzip: as it stands, or in the data cache, which
            `HEADWISE_DATA` names; `headwise:NAME` is one that ships. The book's file where it is left out.
    Raises:
        DataError: no such file, or no such pairs in it; nothing is downloaded.
    Source: Dive into Deep Learning, section 10.5.

    >>> batches, src_vocab, tgt_vocab = load_data_nmt(2, 8, path="headwise:phrasebook.en-fr.tsv")
    >>> X, X_valid_len, Y, Y_valid_len = next(iter(batches))
    >>> X.shape, Y_valid_len.shape
    (torch.Size([2, 8]), torch.Size([2]))
    """
    file = resolve(os.fspath(path))
    if not file.exists():
        raise DataError(f"{path}: no such file, nor in the data cache {data_cache()}; {ADVICE}")
    pairs = read_pairs(file, Reading(columns=(0, 1)), limit=num_examples)
    sides = [pair.source for pair in pairs], [pair.target for pair in pairs]
    src_vocab, tgt_vocab = (Vocab(texts, min_freq=2) for texts in sides)
    src, tgt = (vocab.encode(texts, num_steps) for vocab, texts in zip((src_vocab, tgt_vocab), sides, strict=True))
    rows = padded_rows(src, tgt, num_steps)
    return DataLoader(TensorDataset(*rows), batch_size, shuffle=True), src_vocab, tgt_vocab


def padded_rows(sources: Ragged, targets: Ragged, num_steps: int) -> tuple[Tokens, Lens, Tokens, Lens]:
    """Sources and targets, each with its lengths: ended, and padded to `num_steps`."""
    pad_id, bos_id, eos_id = Tokenizer.pad_id, Tokenizer.bos_id, Tokenizer.eos_id
    batch = collate(sources, targets, range(len(sources)), pad_id=pad_id, bos_id=bos_id, eos_id=eos_id)
    src, tgt = (F.pad(rows, (0, num_steps - rows.shape[1]), value=pad_id) for rows in (batch.src, batch.tgt_out))
    return src, batch.src_lens, tgt, batch.tgt_lens
