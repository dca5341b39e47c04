"""Sentence pairs and dialogues: which files, how they are read and split, what of a dialogue is answered."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field, model_validator

from headwise.config import Config, DataFile
from headwise.data.bad_lines import BadLine, BadRule
from headwise.data.batches import LongRule, Ragged
from headwise.data.files import TEXT_LINE_BYTES, resolve, scan_lines
from headwise.data.jsonl import any_field, kind_name, parse_object, text_field, texts
from headwise.data.readers import EmptyRule, Pair, PairFormat, Reading, scan_pairs
from headwise.data.splits import SPLITS, DataSet, Nouns
from headwise.data.tables import is_jsonl
from headwise.data.text import Normalize, clean
from headwise.data.tokenizers import Tokenizer
from headwise.errors import DataError

Side = Literal["second", "first", "both"]

PAIR_NOUNS = Nouns("sentence pairs", "translation", "sources")

# between the turns of a context that is written as one text
SEPARATOR = "|||"
# what a model reads between turns: a token that no text has
BETWEEN = Tokenizer.eos_id


class DataConfig(Config):
    """Which sentence pairs to read, and how."""

    train: DataFile = Field(description="file of sentence pairs; headwise:NAME is a file that ships with the package")
    train_target: DataFile | None = Field(None, description="second file, if train is one of two parallel files")
    valid: DataFile | None = Field(None, description="validation file; without it a part of train is held out")
    valid_target: DataFile | None = Field(None, description="second validation file, for parallel files")
    test: DataFile | None = Field(None, description="test file; without it a part of train is held out")
    test_target: DataFile | None = Field(None, description="second test file, for parallel files")
    format: PairFormat = Field("auto", description="auto (by name, else by content), tsv or jsonl")
    columns: tuple[int, int] | None = Field(None, description="source and target column of a TSV file, from 0")
    source_key: str | None = Field(None, description="source field, or language under translation, of JSON lines")
    target_key: str | None = Field(None, description="target field, or language under translation, of JSON lines")
    bad_lines: BadRule = Field("stop", description="a line that cannot be read: stop, or skip it")
    empty: EmptyRule = Field("error", description="a pair with an empty side: error (a bad line), skip or keep")
    limit: int | None = Field(None, ge=1, description="use only the first pairs of train")
    valid_fraction: float = Field(0.05, ge=0, lt=1, description="part of train's source sentences held out to validate")
    test_fraction: float = Field(0.05, ge=0, lt=1, description="part of train's source sentences held out to test")
    split_seed: int = Field(0, description="another seed gives another split")
    max_source_len: int = Field(256, ge=1, description="longest source, in tokens")
    max_target_len: int = Field(256, ge=1, description="longest target, in tokens")
    too_long: LongRule = Field(
        "drop", description="longer pairs: drop them, truncate both sides, or truncate_source and drop longer targets"
    )
    max_line_bytes: int = Field(TEXT_LINE_BYTES, ge=1, description="longer lines are refused")

    @model_validator(mode="after")
    def _targets_have_sources(self) -> "DataConfig":
        for part in ("valid", "test"):
            if getattr(self, f"{part}_target") is not None and getattr(self, part) is None:
                raise ValueError(f"{part}_target is given but {part} is not; name both parallel files")
        return self


def reading(config: DataConfig, normalize: Normalize) -> Reading:
    return Reading(
        format=config.format,
        source_key=config.source_key,
        target_key=config.target_key,
        columns=config.columns,
        empty=config.empty,
        normalize=normalize,
        max_line_bytes=config.max_line_bytes,
    )


def pair_set(config: DataConfig, normalize: Normalize = "nfc", lowercase: bool = False) -> DataSet[Pair]:
    """The sentence pairs of a recipe; sources that differ in case alone may be the same."""

    def scan(split: str, _: object) -> Iterator[Pair | BadLine]:
        target = getattr(config, f"{split}_target")
        second = None if target is None else resolve(target)
        return scan_pairs(resolve(getattr(config, split)), second, reading(config, normalize))

    return DataSet(
        config,
        scan,
        lambda pair: pair,
        PAIR_NOUNS,
        lowercase,
        [key for split in SPLITS for key in (split, f"{split}_target")],
        config.limit,
        # the files of a pair of files must have as many lines
        to_end=config.train_target is not None,
    )


class DialogueConfig(Config):
    """Which dialogues to read, what in them is answered, and how much is read before it."""

    train: DataFile = Field(description="JSON lines or TSV, a dialogue a line")
    valid: DataFile | None = Field(None, description="dialogues to validate; without them a part of train is held out")
    test: DataFile | None = Field(None, description="dialogues to test; without them a part of train is held out")
    format: Literal["auto", "tsv", "jsonl"] = Field("auto", description="auto (by name, else by content), tsv or jsonl")
    turns_key: str = Field("turns", description="field of JSON lines with the turns, an array of texts")
    messages_key: str = Field("messages", description="field with messages instead: objects with role and content")
    answers: Side = Field("second", description="whose turns are answers, where none has a role: second, first, both")
    role: str = Field("assistant", description="the role of messages that are answers")
    max_turns: int | None = Field(None, ge=1, description="turns that are read before an answer at most, the last ones")
    bad_lines: BadRule = Field("stop", description="a line that cannot be read: stop, or skip it")
    limit: int | None = Field(None, ge=1, description="use only the first dialogues of train")
    valid_fraction: float = Field(0.05, ge=0, lt=1, description="part of train's dialogues held out to validate")
    test_fraction: float = Field(0.05, ge=0, lt=1, description="part of train's dialogues held out to test")
    split_seed: int = Field(0, description="another seed gives another split")
    max_source_len: int = Field(256, ge=1, description="tokens read before an answer; the oldest turns give way")
    max_target_len: int = Field(128, ge=1, description="longest answer, in tokens; longer ones are not trained on")
    max_line_bytes: int = Field(TEXT_LINE_BYTES, ge=1, description="longer lines are refused")


class Dialogue(NamedTuple):
    """The turns of a dialogue, the places of those that are answers, and its line, from 1."""

    turns: list[str]
    answers: list[int]
    line: int

    def pairs(self) -> list[Pair]:
        """Every answer after the turns before it, joined by `SEPARATOR`.

        >>> [pair.source for pair in Dialogue(["hi", "hello", "bye", "see you"], [1, 3], 1).pairs()]
        ['hi', 'hi ||| hello ||| bye']
        """
        return [Pair(join_turns(self.turns[:place]), self.turns[place], self.line) for place in self.answers]


@dataclass(frozen=True)
class Contexts:
    """The tokens of contexts, how many of them lost turns, and how many turns they lost."""

    rows: Ragged
    shortened: int
    lost: int


def join_turns(turns: Sequence[str]) -> str:
    return f" {SEPARATOR} ".join(turns)


def turns_of(context: str) -> list[str]:
    """The turns of a context that is one text, or an object of JSON lines; empty ones are left out.

    Raises: DataError: JSON that holds no turns.

    >>> turns_of("hi ||| my name is anna"), turns_of('{"turns": ["hi"]}')
    (['hi', 'my name is anna'], ['hi'])
    """
    if context.lstrip().startswith("{"):
        turns, _ = _of_json(context, DialogueConfig(train=""))
    else:
        turns = context.split(SEPARATOR)
    return [turn for turn in (" ".join(turn.split()) for turn in turns) if turn]


def encoded(contexts: Sequence[str], tokenizer: Tokenizer, longest: int, most: int | None = None) -> Contexts:
    """The tokens of contexts, with `BETWEEN` between turns; where they are too many the oldest turns are left out.

    A last turn that is too long by itself loses its beginning.

    Args:
        longest: tokens at most.
        most: turns at most.
    """
    split = [context.split(f" {SEPARATOR} ") if context else [] for context in contexts]
    read = [turns if most is None else turns[-most:] for turns in split]
    pieces = iter(tokenizer.encode_batch(list(chain.from_iterable(read))))
    rows, shortened, lost = [], 0, 0
    for turns, all_turns in zip(read, split, strict=True):
        encoded_turns = [next(pieces) for _ in turns]
        newest = _newest(encoded_turns, longest)
        gone = len(all_turns) - newest
        cut = newest == 1 and len(encoded_turns[-1]) > longest
        shortened, lost = shortened + (gone > 0 or cut), lost + gone
        row = [token for turn in encoded_turns[len(encoded_turns) - newest :] for token in (BETWEEN, *turn)][1:]
        rows.append(row[len(row) - longest :] if cut else row)
    return Contexts(Ragged.of(rows), shortened, lost)


def _newest(turns: Sequence[Sequence[int]], longest: int) -> int:
    """How many turns from the end fit, one at least."""
    length = 0
    for number, turn in enumerate(reversed(turns)):
        length += len(turn) + (number > 0)
        if length > longest and number:
            return number
    return len(turns)


def scan_dialogues(path: Path, config: DialogueConfig, normalize: Normalize = "nfc") -> Iterator[Dialogue | BadLine]:
    """The dialogues of a file, and the lines that are none. Raises: DataError: the file cannot be read any further."""
    for number, turns, answers in _lines(path, config, normalize):
        if isinstance(turns, BadLine):
            yield turns
        elif not any(answers):
            yield BadLine(str(path), number, "turns", "nothing in it answers a turn before it; give two turns or more")
        else:
            yield Dialogue(turns, [place for place in answers if place], number)


def scan_contexts(path: Path, config: DialogueConfig) -> Iterator[str | BadLine]:
    """The contexts of a file, each as one text: all turns of a line, to be answered; of plain text `turn ||| turn`."""
    plain = config.format == "auto" and path.suffix.lower() not in (".tsv", ".tab", ".jsonl", ".ndjson", ".json")
    if not plain:
        for _, turns, _ in _lines(path, config, "nfc"):
            yield turns if isinstance(turns, BadLine) else join_turns(turns)
        return
    for number, text in scan_lines(path, max_line_bytes=config.max_line_bytes):
        try:
            yield text if isinstance(text, BadLine) else join_turns(turns_of(text))
        except DataError as error:
            yield BadLine(str(path), number, "turns", error.message)


def dialogue_set(config: DialogueConfig, normalize: Normalize = "nfc", lowercase: bool = False) -> DataSet[Dialogue]:
    """The dialogues of a recipe; those that differ in case alone may be the same."""
    return DataSet(
        config,
        lambda split, _: scan_dialogues(resolve(getattr(config, split)), config, normalize),
        lambda dialogue: Pair(join_turns(dialogue.turns), "", dialogue.line),
        Nouns("dialogues"),
        lowercase,
        limit=config.limit,
    )


def answers_of(dialogues: Iterable[Dialogue]) -> list[Pair]:
    """Every answer of these dialogues, with the turns before it."""
    return [pair for dialogue in dialogues for pair in dialogue.pairs()]


def _lines(
    path: Path, config: DialogueConfig, normalize: Normalize
) -> Iterator[tuple[int, list[str] | BadLine, list[int]]]:
    """The number of each line that is not blank, its turns and the places of answers; or what is wrong with it."""
    json_lines: bool | None = None if config.format == "auto" else config.format == "jsonl"
    name = str(path)
    for number, text in scan_lines(path, max_line_bytes=config.max_line_bytes):
        if isinstance(text, BadLine):
            yield number, text, []
            continue
        if not text or text.isspace():
            continue
        json_lines = is_jsonl(name, text) if json_lines is None else json_lines
        try:
            turns, answers = _of_json(text, config) if json_lines else _alternating(text.split("\t"), config)
            cleaned = [_turn(turn, place, normalize) for place, turn in enumerate(turns, 1)]
        except DataError as error:
            yield number, BadLine(name, number, "turns", error.message), []
        else:
            yield number, cleaned, answers


def _turn(text: str, place: int, normalize: Normalize) -> str:
    if "\0" in text:
        raise DataError(f"turn {place} contains the NUL character; remove it")
    cleaned = clean(text, normalize)
    if not cleaned:
        raise DataError(f"turn {place} is empty; fill it or remove the line")
    if SEPARATOR in cleaned:
        raise DataError(f"turn {place} has '{SEPARATOR}' inside, which stands between turns; remove it")
    return cleaned


def _alternating(turns: list[str], config: DialogueConfig) -> tuple[list[str], list[int]]:
    first = {"second": 1, "first": 0, "both": 0}[config.answers]
    return turns, list(range(first, len(turns), 1 if config.answers == "both" else 2))


def _of_json(text: str, config: DialogueConfig) -> tuple[list[str], list[int]]:
    record = parse_object(text)
    if config.messages_key not in record or config.turns_key in record:
        return _alternating(texts(record, config.turns_key), config)
    messages = any_field(record, config.messages_key)
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise DataError(f"the field {config.messages_key!r} must be an array of objects, got {_kinds(messages)}")
    roles = [text_field(message, "role") for message in messages]
    turns = [text_field(message, "content") for message in messages]
    return turns, [place for place, role in enumerate(roles) if role == config.role]


def _kinds(value: Any) -> str:
    if not isinstance(value, list):
        return kind_name(value)
    return f"one with {next(kind_name(entry) for entry in value if not isinstance(entry, dict))}"
