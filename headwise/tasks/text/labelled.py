"""Texts with a label or a number each: read from tables and JSON lines, as rows of tokens, in batches."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import Field, field_validator
from torch import Tensor

from headwise.config import Config, DataFile
from headwise.data.bad_lines import BadLine, BadRule, caught, strict
from headwise.data.batches import OnDevice, Ragged, padded
from headwise.data.files import TEXT_LINE_BYTES, ending_of, resolve, scan_lines
from headwise.data.readers import Pair
from headwise.data.splits import DataSet, Nouns
from headwise.data.tables import (
    Delimiter,
    Key,
    Row,
    Table,
    TableFormat,
    _cleaned,
    format_of,
    name_of,
    named_format,
    number_of,
    scan_rows,
    text_cell,
)
from headwise.data.text import Normalize
from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.errors import DataError, ShapeError

Label = str | float


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text, its label or number where that is known, and the line (from 1) of the file at which it begins."""

    text: str
    label: Label | None
    line: int


class LabelledConfig(Config):
    """Which labelled texts to read, and how."""

    train: DataFile = Field(description="file of texts with a label or number each: CSV, TSV or JSON lines")
    valid: DataFile | None = Field(None, description="validation file; without it a part of train is held out")
    test: DataFile | None = Field(None, description="test file; without it a part of train is held out")
    format: TableFormat = Field("auto", description="auto (by name, else by content), csv, tsv or jsonl")
    delimiter: Delimiter = Field(",", description="what parts the columns of a CSV file: one character")
    text_key: str = Field("text", description="column, or field of JSON lines, of the text")
    label_key: str = Field("label", description="column, or field of JSON lines, of the label or number")
    columns: tuple[int, int] | None = Field(
        None, description="text and label column, from 0, of a CSV or TSV file without a line of names"
    )
    bad_lines: BadRule = Field("stop", description="a line that cannot be read: stop, or skip its row")
    limit: int | None = Field(None, ge=1, description="use only the first texts of train")
    valid_fraction: float = Field(0.1, ge=0, lt=1, description="part of train's texts held out to validate")
    test_fraction: float = Field(0.1, ge=0, lt=1, description="part of train's texts held out to test")
    split_seed: int = Field(0, description="another seed gives another split")
    max_len: int = Field(256, ge=1, description="tokens of a text that are read; what follows is left out")
    max_line_bytes: int = Field(TEXT_LINE_BYTES, ge=1, description="longer lines are refused")

    @field_validator("columns")
    @classmethod
    def _two_columns(cls, columns: tuple[int, int] | None) -> tuple[int, int] | None:
        if columns is not None and (min(columns) < 0 or columns[0] == columns[1]):
            raise ValueError(f"must be two different column numbers counted from 0, got {list(columns)}")
        return columns

    def table(self) -> Table:
        return Table(self.format, self.delimiter, self.max_line_bytes, "data.text_key and data.label_key")


def scan_labelled(
    path: str | os.PathLike[str], config: LabelledConfig, normalize: Normalize = "nfc", *, numbers: bool = False
) -> Iterator[Labelled | DataError]:
    """The labelled texts of a file, one after another, with the lines that are bad.

    Texts and labels are cleaned (see `clean`); whole numbers, true and false are labels too.

    Args:
        config: format, keys and columns; its paths are not read.
        numbers: labels are numbers, finite, with a point: 3, -0.5, 1e-3.

    Raises: DataError: the file cannot be read any further, or lacks a column.
    """
    name = os.fspath(path)
    for row in scan_rows(name, config.table(), _keys(name, config)):
        yield row if isinstance(row, BadLine) else caught(_labelled, name, row, _keys(name, config), normalize, numbers)


def labelled_set(config: LabelledConfig, tokenizer: TokenizerConfig, *, numbers: bool) -> DataSet[Labelled]:
    """The texts of a recipe with their labels or numbers, as the tokens of a model read them."""
    return DataSet(
        config,
        lambda split, _: scan_labelled(resolve(getattr(config, split)), config, tokenizer.normalize, numbers=numbers),
        lambda example: Pair(example.text, str(example.label), example.line),
        Nouns("texts", "numbers" if numbers else "labels"),
        tokenizer.lowercase,
        limit=config.limit,
        report=_report(config, numbers),
    )


def _report(config: LabelledConfig, numbers: bool) -> str | None:
    """How the report on data reads a file of texts; it knows no numbers."""
    columns = "" if config.columns is None else f" --columns {config.columns[0]} {config.columns[1]}"
    changed = "".join(
        f" data.{key}={getattr(config, key)}"
        for key in ("format", "delimiter", "text_key", "label_key")
        if getattr(config, key) != LabelledConfig.model_fields[key].default
    )
    return None if numbers else f"--kind labelled{columns}{changed}"


def read_texts(path: str | os.PathLike[str], config: LabelledConfig, normalize: Normalize = "nfc") -> Iterator[str]:
    """The texts of a file to label, one after another: the text column of a table, or the lines of plain text.

    By its ending a file is CSV, TSV, JSON lines or (`.txt`) plain text. Others are of the format of the configuration;
    where that is "auto", JSON lines or plain text by their first line. A blank line of plain text is an empty text.

    Raises: DataError: `file:line: ...`, what is wrong there.
    """
    name = os.fspath(path)
    if not _is_table(name, config):
        for number, line in scan_lines(name, max_line_bytes=config.max_line_bytes):
            if isinstance(line, BadLine):
                raise line
            yield _cleaned(name, number, line, normalize)
        return
    key = _keys(name, config)[0]
    for row in strict(scan_rows(name, config.table(), [key])):
        yield text_cell(name, row, key, normalize)


def _is_table(name: str, config: LabelledConfig) -> bool:
    if ending_of(name) == ".txt":
        return False
    if named_format(name) is not None or config.format != "auto":
        return True
    return format_of(name, config.max_line_bytes) == "jsonl"


def _keys(name: str, config: LabelledConfig) -> tuple[Key, Key]:
    """What text and label are called in a file: columns have numbers only where there are no names."""
    kind = named_format(name) if config.format == "auto" else config.format
    if config.columns is not None and kind != "jsonl":
        return config.columns
    return config.text_key, config.label_key


def _labelled(name: str, row: Row, keys: tuple[Key, Key], normalize: Normalize, numbers: bool) -> Labelled:
    text = text_cell(name, row, keys[0], normalize)
    if not text:
        raise BadLine(name, row.line, "empty text", "the text is empty; write one or remove the row")
    read = number_of if numbers else partial(name_of, normalize=normalize)
    return Labelled(text, read(row.cells[keys[1]], partial(BadLine, name, row.line, "label")), row.line)


@dataclass(frozen=True, slots=True)
class TextRows:
    """The tokens of texts, and the number of the class, or the value, that belongs to each.

    `cut` is how many texts had more tokens than were kept.
    """

    tokens: Ragged
    targets: np.ndarray
    cut: int

    def __len__(self) -> int:
        return len(self.tokens)

    def lengths(self) -> np.ndarray:
        """(texts, 1): places of each in a batch, as `token_batches` wants them; an empty text takes one."""
        return np.maximum(self.tokens.lengths, 1)[:, None]


@dataclass(frozen=True, slots=True)
class LabelledBatch(OnDevice):
    """Padded texts, at least one place wide, their lengths, and the target of each."""

    tokens: Int[Tensor, "batch length"]
    lens: Int[Tensor, "batch"]
    targets: Int[Tensor, "batch"] | Float[Tensor, "batch"]
    indices: list[int]

    @property
    def num_tokens(self) -> int:
        """Targets: one for each text."""
        return len(self.indices)


def encode_texts(
    texts: Sequence[str], tokenizer: Tokenizer, max_len: int, targets: Sequence[int] | Sequence[float] | None = None
) -> TextRows:
    """The first `max_len` tokens of each text, and what stands behind every one; without targets these are 0.

    >>> from headwise.data.tokenizers import TokenizerConfig
    >>> rows = encode_texts(["ab", ""], Tokenizer.train(["ab"], TokenizerConfig(kind="char")), 1)
    >>> rows.tokens[0].tolist(), rows.lengths().tolist(), rows.cut
    ([4], [[1], [1]], 1)
    """
    token_rows = tokenizer.encode_batch(texts)
    values = np.zeros(len(texts), dtype=np.int64) if targets is None else np.asarray(targets)
    if values.dtype == np.float64:
        # what every device can hold
        values = values.astype(np.float32)
    cut = sum(len(row) > max_len for row in token_rows)
    return TextRows(Ragged.of([tokenizer.shorten(row, max_len) for row in token_rows]), values, cut)


def collate_texts(rows: TextRows, indices: Sequence[int]) -> LabelledBatch:
    """Pads the texts at `indices` to one batch; no Python work per token. Raises: ShapeError: no indices."""
    if not len(indices):
        raise ShapeError("a batch needs at least one example")
    chosen = np.asarray(indices, dtype=np.int64)
    token_rows = rows.tokens.take(chosen)
    tokens = padded(token_rows, Tokenizer.pad_id)
    if not tokens.shape[1]:
        tokens = tokens.new_full((len(indices), 1), Tokenizer.pad_id)
    targets = torch.from_numpy(rows.targets[chosen])
    return LabelledBatch(tokens, torch.from_numpy(token_rows.lengths), targets, list(indices))
