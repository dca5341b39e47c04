"""Plain text as token numbers: the files of a recipe, their parts, and what tasks that read them share."""

import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from headwise.config import Config, DataFile
from headwise.data.bad_lines import BadLine, BadLines, BadRule
from headwise.data.files import TEXT_LINE_BYTES, data_cache, require_file, resolve, scan_lines, sha256
from headwise.data.streams import Text
from headwise.data.suggestions import held_out
from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.errors import DataError, MachineError
from headwise.files import replacing

# characters of a text whose tokens stay in memory; those of a longer one are mapped from a file
IN_MEMORY_CHARS = 1 << 23
# characters that a tokenizer is trained on at most
TRAINED_CHARS = 1 << 26
# characters that are encoded together
_CHUNK_CHARS = 1 << 18
# more lines than any file has
_ALL = 1 << 62


class TextConfig(Config):
    """Which text to read, and what of it is held out."""

    train: DataFile = Field(
        description="text file, or a folder that `headwise data tokenize` made; headwise:NAME is a file that ships"
    )
    valid: DataFile | None = Field(None, description="validation text; without it a part of train is held out")
    test: DataFile | None = Field(None, description="test text; without it the end of train is held out")
    valid_fraction: float = Field(0.05, ge=0, lt=1, description="part of train before the test part, in characters")
    test_fraction: float = Field(0.05, ge=0, lt=1, description="part of train at its end, in characters")
    bad_lines: BadRule = Field("stop", description="a line that cannot be read: stop, or skip it")
    max_line_bytes: int = Field(TEXT_LINE_BYTES, ge=1, description="longer lines are refused")


@dataclass(frozen=True)
class Portion:
    """Consecutive lines of a text file, and how many characters they have, line ends included.

    Bad lines are left out and not counted; `bad` says which those of the whole file are.
    """

    path: str
    start: int
    stop: int
    chars: int
    max_line_bytes: int = TEXT_LINE_BYTES
    bad: str = ""

    def lines(self) -> Iterator[str]:
        r"""The lines with their ends; every line has one, `\n`."""
        texts = scan_texts(resolve(self.path), self.max_line_bytes)
        good = (text for text in texts if not isinstance(text, BadLine))
        return (f"{text}\n" for text in islice(good, self.start, self.stop))


def scan_texts(path: Path, max_line_bytes: int) -> Iterator[str | BadLine]:
    """The lines of a text without their ends, and those that are bad. Raises: DataError where it cannot be read."""
    return (text for _, text in scan_lines(path, max_line_bytes=max_line_bytes))


def portions(config: TextConfig) -> dict[str, Portion]:
    """The parts of a recipe's text; those without a file of their own are the last lines of the training file.

    Raises: DataError where a file cannot be read, or leaves nothing to train on.
    """
    paths = {"valid": config.valid, "test": config.test}
    fractions = shares(config)
    if sum(fractions) >= 1:
        raise DataError(f"valid_fraction and test_fraction ({sum(fractions):g}) leave nothing of {config.train}")
    train, valid, test = _cut(config.train, fractions, config)
    own = {part: whole(path, config) for part, path in paths.items() if path}
    by_split: dict[str, Portion] = {"train": train, "valid": valid, "test": test} | own
    if not train.chars + valid.chars + test.chars:
        raise DataError(f"{config.train}: no text to train on")
    every = [1.0 - sum(fractions), *fractions]
    if any(share and not part.chars for share, part in zip(every, (train, valid, test), strict=True)):
        advice = "give valid and test files, or set valid_fraction and test_fraction to 0"
        raise DataError(f"{config.train}: too few lines to hold out a part; {advice}")
    return by_split


def suggested_portion(config: TextConfig, data: Mapping[str, Any]) -> tuple[dict[str, float], Portion]:
    """Fractions that hold out something for the parts without a file, for a first recipe; and what is left to train on.

    Args:
        data: keys of `[data]`, as the user gave them.
    """

    @cache
    def cut(valid: float, test: float) -> Portion:
        return portions(config.model_copy(update={"valid_fraction": valid, "test_fraction": test}))["train"]

    fractions = held_out(data, cut)
    return fractions, cut(fractions.get("valid_fraction", 0.0), fractions.get("test_fraction", 0.0))


def training_portion(config: TextConfig) -> Portion:
    """The part that is trained on; the files of other parts need not be there."""
    return _cut(config.train, shares(config), config)[0]


def shares(config: TextConfig) -> list[float]:
    """The parts of the training text that are held out to validate and to test; 0 where there is a file for it."""
    return [0.0 if config.valid else config.valid_fraction, 0.0 if config.test else config.test_fraction]


def whole(path: str, config: TextConfig) -> Portion:
    """All the text of a file."""
    return _cut(path, [0.0, 0.0], config)[0]


def _cut(path: str, shares: list[float], config: TextConfig) -> list[Portion]:
    """The file in parts: what is left of it, and a share of its characters each; cut at line ends."""
    require_file(resolve(path))
    bad = BadLines()
    total = sum(len(text) + 1 for text in bad.good(scan_texts(resolve(path), config.max_line_bytes)))
    bad.settle(config.bad_lines)
    marks = [total * (1 - sum(shares)), total * (1 - shares[1])]
    # (lines, characters) before each part; a line that a mark cuts belongs to the later part
    cuts, read, number = [(0, 0)], 0, 0
    for number, length in enumerate(map(len, Portion(path, 0, _ALL, 0, config.max_line_bytes).lines()), 1):
        while len(cuts) <= len(marks) and read + length > round(marks[len(cuts) - 1]):
            cuts.append((number - 1, read))
        read += length
    cuts += [(number, read)] * (len(marks) + 2 - len(cuts))
    return [
        Portion(path, first, stop, after - before, config.max_line_bytes, bad.note())
        for (first, before), (stop, after) in pairwise(cuts)
    ]


def train_tokenizer(portion: Portion, config: TokenizerConfig) -> Tokenizer:
    """A tokenizer trained on the first `TRAINED_CHARS` characters of a text."""
    return Tokenizer.train(_beginning(portion), config)


def _beginning(portion: Portion) -> Iterator[str]:
    read = 0
    for line in portion.lines():
        if read >= TRAINED_CHARS:
            return
        read += len(line)
        yield line


def begin_id(tokenizer: Tokenizer) -> int:
    """The token that stands before a text: the end of a line, or where that is no token, the begin."""
    return tokenizer.opening_id()


def text_of(lines: Iterable[str], tokenizer: Tokenizer) -> Text:
    """Lines with their ends as a text in memory.

    >>> letters = Tokenizer.train(["ab\\n"], TokenizerConfig(kind="char", spaces="kept"))
    >>> letters.decode(text_of(["ab\\n", "b\\n"], letters).tokens[1:])
    'ab\\nb\\n'
    """
    all_lines = list(lines)
    return Text(np.concatenate(list(encoded(all_lines, tokenizer))), sum(map(len, all_lines)))


def encode(portion: Portion, tokenizer: Tokenizer, scratch: Path | None = None) -> Text:
    """A part of a text as tokens; those of a long one are written once, to the data cache, and mapped from there.

    Args:
        scratch: the folder to write to in place of the cache.

    Raises: MachineError if the file cannot be written.
    """
    if portion.chars <= IN_MEMORY_CHARS:
        return text_of(portion.lines(), tokenizer)
    source = resolve(portion.path)
    before = sha256(source)
    identity = f"{before} {portion.start} {portion.stop} {tokenizer.digest()}"
    dtype = dtype_of(tokenizer)
    path = data_cache() / "tokens" / f"{hashlib.sha256(identity.encode()).hexdigest()}.{dtype.name}"
    if scratch is not None and not path.exists():
        path = scratch / path.name
    if not path.exists():
        _write(path, _unchanged(encoded(portion.lines(), tokenizer), source, before))
    return Text(np.memmap(path, dtype=dtype, mode="r"), portion.chars)


def _unchanged(pieces: Iterator[np.ndarray], source: Path, digest: str) -> Iterator[np.ndarray]:
    """The pieces; nothing is kept under the digest of a file that is another one by their end."""
    yield from pieces
    if sha256(source) != digest:
        raise DataError(f"{source}: changed while it was read; start again")


def unknown_count(text: Text, tokenizer: Tokenizer) -> int:
    """How many tokens of a text are the unknown one."""
    steps = range(0, len(text.tokens), _CHUNK_CHARS)
    return sum(int((text.tokens[step : step + _CHUNK_CHARS] == tokenizer.unk_id).sum()) for step in steps)


def dtype_of(tokenizer: Tokenizer) -> np.dtype:
    """The type of token numbers in files: the smallest that has room for the vocabulary."""
    return np.dtype(np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.uint32)


def encoded(lines: Iterable[str], tokenizer: Tokenizer, *, begun: bool = False) -> Iterator[np.ndarray]:
    """The tokens of a text piece by piece; no token reaches over a line end, so the pieces are those of the whole.

    Where spaces only separate words, line ends are no text; the end token, or what stands behind every text of an
    imported tokenizer, then stands for each.

    Args:
        begun: these lines go on from others, so that no token stands before them.
    """
    dtype = dtype_of(tokenizer)
    _, behind = tokenizer.around
    end = () if tokenizer.config.spaces == "kept" else behind or (tokenizer.eos_id,)
    if not begun:
        yield np.array([begin_id(tokenizer)], dtype=dtype)
    for chunk in chunks(lines, _CHUNK_CHARS):
        yield np.concatenate([np.array([*ids, *end], dtype=dtype) for ids in tokenizer.bare.encode_batch(chunk)])


def chunks(lines: Iterable[str], chars: int) -> Iterator[list[str]]:
    """Lines in parts that have so many characters, or a few more."""
    chunk: list[str] = []
    size = 0
    for line in lines:
        chunk.append(line)
        size += len(line)
        if size >= chars:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _write(path: Path, pieces: Iterator[np.ndarray]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        commit(path, (piece.tobytes() for piece in pieces))
    except OSError as error:
        advice = "set HEADWISE_DATA to a folder with room that can be written"
        raise MachineError(f"{path}: cannot be written: {error.strerror}; {advice}") from None


def commit(path: Path, pieces: Iterable[bytes], check: Callable[[], None] = lambda: None) -> None:
    """Writes a file whole, or not at all where the check refuses what it was made of."""
    with replacing(path) as temporary, temporary.open("xb") as file:
        file.writelines(pieces)
        file.flush()
        os.fsync(file.fileno())
        check()


# padding, begin, end, unknown
SPECIALS = 4


def word_counts(text: Text, size: int, special: Collection[int] = range(SPECIALS)) -> np.ndarray:
    """How often each token of a vocabulary stands in a text; special ones count as none."""
    counts = np.zeros(size, dtype=np.int64)
    for start in range(1, len(text.tokens), 1 << 24):
        counts += np.bincount(text.tokens[start : start + (1 << 24)], minlength=size)
    counts[list(special)] = 0
    return counts
