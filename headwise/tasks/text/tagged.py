"""Words in columns, as in CoNLL-2000 and CoNLL-2003: a word a line, a blank line after each sentence."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

from pydantic import Field

from headwise.config import Config, DataFile
from headwise.data.bad_lines import BadLine, BadRule, strict
from headwise.data.files import MAX_LINE_BYTES, ending_of, first_line, scan_lines
from headwise.data.jsonl import parse_object, spans, texts
from headwise.data.spans import Scheme, recognised, tags_of
from headwise.data.tables import is_jsonl
from headwise.data.text import Normalize, clean
from headwise.errors import ConfigError, DataError, unknown

DOCUMENT = "-DOCSTART-"

_Cells = tuple[str, str | None]


class Columns:
    """Reads the word and the tag of the lines of one file, which all have as many columns as the first.

    A line with a tab is cut at its tabs, others at runs of spaces. There are no comments: `#` is a word.

    Args:
        word, tag: numbers of columns from 0, or from the end as -1.
        required: a file without a column for tags is refused.

    >>> Columns(0, -1, required=True).cells(1, "Paris NNP I-NP B-LOC")
    ('Paris', 'B-LOC')
    """

    def __init__(self, word: int, tag: int, *, required: bool):
        self.word, self.tag, self.required = word, tag, required
        self.first = self.width = 0

    def cells(self, line: int, text: str) -> _Cells:
        """The word of a line and its tag; None where the file has words alone.

        Raises: BadLine: what is wrong, with the number of the line alone.
        """
        columns = text.split("\t") if "\t" in text else re.split(" +", text.strip(" "))
        if not self.width:
            self._begin(line, len(columns))
        if len(columns) != self.width:
            what = f"{_count(len(columns))}, but line {self.first} has {self.width}; give every word the same columns"
            raise BadLine("", line, "columns", f"{what}, and put a blank line after each sentence")
        word, tag = columns[self.word], None if self.width == 1 else columns[self.tag].strip()
        if tag == "":
            raise BadLine("", line, "tags", "the tag is empty; give every word a tag")
        return word, tag

    def _begin(self, line: int, width: int) -> None:
        """Sees whether a file of so many columns has those that are asked for."""
        if width == 1 and self.required:
            what = "1 column; a word needs a tag beside it, after a space or a tab"
            raise BadLine("", line, "columns", what)
        for name, column in (("word_column", self.word), ("tag_column", self.tag)):
            if not -width <= column < width and width > 1:
                what = f"{_count(width)}, so there is no {name} {column}; set {name} from 0 to {width - 1}"
                raise BadLine("", line, "columns", f"{what}, or from the end as -1")
        if width > 1 and self.word % width == self.tag % width:
            what = f"word_column {self.word} and tag_column {self.tag} are the same of {width} columns; change one"
            raise BadLine("", line, "columns", what)
        if width == 1:
            self.word = 0
        self.first, self.width = line, width


def is_document(text: str) -> bool:
    """Whether a line says that a document begins, which is no word."""
    return text.split(maxsplit=1)[:1] == [DOCUMENT]


def _count(number: int) -> str:
    return f"{number} column{'' if number == 1 else 's'}"


TaggedFormat = Literal["auto", "conllu", "columns", "jsonl"]
Column = Literal["upos", "xpos", "feats", "deprel"]

# CoNLL-U: https://universaldependencies.org/format.html
_COLUMNS = 10
_FORM = 1
_ENDINGS = {".conllu": "conllu", ".txt": "text"} | dict.fromkeys((".iob", ".iob2", ".bio", ".bioes"), "columns")
_Line = tuple[int, str | BadLine]
_PLACES: dict[str, int] = {"upos": 3, "xpos": 4, "feats": 5, "deprel": 7}


@dataclass(frozen=True, slots=True)
class Tagged:
    """The words of a sentence, their tags where they are known, and the line (from 1) of the file it begins at."""

    words: tuple[str, ...]
    tags: tuple[str, ...] | None
    line: int

    @property
    def text(self) -> str:
        return " ".join(self.words)


class TaggedConfig(Config):
    """Which tagged sentences to read, and how."""

    train: DataFile = Field(description="file of tagged sentences: CoNLL-U, columns or JSON lines")
    valid: DataFile | None = Field(None, description="validation file; without it a part of train is held out")
    test: DataFile | None = Field(None, description="test file; without it a part of train is held out")
    format: TaggedFormat = Field("auto", description="auto (by name, else by content), conllu, columns or jsonl")
    column: Column = Field("upos", description="what the tags are in CoNLL-U: upos, xpos, feats or deprel")
    word_column: int = Field(0, description="in a file of columns that of the word: from 0, or from the end as -1")
    tag_column: int = Field(-1, description="in a file of columns that of the tag: from 0, or from the end as -1")
    words_key: str = Field("words", description="field of the words in JSON lines")
    tags_key: str = Field("tags", description="field of the tags in JSON lines")
    spans_key: str | None = Field(
        None, description="field of spans in JSON lines, [start, end, label] in words from 0, end left out; or of tags"
    )
    scheme: Literal["auto"] | Scheme = Field(
        "auto", description="how tags mark spans: auto (as the training part does), none, iob1, iob2, iobes or bilou"
    )
    untagged: str | None = Field(
        None, description="tag of words whose tag is not known, such as -: they are read, neither learned nor scored"
    )
    bad_lines: BadRule = Field("stop", description="a line that cannot be read: stop, or skip its sentence")
    limit: int | None = Field(None, ge=1, description="use only the first sentences of train")
    valid_fraction: float = Field(0.05, ge=0, lt=1, description="part of train's sentences held out to validate")
    test_fraction: float = Field(0.05, ge=0, lt=1, description="part of train's sentences held out to test")
    split_seed: int = Field(0, description="another seed gives another split")
    max_len: int = Field(256, ge=1, description="longest sentence, in words; longer ones are left out")
    max_line_bytes: int = Field(MAX_LINE_BYTES, ge=1, description="longer lines are refused")


def scan_tagged(
    path: str | os.PathLike[str], config: TaggedConfig, normalize: Normalize = "nfc"
) -> Iterator[Tagged | BadLine]:
    """The sentences of a file, one after another, with the lines that are bad; a sentence with such a line is left out.

    Raises: DataError: the file cannot be read any further, or its format is not known.
    """
    return _sentences(os.fspath(path), config, normalize, required=True)


def read_words(path: str | os.PathLike[str], config: TaggedConfig, normalize: Normalize = "nfc") -> Iterator[Tagged]:
    """The sentences of a file to tag, one after another: as `scan_tagged`, or plain text with words between spaces.

    Tags may be missing. A blank line of plain text is a sentence without words.

    Raises: DataError: `file:line: ...`, what is wrong there.
    """
    return strict(_sentences(os.fspath(path), config, normalize, required=False))


def scheme_of(sentences: Iterable[Tagged], config: TaggedConfig) -> Scheme:
    """How the tags of these sentences mark spans, as the configuration says or as `recognised` finds."""
    return recognised(sentence.tags or () for sentence in sentences) if config.scheme == "auto" else config.scheme


def _sentences(name: str, config: TaggedConfig, normalize: Normalize, required: bool) -> Iterator[Tagged | BadLine]:
    if config.format not in get_args(TaggedFormat):
        raise ConfigError(unknown("format", config.format, get_args(TaggedFormat)))
    kind = _kind(name, config) if config.format == "auto" else config.format
    if kind == "text" and required:
        raise DataError(
            f"{name}: neither CoNLL-U nor JSON lines, so there are no tags in it; give a .conllu, .conll or .jsonl"
            " file, or set format to conllu, columns or jsonl to see what is wrong with this one"
        )
    # a new sentence for each block of lines, or for each line
    if kind in ("conllu", "columns"):
        blocks = line_blocks(name, config.max_line_bytes, columns=kind == "columns")
    else:
        blocks = _single_lines(name, config, kind == "text")
    table = Columns(config.word_column, config.tag_column, required=required)
    readers: dict[str, Callable[..., Tagged]] = {"text": _of_text, "jsonl": _of_json, "conllu": _of_conllu}
    reader = readers.get(kind, partial(_of_columns, table))
    for block in blocks:
        good = [(number, text) for number, text in block if not isinstance(text, BadLine)]
        faults = [text for _, text in block if isinstance(text, BadLine)]
        if not faults:
            try:
                yield reader(good, config, normalize, required)
            except BadLine as fault:
                faults.append(fault.of(name))
        yield from faults


def _kind(name: str, config: TaggedConfig) -> str:
    """The format, by the ending of the name, else by the first line that is not blank."""
    ending = ending_of(name)
    if ending in _ENDINGS:
        return _ENDINGS[ending]
    first = first_line(name, config.max_line_bytes)
    if is_jsonl(name, first):
        return "jsonl"
    if first.startswith("# ") or first.count("\t") == _COLUMNS - 1:
        return "conllu"
    return "columns" if ending == ".conll" or is_document(first) else "text"


def _single_lines(name: str, config: TaggedConfig, blank: bool) -> Iterator[list[_Line]]:
    """Every line as a block of its own, blank ones if asked."""
    for number, text in scan_lines(name, max_line_bytes=config.max_line_bytes):
        if blank or isinstance(text, BadLine) or not (not text or text.isspace()):
            yield [(number, text)]


def line_blocks(name: str, max_line_bytes: int, *, columns: bool) -> Iterator[list[_Line]]:
    """The lines between blank ones: of CoNLL-U without comments, of columns without the beginnings of documents."""
    block: list[_Line] = []
    for number, text in scan_lines(name, max_line_bytes=max_line_bytes):
        if isinstance(text, BadLine):
            block.append((number, text))
        elif not text or text.isspace() or (columns and is_document(text)):
            if block:
                yield block
            block = []
        elif columns or not text.startswith("#"):
            block.append((number, text))
    if block:
        yield block


def _of_text(lines: list[tuple[int, str]], config: TaggedConfig, normalize: Normalize, required: bool) -> Tagged:
    ((number, text),) = lines
    try:
        return Tagged(tuple(clean(text, normalize).split()), None, number)
    except DataError as error:
        raise BadLine("", number, "characters", error.message) from None


def _of_json(lines: list[tuple[int, str]], config: TaggedConfig, normalize: Normalize, required: bool) -> Tagged:
    ((number, text),) = lines
    try:
        record = parse_object(text)
        words = texts(record, config.words_key)
        tags = _tags_of_json(record, len(words), config, required)
    except DataError as error:
        raise BadLine("", number, "fields", error.message) from None
    if not words:
        raise BadLine("", number, "empty sentence", "the sentence is empty; give it words or remove the line")
    if tags is not None and len(tags) != len(words):
        raise BadLine("", number, "tags", f"{len(words)} words but {len(tags)} tags; give every word one tag")
    if tags is not None and not all(tags):
        raise BadLine("", number, "tags", f"tag {tags.index('') + 1} is empty; give every word a tag")
    cleaned = tuple(_cleaned(number, word, normalize) for word in words)
    return Tagged(cleaned, None if tags is None else tuple(tags), number)


def _tags_of_json(record: dict[str, Any], count: int, config: TaggedConfig, required: bool) -> list[str] | None:
    key = config.tags_key if config.spans_key is None else config.spans_key
    if key not in record and not required:
        return None
    return texts(record, key) if config.spans_key is None else tags_of(spans(record, key), count)


def _of_columns(
    table: Columns, lines: list[tuple[int, str]], config: TaggedConfig, normalize: Normalize, required: bool
) -> Tagged:
    words, tags = zip(*(table.cells(number, text) for number, text in lines), strict=True)
    cleaned = tuple(_cleaned(number, word, normalize) for (number, _), word in zip(lines, words, strict=True))
    return Tagged(cleaned, None if None in tags else tags, lines[0][0])


def _of_conllu(lines: list[tuple[int, str]], config: TaggedConfig, normalize: Normalize, required: bool) -> Tagged:
    words: list[str] = []
    tags: list[str] = []
    for number, text in lines:
        cells = conllu_cells(number, text, len(words) + 1)
        if cells is not None:
            words.append(conllu_word(number, cells, normalize))
            tags.append(_tag(number, cells[_PLACES[config.column]], config.column, required))
    if not words:
        raise BadLine("", lines[0][0], "empty sentence", "the sentence is empty; give it words or remove it")
    return Tagged(tuple(words), tuple(tags) if all(tags) else None, lines[0][0])


def conllu_cells(line: int, text: str, expected: int) -> list[str] | None:
    """The columns of a word's line; None for a line that is no word. Raises: BadLine."""
    cells = text.split("\t", _COLUMNS)
    if len(cells) != _COLUMNS:
        count = text.count("\t") + 1
        hint = "; columns are separated by tabs, not by spaces" if count == 1 else ""
        raise BadLine("", line, "columns", f"{count} column{'s' if count > 1 else ''}, CoNLL-U has {_COLUMNS}{hint}")
    number = cells[0]
    if number.isdecimal():
        if int(number[:9]) != expected:
            what = f"word {number[:9]} where word {expected} is due; number the words of a sentence 1, 2, ... and"
            raise BadLine("", line, "numbering", f"{what} put a blank line after each sentence")
        return cells
    first, mark, second = number.partition("-") if "-" in number else number.partition(".")
    if not (mark and first.isdecimal() and second.isdecimal()):
        what = f"{number[:20]!r} is no word number; the first column is a number, 1-2 or 1.1"
        raise BadLine("", line, "numbering", what)
    return None


def conllu_word(line: int, cells: Sequence[str], normalize: Normalize) -> str:
    """The word of a line of CoNLL-U. Raises: BadLine."""
    return _cleaned(line, cells[_FORM], normalize)


def _tag(line: int, tag: str, column: str, required: bool) -> str:
    # "_" says that there is nothing, which is a value of feats alone
    missing = not tag or (tag == "_" and column != "feats")
    if missing and required:
        others = ", ".join(other for other in _PLACES if other != column)
        raise BadLine("", line, "tags", f"no {column}; fill the column, or set column to one of {others}")
    return "" if missing else tag


def _cleaned(line: int, word: str, normalize: Normalize) -> str:
    try:
        cleaned = clean(word, normalize)
    except DataError as error:
        raise BadLine("", line, "characters", error.message) from None
    if not cleaned:
        raise BadLine("", line, "empty word", "a word is empty; write the word or remove it")
    return cleaned
