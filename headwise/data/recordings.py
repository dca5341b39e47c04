"""Recordings: what belongs to one, and the keys of a recipe that say which to read."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Float32
from pydantic import Field, model_validator

from headwise.config import Config, DataFile
from headwise.data.bad_lines import BadRule
from headwise.data.idx import MAX_BYTES
from headwise.data.marks import Mark, Marking
from headwise.data.waves import Channels, Sound, resampled
from headwise.errors import DataError

RecordingFormat = Literal["auto", "csv", "tsv", "jsonl", "npz"]


class RecordingsConfig(Config):
    """Which recordings to read, and what belongs to each."""

    train: DataFile = Field(description="list of sound files (CSV, TSV, JSON lines), or .npz file of joined audio")
    valid: DataFile | None = Field(None, description="recordings to validate; without them some of train are held out")
    test: DataFile | None = Field(None, description="recordings to test; without them some of train are held out")
    format: RecordingFormat = Field("auto", description="auto (by name, else by content), csv, tsv, jsonl or npz")
    path_key: str = Field("path", description="column of the sound file's path, as seen from the list")
    label_key: str = Field("label", description="column or array of the label, or of the text that is spoken")
    start_key: str = Field("start", description="column of the second at which a recording begins, if there is one")
    end_key: str = Field("end", description="column of the second at which a recording ends, if there is one")
    audio_key: str = Field("audio", description="array of the samples of all recordings in .npz")
    offsets_key: str = Field("offsets", description="array of where each recording begins in .npz, and of the end")
    classes: list[str] = Field(default=[], description="names of labels that are numbers from 0")
    group_key: str | None = Field(None, description="column or array that parts go by, such as a speaker or a take")
    valid_groups: list[str] = Field(default=[], description="the groups of train that are held out to validate")
    test_groups: list[str] = Field(default=[], description="the groups of train that are held out to test")
    sample_rate: int | None = Field(
        None,
        ge=1000,
        le=384_000,
        description="samples a second that the model hears; if absent, those of train's first",
    )
    channels: Channels = Field("mix", description="several channels: mix averages them, refuse does not read them")
    max_seconds: float = Field(60.0, gt=0, description="longer recordings are refused")
    max_bytes: int = Field(MAX_BYTES, ge=1, description="larger files, and those that take more in memory, are refused")
    bad_lines: BadRule = Field("stop", description="a recording that cannot be read: stop, or skip it")
    limit: int | None = Field(None, ge=1, description="use only so many recordings of train, drawn by split_seed")
    valid_fraction: float = Field(0.1, ge=0, lt=1, description="part of train held out to validate, without groups")
    test_fraction: float = Field(0.1, ge=0, lt=1, description="part of train held out to test, without groups")
    split_seed: int = Field(0, description="another seed gives another split")

    @model_validator(mode="after")
    def _groups_have_a_key(self) -> "RecordingsConfig":
        if (self.valid_groups or self.test_groups) and self.group_key is None:
            raise ValueError("valid_groups and test_groups need group_key, the column or array that names the groups")
        if both := set(self.valid_groups) & set(self.test_groups):
            raise ValueError(f"group '{min(both)}' cannot be held out both to validate and to test")
        return self

    def marking(self) -> Marking | None:
        """How labels in time are found; None: a recording has one label, or one text."""
        return None


@dataclass(frozen=True)
class Recording:
    """What is heard in one place: samples from -1 to 1, their rate, and what belongs to them.

    Args:
        name: where it comes from, `list.csv:3` or `digits.npz[17]`.
        label: class or text; None if unknown.
        group: what parts go by; empty if there is nothing.
        marks: its labels in time; None if it has none.
    """

    name: str
    samples: Float32[np.ndarray, "samples"]
    rate: int
    label: str | None = None
    group: str = ""
    marks: tuple[Mark, ...] | None = None

    @property
    def seconds(self) -> float:
        """How long it is."""
        return len(self.samples) / self.rate


# a recording, or why there is none
Scanned = Iterator[Recording | DataError]


def check_length(samples: int, rate: int, name: str, config: RecordingsConfig) -> None:
    """Refuses a recording that is too long: a header may say that a sample lasts a second, and memory is by seconds.

    Raises: DataError `name: ...`.
    """
    if samples > config.max_seconds * rate:
        raise DataError(
            f"{name}: is {samples / rate:.4g} s long, more than {config.max_seconds:g}; cut it, or set data.max_seconds"
        )


def at_rate(one: Recording, rate: int) -> Recording:
    """The same recording with so many samples a second."""
    return one if one.rate == rate else replace(one, **resampled(Sound(one.samples, one.rate), rate)._asdict())


def named(label: str, place: str, config: RecordingsConfig) -> str:
    """The class that a label means. Raises: DataError `place: ...` for a number that is none of the classes."""
    if not config.classes or label in config.classes:
        return label
    # as many digits as the classes have at most: Python reads no number of some thousands
    number = label.lstrip("0") or label[:1]
    if not label.isascii() or not label.isdigit() or len(number) > 9 or int(number) >= len(config.classes):
        raise DataError(f"{place}: label '{label[:40]}', but data.classes names {len(config.classes)}, from 0; name it")
    return config.classes[int(number)]


def marked(one: Recording, marks: tuple[Mark, ...] | None = None) -> Recording:
    """The recording with labels in time; without any, its own label is that of all of it."""
    if marks is None:
        return replace(one, marks=(Mark(0.0, one.seconds, one.label or ""),))
    return replace(one, marks=marks, label=" ".join(mark.label for mark in marks))
