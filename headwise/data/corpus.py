"""The data of a recipe: its options, its files read and split, and what was read, by digest."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from headwise.config import Config, DataFile
from headwise.data.bad_lines import BadLines, BadRule
from headwise.data.files import MAX_LINE_BYTES, digested, require_file
from headwise.data.readers import EmptyRule, Pair, PairFormat, Reading, scan_pairs, take
from headwise.data.splits import Overlap, overlap, split_pairs
from headwise.data.text import Normalize
from headwise.errors import DataError

# what becomes of pairs that are too long
LongRule = Literal["drop", "truncate", "truncate_source"]

# marks a file that ships with the package
SHIPPED = "headwise:"

Part = Literal["train", "valid", "test"]


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
    max_line_bytes: int = Field(MAX_LINE_BYTES, ge=1, description="longer lines are refused")

    @model_validator(mode="after")
    def _targets_have_sources(self) -> "DataConfig":
        for part in ("valid", "test"):
            if getattr(self, f"{part}_target") is not None and getattr(self, part) is None:
                raise ValueError(f"{part}_target is given but {part} is not; name both parallel files")
        return self


@dataclass(frozen=True, slots=True)
class Corpus:
    """The three parts, the SHA-256 of each file by its key, held-out pairs that are trained on too, and bad lines."""

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]
    files: Mapping[str, str]
    overlaps: Mapping[str, Overlap]
    skipped: Mapping[str, str] = field(default_factory=dict)


def load_corpus(config: DataConfig, normalize: Normalize, lowercase: bool = False) -> Corpus:
    """Reads and splits the files of a recipe; parts without a file come from the training file, by source sentence.

    Args:
        lowercase: sources that differ in case alone are one sentence, as they are to the model.

    Raises:
        DataError: a file cannot be read as asked.
    """
    named = {key: getattr(config, key) for part in ("train", "valid", "test") for key in (part, f"{part}_target")}
    files = {key: resolve(path) for key, path in named.items() if path is not None}
    for path in files.values():
        require_file(path)
    bad = {part: BadLines() for part in ("train", "valid", "test")}
    with digested(files) as digests:
        train = read_part(config, "train", normalize, bad["train"]) or []
        given = {part: read_part(config, part, normalize, bad[part]) for part in ("valid", "test")}
    train, valid, test = split_pairs(
        train,
        config.valid_fraction if given["valid"] is None else 0.0,
        config.test_fraction if given["test"] is None else 0.0,
        config.split_seed,
        lowercase,
    )
    overlaps = {part: overlap(train, pairs, lowercase) for part, pairs in given.items() if pairs is not None}
    return Corpus(
        train,
        given["valid"] or valid,
        given["test"] or test,
        digests,
        {part: found for part, found in overlaps.items() if found.source_lines},
        {part: found.note() for part, found in bad.items() if found.total},
    )


def read_part(
    config: DataConfig, part: Literal["train", "valid", "test"] | str, normalize: Normalize, bad: BadLines | None = None
) -> list[Pair] | None:
    """The pairs of one part's own file; None if the recipe names none.

    Args:
        bad: collects the lines that are skipped.

    Raises:
        DataError: the file cannot be read, has bad lines that are not to be skipped, or no pairs.
    """
    path, target = getattr(config, part), getattr(config, f"{part}_target")
    if path is None:
        return None
    bad = BadLines() if bad is None else bad
    name, second = resolve(path), None if target is None else resolve(target)
    limit = config.limit if part == "train" else None
    pairs = take(bad.good(scan_pairs(name, second, reading(config, normalize))), limit, to_end=second is not None)
    bad.settle(config.bad_lines)
    if not pairs:
        raise DataError(f"{name}: no sentence pairs in it" + (f"; {bad.note()}" if bad.total else ""))
    return pairs


def reading(config: DataConfig, normalize: Normalize) -> Reading:
    """How the files of a recipe are read."""
    return Reading(
        format=config.format,
        source_key=config.source_key,
        target_key=config.target_key,
        columns=config.columns,
        empty=config.empty,
        normalize=normalize,
        max_line_bytes=config.max_line_bytes,
    )


def data_cache() -> Path:
    """The folder of public data sets: `$HEADWISE_DATA`, else headwise/data in the user's cache folder."""
    named = os.environ.get("HEADWISE_DATA")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "headwise" / "data"


def resolve(path: str) -> Path:
    """The file of a path: as it stands, else in the data cache; `headwise:NAME` is one that ships with the package.

    Raises:
        DataError: no such file ships.
    """
    if not path.startswith(SHIPPED):
        cached = data_cache() / path
        return cached if not Path(path).exists() and cached.exists() else Path(path)
    folder = Path(str(resources.files("headwise.data"))) / "corpora"
    names = sorted(file.name for file in folder.iterdir() if file.is_file())
    name = path.removeprefix(SHIPPED)
    if name not in names:
        raise DataError(f"{path}: no such file ships with the package; these do: {', '.join(names) or 'none'}")
    return folder / name
