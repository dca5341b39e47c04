"""Pretrained word vectors in the text format of GloVe and word2vec, for a tokenizer and a model."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from pydantic import Field
from torch import Generator, Tensor, nn

from headwise.config import Config, StartFile
from headwise.data.files import MAX_LINE_BYTES, read_lines, resolve
from headwise.data.text import SPACE_MARK, clean
from headwise.data.tokenizers import Tokenizer
from headwise.errors import ConfigError, DataError

_NUMBER = frozenset("0123456789+-.eE")
_SHOWN = 10
_SPECIALS = 4


@dataclass(frozen=True, slots=True)
class Coverage:
    """Which part of a vocabulary has pretrained vectors. Types are vocabulary entries."""

    types: int
    covered: int
    folded: int
    dim: int
    missing: tuple[str, ...]

    def __str__(self) -> str:
        share = 100 * self.covered / max(self.types, 1)
        text = (
            f"vectors of {self.dim} numbers for {self.covered:,} of {self.types:,} types ({share:.1f} %), "
            f"{self.folded:,} of them only in another case"
        )
        return f"{text}\nwithout vector: {' '.join(self.missing)}" if self.missing else text


def load_vectors(
    path: str | os.PathLike[str],
    tokenizer: Tokenizer,
    *,
    generator: torch.Generator,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> tuple[Float[Tensor, "vocab dim"], Coverage]:
    """An embedding matrix for a tokenizer from a file of word vectors, and what it covers.

    Memory: the matrix and one line, however large the file. A word that is not in the file as it is written takes the
    vector of the same word in another case. Every other row is drawn from a normal distribution with the mean and
    deviation of the vectors found; the row of padding is zero.

    Args:
        path: text, plain or gzip: a word and its numbers a line, with or without a first line "words numbers".
        generator: draws the rows without vector.

    Raises: DataError: `file:line: ...` for a wrong count of numbers, what is no number, a file that ends early.
    """
    name = os.fspath(path)
    exact_rows, folded_rows = _rows_by_word(tokenizer)
    exact: dict[int, np.ndarray] = {}
    other_case: dict[int, np.ndarray] = {}
    for place, raw, numbers in _entries(name, max_line_bytes):
        try:
            word = clean(raw, tokenizer.config.normalize)
        except DataError as error:
            raise DataError(f"{place}: {error}") from None
        rows = [row for row in exact_rows.get(word, ()) if row not in exact]
        spare = [row for row in folded_rows.get(word.lower(), ()) if row not in other_case]
        if not rows and not spare:
            continue
        vector = _vector(numbers, place)
        exact.update((row, vector) for row in rows)
        other_case.update((row, vector) for row in spare)
    if not exact and not other_case:
        raise DataError(f"{name}: no vector for any of the {tokenizer.vocab_size:,} tokens; is it the right language?")
    vectors = other_case | exact
    matrix = _matrix(vectors, tokenizer.vocab_size, generator)
    matrix[tokenizer.pad_id] = 0
    types = range(_SPECIALS, tokenizer.vocab_size)
    # the tokenizer's numbers run from frequent to rare
    missing = tuple(tokenizer.piece(row) for row in [row for row in types if row not in vectors][:_SHOWN])
    return matrix, Coverage(len(types), len(vectors), len(vectors) - len(exact), matrix.shape[1], missing)


def vector_line(word: str, numbers: Sequence[float]) -> str:
    """A word and its numbers as a line of such a file, without its end; single precision is read back as it was.

    >>> vector_line("the", [0.5, -0.1])
    'the 0.5 -0.1'
    """
    return " ".join([word, *(str(np.float32(number)) for number in numbers)])


def _rows_by_word(tokenizer: Tokenizer) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """Token numbers by word, and by word in small letters; subword marks of a word's begin do not count."""
    exact: dict[str, list[int]] = {}
    folded: dict[str, list[int]] = {}
    for row, piece in list(enumerate(tokenizer.pieces()))[_SPECIALS:]:
        word = piece.removeprefix(SPACE_MARK)
        if word:
            exact.setdefault(word, []).append(row)
            folded.setdefault(word.lower(), []).append(row)
    return exact, folded


def _entries(name: str, max_line_bytes: int) -> Iterator[tuple[str, str, list[str]]]:
    """Place, word and numbers of each line; the first line tells how many numbers there are."""
    promised: int | None = None
    dim = vectors = 0
    for number, text in read_lines(name, max_line_bytes=max_line_bytes):
        place = f"{name}:{number}"
        text = text.rstrip(" ")
        if number == 1 and (header := _header(text)):
            promised, dim = header
            continue
        if not text:
            continue
        dim = dim or text.count(" ")
        # from the right, since a few words of the large files contain a space
        word, *numbers = text.rsplit(" ", dim) if dim else [text]
        if not dim or len(numbers) != dim:
            raise DataError(f"{place}: {len(numbers)} numbers after the word, expected {dim or 'at least 1'}")
        vectors += 1
        yield place, word, numbers
    if not vectors:
        raise DataError(f"{name}: no vectors in it")
    if promised is not None and promised != vectors:
        raise DataError(
            f"{name}: the first line promises {promised:,} vectors, the file has {vectors:,}: is it cut off?"
        )


def _header(text: str) -> tuple[int, int] | None:
    words = text.split(" ")
    if len(words) != 2 or not all(word.isascii() and word.isdigit() and len(word) < 12 for word in words):
        return None
    return int(words[0]), int(words[1])


def _vector(numbers: list[str], place: str) -> np.ndarray:
    for text in numbers:
        # float() also reads "nan", "1_000" and digits of other scripts
        if not _NUMBER.issuperset(text):
            raise DataError(f"{place}: {text[:40]!r} is not a number")
    try:
        vector = np.array([float(text) for text in numbers])
    except ValueError as error:
        raise DataError(f"{place}: {str(error)[:80]}") from None
    if np.abs(vector).max() > np.finfo(np.float32).max:
        raise DataError(f"{place}: a number is too large for single precision")
    return vector.astype(np.float32)


def _matrix(vectors: Mapping[int, np.ndarray], rows: int, generator: torch.Generator) -> Tensor:
    places = torch.tensor(sorted(vectors))
    stacked = torch.from_numpy(np.stack([vectors[row] for row in sorted(vectors)]))
    matrix = torch.randn(rows, stacked.shape[1], generator=generator) * stacked.std(correction=0) + stacked.mean()
    matrix[places] = stacked
    return matrix


class StartConfig(Config):
    """Pretrained word vectors to start from, in the text format of GloVe and word2vec."""

    file: StartFile | None = Field(None, description="file for the embeddings; words are those of the tokenizer")
    frozen: bool = Field(False, description="keep them fixed instead of training them")


def filled(embedding: nn.Module, path: str, tokenizer: Tokenizer, seed: int) -> Coverage:
    """Puts word vectors into an embedding. Raises: ConfigError if their width is another one."""
    weight = embedding.weight
    assert isinstance(weight, nn.Parameter)
    matrix, coverage = load_vectors(resolve(path), tokenizer, generator=Generator().manual_seed(seed))
    if matrix.shape[1] != weight.shape[1]:
        raise ConfigError(
            f"{path} has vectors of {matrix.shape[1]} numbers, the model's embeddings have {weight.shape[1]}"
        )
    # a model may multiply embeddings by a constant; the vectors enter as they are
    weight.data.copy_(matrix / getattr(embedding, "scale", 1.0))
    return coverage
