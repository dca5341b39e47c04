"""Folders of token files: a text's parts as flat arrays of numbers beside one JSON index, distrusted when opened."""

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from headwise.config import Config, build
from headwise.data.files import listed, read_lines, sha256
from headwise.data.streams import Shards, Text
from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.errors import ConfigError, DataError
from headwise.tasks.text.plain import TextConfig, dtype_of, shares

INDEX, TOKENIZER = "index.json", "tokenizer.json"
FORMAT, VERSION = "headwise-tokens", 1
_AGAIN = "make the folder again with `headwise data tokenize`"
_OTHER = f"is not what was written: its SHA-256 is another one than in {INDEX}"
_MAX_INDEX_BYTES = 1 << 26
# bytes that are checked together
_CHUNK = 1 << 24


class Shard(Config):
    """One file: numbers of the index's type, lowest byte first, without a header."""

    file: str
    tokens: int = Field(ge=1, lt=1 << 48)
    sha256: str


class PartIndex(Config):
    """One part of the text; of a held-out one also its lines, for `headwise evaluate`."""

    chars: int = Field(ge=1, lt=1 << 56)
    shards: list[Shard] = Field(min_length=1)
    lines_sha256: str | None = None


class Index(Config):
    """What `index.json` says.

    Args:
        tokenizer: SHA-256 of `tokenizer.json`.
        source: SHA-256 of the text.
        work: SHA-256 of everything that the files follow from.
        bad: lines that were left out.
    """

    format: Literal["headwise-tokens"]
    version: Literal[1]
    dtype: Literal["uint16", "uint32"]
    tokenizer: str
    vocab_size: int = Field(ge=1)
    source: str
    work: str
    valid_fraction: float
    test_fraction: float
    bad: str
    parts: dict[Literal["train", "valid", "test"], PartIndex]


@dataclass(frozen=True)
class TokenFiles:
    """A folder of token files that was checked.

    Args:
        digest: what the folder is known by, as `headwise.data.files.digest` has it.
    """

    folder: Path
    index: Index
    digest: str
    tokenizer: Tokenizer

    def texts(self) -> dict[str, Text]:
        """The parts as tokens, mapped."""
        dtype = np.dtype(self.index.dtype).newbyteorder("<")
        return {
            part: Text(
                Shards([np.memmap(self.folder / shard.file, dtype=dtype, mode="r") for shard in entry.shards]),
                entry.chars,
            )
            for part, entry in self.index.parts.items()
        }

    def lines(self, part: str) -> Iterator[str]:
        """The lines of a part that was held out, with their ends. Raises: DataError, they are not kept."""
        entry = self.index.parts.get(part)  # type: ignore[call-overload]
        if entry is None or entry.lines_sha256 is None:
            raise DataError(f"{self.folder}: the lines of '{part}' are not kept in it; name a text")
        return (f"{text}\n" for _, text in read_lines(lines_of(self.folder, part), max_line_bytes=1 << 40))

    def check(self, config: TextConfig, tokens: TokenizerConfig) -> None:
        """Raises: ConfigError naming what a recipe wants otherwise than these files were made."""
        saved = self.tokenizer.config
        if others := [key for key in TokenizerConfig.model_fields if getattr(saved, key) != getattr(tokens, key)]:
            key = others[0]
            raise ConfigError(
                f"{self.folder}: its tokens were made with tokenizer.{key} = {_shown(getattr(saved, key))}, the recipe"
                f" says {_shown(getattr(tokens, key))}; change the recipe, or {_AGAIN}"
            )
        # a part with a file of its own is not held out, whatever the fraction says
        fractions = (self.index.valid_fraction, self.index.test_fraction)
        for name, fraction, requested in zip(("valid", "test"), fractions, shares(config), strict=True):
            if fraction != requested:
                raise ConfigError(
                    f"{self.folder}: {fraction:g} of its text is held out as '{name}', but {requested:g} is asked for;"
                    f" set data.{name}_fraction and data.{name} as they were, or {_AGAIN}"
                )


def lines_of(folder: Path, part: str) -> Path:
    """The file of the lines of a part."""
    return folder / f"{part}.txt"


def shard_name(part: str, number: int) -> str:
    """The name of a shard.

    >>> shard_name("train", 3)
    'train-00003.tokens'
    """
    return f"{part}-{number:05d}.tokens"


def opened(folder: Path) -> TokenFiles:
    """The token files of a folder, every one of them read once and compared with the index.

    Raises: DataError naming the file that is missing, a link, of another size or content, or has a number beyond the
        vocabulary.
    """
    index, digest = read_index(folder)
    path = folder / TOKENIZER
    _regular(path)
    tokenizer = Tokenizer.load(path)
    if (tokenizer.digest(), tokenizer.vocab_size) != (index.tokenizer, index.vocab_size):
        raise DataError(f"{path}: is another tokenizer than the tokens were made with; {_AGAIN}")
    if index.dtype != dtype_of(tokenizer).name:
        raise DataError(f"{folder / INDEX}: numbers of {index.vocab_size:,} tokens are not {index.dtype}; {_AGAIN}")
    digests = {INDEX: digest, TOKENIZER: index.tokenizer}
    for part, entry in index.parts.items():
        for number, shard in enumerate(entry.shards):
            if shard.file != shard_name(part, number):
                raise DataError(f"{folder / INDEX}: {shard.file!r} is not the name of shard {number} of '{part}'")
            _check(folder / shard.file, shard, index)
            digests[shard.file] = shard.sha256
        if entry.lines_sha256 is not None:
            path = lines_of(folder, part)
            _regular(path)
            if sha256(path) != entry.lines_sha256:
                raise DataError(f"{path}: {_OTHER}; {_AGAIN}")
            digests[path.name] = entry.lines_sha256
    return TokenFiles(folder, index, listed(digests), tokenizer)


def read_index(folder: Path) -> tuple[Index, str]:
    """The index of a folder and its SHA-256. Raises: DataError, it is none."""
    path = folder / INDEX
    if not path.exists():
        raise DataError(f"{folder}: is a folder without {INDEX}; name a text file, or a folder of token files")
    if _regular(path) > _MAX_INDEX_BYTES:
        raise DataError(f"{path}: larger than {_MAX_INDEX_BYTES:,} bytes: not an index of token files")
    data = path.read_bytes()
    try:
        values = json.loads(data)
        if not isinstance(values, dict):
            raise ValueError("it is no JSON object")
        if (values.get("format"), values.get("version")) != (FORMAT, VERSION):
            raise ValueError(f"format {values.get('format')!r} version {values.get('version')!r} is not known")
        index = build(Index, values, str(path))
        if "train" not in index.parts:
            raise ValueError("it has no part 'train'")
    except ConfigError as error:
        raise DataError(f"{error}; {_AGAIN}") from None
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{path}: not an index of token files: {reason}; {_AGAIN}") from None
    return index, hashlib.sha256(data).hexdigest()


def _check(path: Path, shard: Shard, index: Index) -> None:
    size, expected = _regular(path), shard.tokens * np.dtype(index.dtype).itemsize
    if size != expected:
        raise DataError(f"{path}: has {size:,} bytes, but {INDEX} says {expected:,}; {_AGAIN}")
    hasher, dtype = hashlib.sha256(), np.dtype(index.dtype).newbyteorder("<")
    with path.open("rb") as file:
        while data := file.read(_CHUNK):
            hasher.update(data)
            # a file that shrinks meanwhile may end within a number
            largest = int(np.frombuffer(data[: len(data) // dtype.itemsize * dtype.itemsize], dtype).max(initial=0))
            if largest >= index.vocab_size:
                raise DataError(f"{path}: token {largest:,} is beyond the vocabulary of {index.vocab_size:,}; {_AGAIN}")
    if hasher.hexdigest() != shard.sha256:
        raise DataError(f"{path}: {_OTHER}; {_AGAIN}")


def _regular(path: Path) -> int:
    """The size of a file that is one, not a link to another place. Raises: DataError."""
    try:
        status = os.lstat(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}; {_AGAIN}") from None
    if not stat.S_ISREG(status.st_mode):
        kind = "a link" if stat.S_ISLNK(status.st_mode) else "no file"
        raise DataError(f"{path}: is {kind}, but must be a file in this folder; {_AGAIN}")
    return status.st_size


def _shown(value: object) -> str:
    return json.dumps(value)
