"""Sentence pairs as the book reads them: words, a vocabulary for each side, batches padded to a number of steps."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, overload

import torch
from jaxtyping import Int
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from headwise.data.files import data_cache, read_lines, resolve
from headwise.data.readers import Reading, read_pairs
from headwise.errors import ConfigError, DataError

FRA_ENG = "tatoeba-en-fr/fra-eng.tsv.gz"
ADVICE = (
    "`headwise data fetch tatoeba-en-fr` puts it there; or unpack fra-eng.zip of https://www.manythings.org/anki and "
    "give path='fra.txt', or use path='headwise:phrasebook.en-fr.tsv', which ships with the package"
)
RESERVED = ("<pad>", "<bos>", "<eos>")

Batches = DataLoader[tuple[Tensor, ...]]
PathLike = str | os.PathLike[str]


class Vocab:
    """Tokens and their numbers, the most frequent first; an unknown token has the number of "<unk>", which is 0.

    Args:
        min_freq: tokens seen fewer times are unknown.
        reserved_tokens: numbered from 1, before those of `tokens`.
    Source: Dive into Deep Learning, section 8.2 of the Chinese second edition.

    >>> vocab = Vocab([["go", "."], ["i'm", "home", "."]], reserved_tokens=["<pad>", "<bos>", "<eos>"])
    >>> len(vocab), vocab["<pad>"], vocab[["go", "away"]], vocab.to_tokens([7, 4])
    (8, 1, [5, 0], ['home', '.'])
    """

    def __init__(
        self,
        tokens: Sequence[str] | Sequence[Sequence[str]] | None = None,
        min_freq: int = 0,
        reserved_tokens: Sequence[str] | None = None,
    ):
        # equal counts keep the order of the text
        self.token_freqs = count_corpus(tokens or []).most_common()
        frequent = [token for token, count in self.token_freqs if count >= min_freq]
        self.idx_to_token = list(dict.fromkeys(["<unk>", *(reserved_tokens or ()), *frequent]))
        self.token_to_idx = {token: index for index, token in enumerate(self.idx_to_token)}
        self.unk = 0

    def __len__(self) -> int:
        return len(self.idx_to_token)

    @overload
    def __getitem__(self, tokens: str) -> int: ...
    @overload
    def __getitem__(self, tokens: list[str] | tuple[str, ...]) -> list[int]: ...
    def __getitem__(self, tokens: str | list[str] | tuple[str, ...]) -> int | list[int]:
        if isinstance(tokens, list | tuple):
            return [self[token] for token in tokens]
        return self.token_to_idx.get(tokens, self.unk)

    @overload
    def to_tokens(self, indices: int) -> str: ...
    @overload
    def to_tokens(self, indices: Sequence[int]) -> list[str]: ...
    def to_tokens(self, indices: int | Sequence[int]) -> str | list[str]:
        """The token of a number, or the tokens of several."""
        if isinstance(indices, list | tuple):
            return [self.idx_to_token[index] for index in indices]
        number: Any = indices
        return self.idx_to_token[number]


def count_corpus(tokens: Sequence[str] | Sequence[Sequence[str]]) -> Counter[str]:
    """How often each token occurs in a list of tokens, or in a list of such lists.

    >>> count_corpus([["a", "b"], ["a"]])["a"]
    2
    """
    lines: Iterable[Any] = tokens
    return Counter(token for line in lines for token in ([line] if isinstance(line, str) else line))


def read_data_nmt(path: PathLike = FRA_ENG) -> str:
    """The text of the book's file of sentence pairs: English, a tab and French, a pair on each line.

    Args:
        path: as in `load_data_nmt`.
    Raises: DataError: no such file, or it is not UTF-8.
    Source: Dive into Deep Learning, section 9.5 of the Chinese second edition.
    """
    return "".join(f"{text}\n" for _, text in read_lines(_file(path)))


def preprocess_nmt(text: str) -> str:
    """The text in small letters, with plain spaces, and one before each of `,.!?`.

    Source: Dive into Deep Learning, section 9.5 of the Chinese second edition.

    >>> preprocess_nmt("Go.") + preprocess_nmt(" I'm home, go !")
    "go . i'm home , go !"
    """
    plain = text.replace("\u202f", " ").replace("\xa0", " ").lower()
    return re.sub(r"(?<=[^ ])([,.!?])", r" \1", plain)


def tokenize_nmt(text: str, num_examples: int | None = None) -> tuple[list[list[str]], list[list[str]]]:
    """The words of the sources and of the targets, a list for each sentence; lines without a tab are left out.

    Args:
        text: pairs as `preprocess_nmt` returns them; a third column is not read.
        num_examples: how many lines are read; None or 0: all.
    Source: Dive into Deep Learning, section 9.5 of the Chinese second edition.

    >>> tokenize_nmt("go .\\tva !\\n")
    ([['go', '.']], [['va', '!']])
    """
    rows = [line.split("\t") for line in text.split("\n")[: num_examples or None]]
    pairs = [row for row in rows if len(row) > 1]
    return [source.split() for source, *_ in pairs], [target.split() for _, target, *_ in pairs]


def truncate_pad(line: Sequence[Any], num_steps: int, padding_token: Any) -> list[Any]:
    """The first `num_steps` of a line, or the line and as much padding as is missing.

    >>> truncate_pad([4, 5, 6], 2, 1), truncate_pad([4, 5, 6], 5, 1)
    ([4, 5], [4, 5, 6, 1, 1])
    """
    return [*line[:num_steps], *[padding_token] * (num_steps - len(line))]


def build_array_nmt(
    lines: Sequence[Sequence[str]], vocab: Vocab, num_steps: int
) -> tuple[Int[Tensor, "batch steps"], Int[Tensor, "batch"]]:
    """The numbers of sentences and how many of each row are real: words, "<eos>", and padding up to `num_steps`.

    A sentence that is too long loses words, not its end.

    Raises: ConfigError: no room for a word; a vocabulary without "<pad>" or "<eos>".
    Source: Dive into Deep Learning, section 9.5 of the Chinese second edition.
    """
    if num_steps < 2:
        raise ConfigError(f"num_steps ({num_steps}) must be at least 2: one word and the end")
    end, pad = vocab["<eos>"], vocab["<pad>"]
    if end == pad:
        raise ConfigError(f"the vocabulary has no '<pad>' or no '<eos>': give Vocab reserved_tokens={list(RESERVED)}")
    numbered = [[*vocab[list(line)][: num_steps - 1], end] for line in lines]
    rows = [truncate_pad(row, num_steps, pad) for row in numbered]
    return torch.tensor(rows).reshape(-1, num_steps), torch.tensor([len(row) for row in numbered], dtype=torch.long)


def load_array(data_arrays: Sequence[Tensor], batch_size: int, is_train: bool = True) -> Batches:
    """Batches of the rows of tensors of one length, in random order while training.

    >>> [batch[0].tolist() for batch in load_array((torch.arange(3),), 2, is_train=False)]
    [[0, 1], [2]]
    """
    return DataLoader(TensorDataset(*data_arrays), batch_size, shuffle=is_train)


def load_data_nmt(
    batch_size: int, num_steps: int, num_examples: int | None = 600, path: PathLike = FRA_ENG
) -> tuple[Batches, Vocab, Vocab]:
    """Batches (source, its lengths, target, its lengths) in random order, and the vocabularies of both sides.

    Every row is padded to `num_steps`, or cut to it, and ends in "<eos>", which its length counts. Words seen once are
    unknown.

    Args:
        num_examples: how many pairs of the file are read, from its first; None: all.
        path: a file of tab-separated pairs, English first, plain or gzip: as it stands, or in the data cache, which
            `HEADWISE_DATA` names; `headwise:NAME` is one that ships. The book's file where it is left out.
    Raises: DataError: no such file, or no such pairs in it; nothing is downloaded.
    Source: Dive into Deep Learning, section 9.5 of the Chinese second edition.

    >>> batches, src_vocab, tgt_vocab = load_data_nmt(2, 8, path="headwise:phrasebook.en-fr.tsv")
    >>> X, X_valid_len, Y, Y_valid_len = next(iter(batches))
    >>> X.shape, Y_valid_len.shape
    (torch.Size([2, 8]), torch.Size([2]))
    """
    pairs = read_pairs(_file(path), Reading(columns=(0, 1)), limit=num_examples)
    sides = [
        [words(text) for text in texts] for texts in zip(*((pair.source, pair.target) for pair in pairs), strict=True)
    ]
    vocabs = [Vocab(lines, min_freq=2, reserved_tokens=RESERVED) for lines in sides]
    arrays = [
        part for lines, vocab in zip(sides, vocabs, strict=True) for part in build_array_nmt(lines, vocab, num_steps)
    ]
    return load_array(arrays, batch_size), vocabs[0], vocabs[1]


def words(text: str) -> list[str]:
    """The words of a sentence as training reads them.

    >>> words("Go home, now!")
    ['go', 'home', ',', 'now', '!']
    """
    return preprocess_nmt(text).split()


def _file(path: PathLike) -> Any:
    file = resolve(os.fspath(path))
    if not file.exists():
        raise DataError(f"{path}: no such file, nor in the data cache {data_cache()}; {ADVICE}")
    return file
