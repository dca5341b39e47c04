"""Labelled recordings from files: lists of WAV files (CSV, TSV, JSON lines) and .npz archives of joined audio."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float32
from pydantic import Field, model_validator

from headwise.config import Config, DataFile
from headwise.data.bad_lines import strict
from headwise.data.idx import parse_npz
from headwise.data.images import Bytes
from headwise.data.tables import Table, scan_rows
from headwise.data.waves import Channels, Sound, parse_wave, resampled
from headwise.errors import DataError

RecordingFormat = Literal["auto", "csv", "tsv", "jsonl", "npz"]

_RATE = "sample_rate"


class RecordingsConfig(Config):
    """Which recordings to read, and what belongs to each."""

    train: DataFile = Field(description="list of WAV files (CSV, TSV, JSON lines), or .npz file of joined audio")
    valid: DataFile | None = Field(None, description="recordings to validate; without them some of train are held out")
    test: DataFile | None = Field(None, description="recordings to test; without them some of train are held out")
    format: RecordingFormat = Field("auto", description="auto (by name, else by content), csv, tsv, jsonl or npz")
    path_key: str = Field("path", description="column of the WAV file's path, as seen from the list")
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


@dataclass(frozen=True)
class Recording:
    """What is heard in one place: samples from -1 to 1, their rate, and what belongs to them.

    Args:
        name: where it comes from, `list.csv:3` or `digits.npz[17]`.
        label: class or text; None if unknown.
        group: what parts go by; empty if there is nothing.
    """

    name: str
    samples: Float32[np.ndarray, "samples"]
    rate: int
    label: str | None = None
    group: str = ""

    @property
    def seconds(self) -> float:
        """How long it is."""
        return len(self.samples) / self.rate


def scan_recordings(
    path: Path, config: RecordingsConfig, read: Bytes | None = None, *, labelled: bool = True
) -> Iterator[Recording]:
    """The recordings of a list, an .npz file or a single WAV file, one after another.

    Args:
        config: format, keys, classes and limits; its paths are not read.
        read: collects what was read.
        labelled: whether a recording without a label is a fault.

    Raises:
        DataError: `file: ...` or `list:line: ...`, the first that cannot be read.
    """
    read = Bytes() if read is None else read
    data = read.read(path)
    if not data:
        raise DataError(f"{path}: is empty (0 bytes); restore it or name another file")
    if config.format == "npz" or (config.format == "auto" and path.suffix.lower() == ".npz"):
        found = _archive(path, data, config, labelled)
    elif config.format == "auto" and (data.startswith(b"RIFF") or path.suffix.lower() in (".wav", ".flac", ".mp3")):
        if labelled:
            raise DataError(f"{path}: is one recording without a label; name a list of recordings or an .npz file")
        found = iter([_heard(path, data, config)])
    else:
        found = _listed(path, config, read, labelled)
    for one in found:
        if one.seconds > config.max_seconds:
            raise DataError(
                f"{one.name}: is {one.seconds:.1f} s long, more than {config.max_seconds:g}; cut it, or set"
                " data.max_seconds"
            )
        yield one


def at_rate(one: Recording, rate: int) -> Recording:
    """The same recording with so many samples a second."""
    return one if one.rate == rate else replace(one, **resampled(Sound(one.samples, one.rate), rate)._asdict())


def _heard(path: Path, data: bytes, config: RecordingsConfig) -> Recording:
    return Recording(str(path), *parse_wave(data, str(path), config.channels))


def _listed(path: Path, config: RecordingsConfig, read: Bytes, labelled: bool) -> Iterator[Recording]:
    wanted = [config.path_key, *([config.label_key] if labelled else [])]
    optional = [config.start_key, config.end_key, *([config.group_key] if config.group_key else [])]
    how = Table(config.format, named_by="data.path_key and data.label_key")
    whole: Recording | None = None
    for row in strict(scan_rows(path, how, wanted, optional)):
        place, cells = f"{path}:{row.line}", {key: str(cell).strip() for key, cell in row.cells.items()}
        if empty := next((key for key in wanted if not cells[key]), None):
            raise DataError(f"{place}: '{empty}' is empty; fill it or remove the line")
        file = path.parent / cells[config.path_key]
        # parts of one file that follow one another need it once
        if whole is None or whole.name != str(file):
            try:
                whole = _heard(file, read.read(file, ".recordings", cells[config.path_key]), config)
            except DataError as error:
                raise DataError(f"{place}: {error.message}") from None
        label = _named(cells[config.label_key], place, config) if labelled else None
        group = cells.get(config.group_key, "") if config.group_key else ""
        yield Recording(place, _cut(whole, cells, place, config), whole.rate, label, group)


def _cut(whole: Recording, cells: dict[str | int, str], place: str, config: RecordingsConfig) -> np.ndarray:
    """The samples from start to end, in seconds, where the row has them."""
    times = []
    for key, default in ((config.start_key, 0.0), (config.end_key, whole.seconds)):
        text = cells.get(key, "")
        try:
            times.append(float(text) if text not in ("", "None") else default)
        except ValueError:
            raise DataError(f"{place}: {key} '{text[:20]}' is no number of seconds; correct it") from None
    start, end = times
    if not 0 <= start < end <= whole.seconds + 0.5 / whole.rate:
        raise DataError(
            f"{place}: from {start:g} to {end:g} s is not within its {whole.seconds:.3f} s; correct start and end"
        )
    found = whole.samples[round(start * whole.rate) : round(end * whole.rate)]
    if not len(found):
        raise DataError(f"{place}: from {start:g} to {end:g} s is shorter than a sample; correct start and end")
    # a view would keep the whole file in memory
    return found if len(found) == len(whole.samples) else found.copy()


def _archive(path: Path, data: bytes, config: RecordingsConfig, labelled: bool) -> Iterator[Recording]:
    keys = [config.audio_key, config.offsets_key, _RATE, config.label_key]
    keys += [] if config.group_key is None else [config.group_key]
    found = parse_npz(data, str(path), tuple(keys), "data.audio_key")
    for key in (config.offsets_key, _RATE, *(keys[3:4] if labelled else [])):
        if key not in found:
            raise DataError(f"{path}: has no array '{key}'; add it, or say with the keys of data what yours is called")
    samples, offsets = _samples(found[config.audio_key], path), _offsets(found, path, config)
    rate = found[_RATE]
    if rate.size != 1 or rate.dtype.kind not in "iu" or not 1000 <= int(rate.item()) <= 384_000:
        raise DataError(f"{path}: sample_rate must be one whole number from 1,000 to 384,000; write it again")
    for key in keys[3:]:
        if (
            labelled
            and key in found
            and (found[key].shape != (len(offsets) - 1,) or found[key].dtype.kind not in "iuU")
        ):
            raise DataError(f"{path}: '{key}' must be a whole number or text for each of {len(offsets) - 1} recordings")
    for number, (start, end) in enumerate(itertools.pairwise(offsets)):
        name = f"{path}[{number}]"
        label = _named(str(found[config.label_key][number]), name, config) if labelled else None
        group = str(found[config.group_key][number]) if config.group_key in found and labelled else ""
        yield Recording(name, samples[start:end], int(rate.item()), label, group)


def _samples(audio: np.ndarray, path: Path) -> Float32[np.ndarray, "samples"]:
    if audio.ndim == 1 and audio.dtype == np.int16:
        return audio.astype(np.float32) / 32768
    if audio.ndim == 1 and audio.dtype.kind == "f" and np.isfinite(audio).all() and np.abs(audio).max(initial=0) <= 1:
        return audio.astype(np.float32)
    raise DataError(
        f"{path}: audio is {audio.dtype} of {audio.ndim} axes; join all samples in one array of int16, or of floats"
        " from -1 to 1"
    )


def _offsets(found: dict[str, np.ndarray], path: Path, config: RecordingsConfig) -> np.ndarray:
    offsets, count = found[config.offsets_key], len(found[config.audio_key])
    if offsets.ndim != 1 or offsets.dtype.kind not in "iu" or len(offsets) < 2:
        raise DataError(f"{path}: offsets must be two or more whole numbers, where recordings begin and end")
    signed = offsets.astype(np.int64)
    if signed[0] < 0 or signed[-1] > count or (wrong := np.flatnonzero(np.diff(signed) <= 0)).size:
        at = f" (recording {int(wrong[0])})" if signed[0] >= 0 and signed[-1] <= count else ""
        raise DataError(f"{path}: offsets must rise from 0 to at most {count:,}, the samples there are{at}; mend them")
    return signed


def _named(label: str, place: str, config: RecordingsConfig) -> str:
    if not config.classes or label in config.classes:
        return label
    if not label.isascii() or not label.isdigit() or int(label) >= len(config.classes):
        raise DataError(f"{place}: label '{label[:40]}', but data.classes names {len(config.classes)}, from 0; name it")
    return config.classes[int(label)]
