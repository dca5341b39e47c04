"""What the tasks that read running text share: tokenizer, parts, token files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from headwise.data.bad_lines import warn_skipped
from headwise.data.files import digested, resolve
from headwise.data.inspection import DataKind
from headwise.data.sources import Limits
from headwise.data.splits import own_files
from headwise.data.streams import Text
from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.errors import ConfigError, DataError
from headwise.tasks._files import tokenizer_in
from headwise.tasks.task import Assets, Description, Given, Task
from headwise.tasks.text import token_files
from headwise.tasks.text.plain import (
    TRAINED_CHARS,
    TextConfig,
    begin_id,
    encode,
    portions,
    text_of,
    train_tokenizer,
    training_portion,
    whole,
)
from headwise.tasks.text.report import TEXT

TOKENIZER_FILE = "text.tokenizer.json"
# tokens of a text whose attention is followed through a training
_PROBED = 16


@dataclass(frozen=True)
class Read:
    """The parts of a text as tokens, the SHA-256 of its files, and what to tell of them."""

    data: dict[str, Text]
    tokenizer: Tokenizer
    digests: Mapping[str, str]
    notes: list[str]


class RunningText(Task[dict[str, Text]]):
    """A task on running text that is read in windows of `length` tokens."""

    kinds: ClassVar[tuple[DataKind, ...]] = (TEXT,)
    config: Any

    def __init__(self, config: Any, assets: Assets[dict[str, Text]]):
        super().__init__(config, assets)
        self.tokenizer = tokenizer_in(assets.files, TOKENIZER_FILE, config.tokenizer)

    @classmethod
    def examples(cls, config: Any, split: str) -> list[str]:
        return lines_of(config.data, split)

    def select(self, examples: Sequence[str], count: int) -> list[str]:
        return first_lines(examples, self.tokenizer, count * self.config.length)

    def described(self, title: str, model: str, commands: tuple[str, ...], more: str = "") -> Description:
        """What the README of a run says."""
        count = len(self.assets.data["train"]) if self.assets.data else 0
        text = f"{model} over {self.config.tokenizer.kind} tokens, trained with Headwise on {count:,} tokens."
        return Description(title, text, commands, more)


def read(config: TextConfig, tokens: TokenizerConfig, given: Given, length: int) -> Read:
    """Reads the text of a recipe, and learns its tokens where they are not given.

    Args:
        length: of a training window, in tokens.
    """
    paths = own_files(config)
    folder = paths["train"] if paths["train"].is_dir() else None
    learned = None if given.files is None else tokenizer_in(given.files, TOKENIZER_FILE, tokens)
    files = None if folder is None else _files(paths.pop("train"), learned)
    if files is not None:
        files.check(config, tokens)
    with digested(paths) as digests:
        parts = portions(config) if files is None else {part: whole(getattr(config, part), config) for part in paths}
        tokenizer = files.tokenizer if files else learned or train_tokenizer(parts["train"], tokens)
        texts = {part: portion for part, portion in parts.items() if portion.chars}
        data = {part: encode(portion, tokenizer, given.scratch) for part, portion in texts.items()}
    notes = list(dict.fromkeys(f"{portion.path}: {portion.bad}" for portion in parts.values() if portion.bad))
    if files is not None:
        data, digests = {**files.texts(), **data}, {"train": files.digest, **digests}
        notes += [f"{files.folder}: {files.index.bad}"] * bool(files.index.bad)
    notes += [f"{part}: {len(text):,} tokens of {text.chars:,} characters" for part, text in data.items()]
    if learned is None and data["train"].chars > TRAINED_CHARS:
        notes.append(f"the tokenizer is trained on the first {TRAINED_CHARS:,} characters of the text")
    if len(data["train"]) < length:
        notes.append(f"train: the text has {len(data['train']):,} tokens, less than one window ({length})")
    return Read(data, tokenizer, digests, notes)


def _files(folder: Path, learned: Tokenizer | None) -> token_files.TokenFiles:
    """The token files of a folder. Raises: DataError where they are of another tokenizer than was learned before."""
    files = token_files.opened(folder)
    if learned is not None and learned.digest() != files.tokenizer.digest():
        raise DataError(
            f"{folder}: its tokens are of another tokenizer than the run's, learned from another text; name the folder"
            " that the run began with"
        )
    return files


def trained_on(config: TextConfig, tokenizer: Tokenizer) -> Text:
    """The tokens of the training part, whatever became of the files of the others."""
    folder = resolve(config.train)
    if folder.is_dir():
        return _files(folder, tokenizer).texts()["train"]
    return encode(training_portion(config), tokenizer)


def lines_of(config: TextConfig, split: str) -> list[str]:
    """The lines of a part; of one that has a file of its own without the text that was trained on."""
    own = None if split == "train" else getattr(config, split)
    folder = resolve(config.train)
    if own is None and folder.is_dir():
        return list(token_files.opened(folder).lines(split))
    portion = whole(own, config) if own else portions(config)[split]
    warn_skipped(portion.path, portion.bad)
    return list(portion.lines())


def beginning(data: Mapping[str, Text] | None, tokenizer: Tokenizer, length: int) -> str:
    """The first words of what is validated on, or else trained on, which fit into half a window of so many tokens."""
    text = next((data[part] for part in ("valid", "train") if part in data), None) if data else None
    tokens = [] if text is None else text.tokens[1 : min(_PROBED, length // 2) + 1].tolist()
    return tokenizer.decode(tokens).strip()


def limited(text: Text, tokenizer: Tokenizer, length: int, limits: Limits) -> tuple[Text, int]:
    """The part of a text that is read, and how many windows of `length` tokens a batch has.

    Where examples are limited, these are the lines that end within so many windows.

    Raises: ConfigError where there is no room for one.
    """
    rows = limits.tokens // length
    if not rows:
        raise ConfigError(f"training.batch_tokens ({limits.tokens}) is less than one window: length is {length}")
    rows = rows if limits.sentences is None else min(rows, limits.sentences)
    if limits.examples is None or limits.examples * length >= len(text):
        return text, rows
    return _whole_lines(text.first(limits.examples * length), tokenizer), rows


def first_lines(lines: Sequence[str], tokenizer: Tokenizer, count: int) -> list[str]:
    """The lines that end within the first `count` tokens; of a longer first line its beginning."""
    text = text_of(lines, tokenizer)
    if count >= len(text):
        return list(lines)
    beginning = _whole_lines(text.first(count), tokenizer)
    number = int((beginning.tokens[1:] == _line_end(tokenizer)).sum())
    return list(lines[:number]) or [tokenizer.decode(beginning.tokens[1:].tolist())]


def _whole_lines(text: Text, tokenizer: Tokenizer) -> Text:
    """A text up to its last line end, if it has any, with the characters of this part."""
    tokens = np.asarray(text.tokens[:])
    ends = np.flatnonzero(tokens[1:] == _line_end(tokenizer))
    tokens = tokens[: ends[-1] + 2] if len(ends) else tokens
    return Text(tokens, len(tokenizer.decode(tokens[1:].tolist())))


def _line_end(tokenizer: Tokenizer) -> int:
    if tokenizer.imported is not None:
        return next(iter(tokenizer.encode("\n")[-1:]), tokenizer.eos_id)
    return begin_id(tokenizer) if tokenizer.config.spaces == "kept" else tokenizer.eos_id
