"""Recordings: the keys of a recipe, lists of sound files, archives of samples, what is read of each."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float32
from pydantic import Field, model_validator

from headwise.config import Config, DataFile
from headwise.data.bad_lines import BadLine, BadRule, caught
from headwise.data.files import Bytes
from headwise.data.idx import EACH_BYTES, MAX_BYTES, check_size, parse_npz
from headwise.data.tables import Row, Table, scan_rows
from headwise.errors import DataError
from headwise.tasks.speech.log_mel import frame_count, frame_seconds
from headwise.tasks.speech.marks import Mark, Marking, check_marks, parse_marks, runs, within
from headwise.tasks.speech.sounds import FLAC, Channels, Sound, parse_sound, resampled

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
        return len(self.samples) / self.rate

    @property
    def frames(self) -> int:
        """How many frames of 10 ms it has."""
        return frame_count(len(self.samples), self.rate)


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


def at_rate(recording: Recording, rate: int) -> Recording:
    """The same recording with so many samples a second."""
    return replace(recording, **resampled(Sound(recording.samples, recording.rate), rate)._asdict())


def named(label: str, place: str, config: RecordingsConfig) -> str:
    """The class that a label means. Raises: DataError `place: ...` for a number that is none of the classes."""
    if not config.classes or label in config.classes:
        return label
    # as many digits as the classes have at most: Python reads no number of some thousands
    number = label.lstrip("0") or label[:1]
    if not label.isascii() or not label.isdigit() or len(number) > 9 or int(number) >= len(config.classes):
        raise DataError(f"{place}: label '{label[:40]}', but data.classes names {len(config.classes)}, from 0; name it")
    return config.classes[int(number)]


def marked(recording: Recording, marks: tuple[Mark, ...] | None = None) -> Recording:
    """The recording with labels in time; without any, its own label is that of all of it."""
    if marks is None:
        return replace(recording, marks=(Mark(0.0, recording.seconds, recording.label or ""),))
    return replace(recording, marks=marks, label=" ".join(mark.label for mark in marks))


_RATE = "sample_rate"


def scan_archive(path: Path, data: bytes, config: RecordingsConfig, labelled: bool) -> Scanned:
    """The recordings in the bytes of an .npz file, one after another; of one that cannot be read, why.

    Raises: DataError: `path: ...`, the arrays do not fit one another.
    """
    marking = config.marking() if labelled else None
    in_time = marking.key if marking is not None else None
    of_all = [*([config.label_key] if labelled and in_time is None else []), *filter(None, [config.group_key])]
    needed = [config.offsets_key, _RATE, *([in_time or config.label_key] if labelled else [])]
    keys = (config.audio_key, *dict.fromkeys([*needed, *of_all]))
    arrays = parse_npz(data, str(path), keys, "data.audio_key", max_bytes=config.max_bytes)
    if missing := next((key for key in needed if key not in arrays), None):
        raise DataError(f"{path}: has no array '{missing}'; add it, or say with the keys of data what yours is called")
    audio, offsets = _audio(arrays[config.audio_key], path), _offsets(arrays, path, config)
    check_size(len(offsets) * EACH_BYTES, f"{path}: has {len(offsets):,} offsets", config.max_bytes)
    rate = _rate(arrays[_RATE], path)
    for key in of_all if labelled else []:
        if key in arrays and (arrays[key].shape != (len(offsets) - 1,) or arrays[key].dtype.kind not in "iuU"):
            raise DataError(f"{path}: '{key}' must be a whole number or text for each of {len(offsets) - 1} recordings")
    track = None if in_time is None else _Track(arrays[in_time], in_time, offsets, rate, path)

    def recording(number: int) -> Recording:
        name, (start, end) = f"{path}[{number}]", offsets[number : number + 2]
        group = str(arrays[config.group_key][number]) if config.group_key in arrays and labelled else ""
        check_length(int(end - start), rate, name, config)
        unlabelled = Recording(name, _samples(audio[start:end]), rate, None, group)
        if track is not None:
            return marked(unlabelled, track.marks(number, name, config))
        if not labelled:
            return unlabelled
        whole = replace(unlabelled, label=named(str(arrays[config.label_key][number]), name, config))
        return whole if marking is None else marked(whole)

    yield from (caught(recording, number) for number in range(len(offsets) - 1))


class _Track:
    """An array of a label for each sample, or for each frame of 10 ms, of all recordings one after another."""

    def __init__(self, labels: np.ndarray, key: str, offsets: np.ndarray, rate: int, path: Path):
        frames = np.cumsum([0, *(frame_count(int(count), rate) for count in np.diff(offsets))])
        sizes = {int(offsets[-1]): (offsets, 1 / rate), int(frames[-1]): (frames, frame_seconds(rate))}
        if labels.shape[:1] not in {(size,) for size in sizes} or labels.ndim != 1 or labels.dtype.kind not in "iuU":
            raise DataError(
                f"{path}: '{key}' is {labels.dtype} of shape {labels.shape}; give a whole number or text for each of"
                f" the {int(offsets[-1]):,} samples, or of the {int(frames[-1]):,} frames of 10 ms"
            )
        self.labels = labels
        self.bounds, self.seconds = sizes[len(labels)]

    def marks(self, number: int, name: str, config: RecordingsConfig) -> tuple[Mark, ...]:
        own = self.labels[self.bounds[number] : self.bounds[number + 1]]
        texts = {value: named(str(value), name, config) if str(value) else "" for value in np.unique(own).tolist()}
        return runs([texts[value] for value in own.tolist()], self.seconds)


def _rate(rate: np.ndarray, path: Path) -> int:
    if rate.size != 1 or rate.dtype.kind not in "iu" or not 1000 <= int(rate.item()) <= 384_000:
        raise DataError(f"{path}: sample_rate must be one whole number from 1,000 to 384,000; write it again")
    return int(rate.item())


def _audio(audio: np.ndarray, path: Path) -> np.ndarray:
    """The samples as they are stored, checked."""
    if audio.ndim == 1 and audio.dtype == np.int16:
        return audio
    # NaN is no bound of anything
    if audio.ndim == 1 and audio.dtype.kind == "f" and -1 <= audio.min(initial=0) <= audio.max(initial=0) <= 1:
        return audio
    raise DataError(
        f"{path}: audio is {audio.dtype} of {audio.ndim} axes; join all samples in one array of int16, or of floats"
        " from -1 to 1"
    )


def _samples(audio: np.ndarray) -> Float32[np.ndarray, "samples"]:
    return audio.astype(np.float32) / 32768 if audio.dtype == np.int16 else audio.astype(np.float32)


def _offsets(arrays: dict[str, np.ndarray], path: Path, config: RecordingsConfig) -> np.ndarray:
    offsets, count = arrays[config.offsets_key], len(arrays[config.audio_key])
    if offsets.ndim != 1 or offsets.dtype.kind not in "iu" or len(offsets) < 2:
        raise DataError(f"{path}: offsets must be two or more whole numbers, where recordings begin and end")
    signed = offsets.astype(np.int64)
    if signed[0] < 0 or signed[-1] > count or (wrong := np.flatnonzero(np.diff(signed) <= 0)).size:
        at = f" (recording {int(wrong[0])})" if signed[0] >= 0 and signed[-1] <= count else ""
        raise DataError(f"{path}: offsets must rise from 0 to at most {count:,}, the samples there are{at}; mend them")
    return signed


_SOUNDS = (".wav", ".flac", ".mp3", ".ogg")


def scan_recordings(
    path: Path, config: RecordingsConfig, read: Bytes | None = None, *, labelled: bool = True
) -> Scanned:
    """The recordings of a list, an .npz file or a single sound file; of one that cannot be read, the error says why.

    Args:
        config: format, keys, classes and limits; its paths are not read.
        read: collects what was read.
        labelled: whether a recording without a label is a fault.

    Raises: DataError: `file: ...`, the file cannot be read any further.
    """
    read = Bytes(config.max_bytes) if read is None else read
    data = read.read(path)
    if not data:
        raise DataError(f"{path}: is empty (0 bytes); restore it or name another file")
    if config.format == "npz" or (config.format == "auto" and path.suffix.lower() == ".npz"):
        yield from scan_archive(path, data, config, labelled)
    elif config.format == "auto" and (data.startswith((b"RIFF", FLAC)) or path.suffix.lower() in _SOUNDS):
        if labelled:
            raise DataError(f"{path}: is one recording without a label; name a list of recordings or an .npz file")
        yield recording_of(data, str(path), config)
    else:
        yield from _Listed(path, config, read, labelled).scanned()


def recording_of(data: bytes, name: str, config: RecordingsConfig, *, whole: bool = True) -> Recording:
    """The recording in the bytes of a sound file, heard as a whole or cut. Raises: DataError as `parse_sound`.

    One that is heard as a whole may be too long too.
    """

    def allowed(samples: int, rate: int) -> None:
        if whole:
            check_length(samples, rate, name, config)
        # as they are; of a whole one with zeros around them, at another rate, and as frames too
        check_size(len(data) + (16 if whole else 4) * samples, f"{name}: has {samples:,} samples", config.max_bytes)

    return Recording(name, *parse_sound(data, name, config.channels, allowed))


class _Listed:
    """The rows of a list; the sound file of the row before is kept, since parts of one file follow one another."""

    def __init__(self, path: Path, config: RecordingsConfig, read: Bytes, labelled: bool):
        self.path, self.config, self.read, self.labelled = path, config, read, labelled
        self.marking = config.marking() if labelled else None
        self._file: tuple[str, Recording | DataError] | None = None

    def scanned(self) -> Scanned:
        config = self.config
        optional = [config.start_key, config.end_key, *([config.group_key] if config.group_key else [])]
        keys = "data.path_key and data.label_key" + (", or data.marks_key" if self.marking is not None else "")
        how = Table(config.format, named_by=keys)
        for row in scan_rows(self.path, how, self._required_keys(), optional):
            yield row if isinstance(row, BadLine) else caught(self._recording, row)

    def _required_keys(self) -> list[str]:
        label = self.config.label_key if self.marking is None else self.marking.key or self.config.label_key
        return [self.config.path_key, *([label] if self.labelled else [])]

    def _recording(self, row: Row) -> Recording:
        place, cells = f"{self.path}:{row.line}", {str(key): str(cell).strip() for key, cell in row.cells.items()}
        if empty := next((key for key in self._required_keys() if not cells[key]), None):
            raise DataError(f"{place}: '{empty}' is empty; fill it or remove the line")
        config = self.config
        source = self._source(cells[config.path_key], place)
        start, end = _times(cells, source, place, config)
        group = cells.get(config.group_key, "") if config.group_key else ""
        check_length(round((end - start) * source.rate), source.rate, place, config)
        recording = Recording(place, _cut(source, start, end, place), source.rate, None, group)
        if self.marking is not None and self.marking.key is not None:
            return marked(
                recording, within(self._marks(cells[self.marking.key], source, self.marking, place), start, end)
            )
        label = named(cells[config.label_key], place, config) if self.labelled else None
        recording = replace(recording, label=label)
        return recording if self.marking is None else marked(recording)

    def _source(self, name: str, place: str) -> Recording:
        if self._file is None or self._file[0] != name:
            self._file = name, caught(self._heard, name)
        recording = self._file[1]
        if isinstance(recording, DataError):
            raise DataError(f"{place}: {recording.message}")
        return recording

    def _heard(self, name: str) -> Recording:
        """A file of which parts may be cut: it is as long as memory allows."""
        file = self.path.parent / name
        return recording_of(self.read.read(file, ".recordings", name), str(file), self.config, whole=False)

    def _marks(self, name: str, source: Recording, marking: Marking, place: str) -> tuple[Mark, ...]:
        file = self.path.parent / name
        try:
            marks = parse_marks(self.read.read(file, ".marks", name), str(file), marking.per_second(source.rate))
            marks = check_marks(marks, source.seconds, str(file))
            return tuple(mark._replace(label=named(mark.label, str(file), self.config)) for mark in marks)
        except DataError as error:
            raise DataError(f"{place}: {error.message}") from None


def _times(cells: dict[str, str], source: Recording, place: str, config: RecordingsConfig) -> tuple[float, float]:
    """From when to when a row's recording lasts, in seconds of its file."""
    times = []
    for key, default in ((config.start_key, 0.0), (config.end_key, source.seconds)):
        text = cells.get(key, "")
        try:
            times.append(float(text) if text not in ("", "None") else default)
        except ValueError:
            raise DataError(f"{place}: {key} '{text[:20]}' is no number of seconds; correct it") from None
    start, end = times
    if not 0 <= start < end <= source.seconds + 0.5 / source.rate:
        raise DataError(
            f"{place}: from {start:g} to {end:g} s is not within its {source.seconds:.3f} s; correct start and end"
        )
    return start, end


def _cut(source: Recording, start: float, end: float, place: str) -> np.ndarray:
    samples = source.samples[round(start * source.rate) : round(end * source.rate)]
    if not len(samples):
        raise DataError(f"{place}: from {start:g} to {end:g} s is shorter than a sample; correct start and end")
    # a view would keep the whole file in memory
    return samples if len(samples) == len(source.samples) else samples.copy()
