"""Recordings from files: lists of sound files (CSV, TSV, JSON lines), .npz archives, single files."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from headwise.data.bad_lines import BadLine
from headwise.data.files import Bytes
from headwise.data.idx import check_size
from headwise.data.marks import Mark, Marking, checked, parse_marks, within
from headwise.data.recording_archives import scan_archive
from headwise.data.recordings import Recording, RecordingsConfig, Scanned, check_length, marked, named
from headwise.data.sound_files import FLAC, parse_sound
from headwise.data.tables import Row, Table, scan_rows
from headwise.errors import DataError

_SOUNDS = (".wav", ".flac", ".mp3", ".ogg")


def scan_recordings(
    path: Path, config: RecordingsConfig, read: Bytes | None = None, *, labelled: bool = True
) -> Scanned:
    """The recordings of a list, an .npz file or a single sound file; of one that cannot be read, the error says why.

    Args:
        config: format, keys, classes and limits; its paths are not read.
        read: collects what was read.
        labelled: whether a recording without a label is a fault.

    Raises:
        DataError: `file: ...`, the file cannot be read any further.
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


def recording_of(data: bytes, name: str, config: RecordingsConfig) -> Recording:
    """The recording in the bytes of a sound file. Raises: DataError, as `parse_sound`, and for one that is too long."""

    def allowed(samples: int, rate: int) -> None:
        check_length(samples, rate, name, config)
        # as they are, with zeros around them, at another rate, and as frames
        _check_bytes(len(data) + 16 * samples, samples, name, config)

    return Recording(name, *parse_sound(data, name, config.channels, allowed))


def _check_bytes(size: int, samples: int, name: str, config: RecordingsConfig) -> None:
    check_size(size, f"{name}: has {samples:,} samples", config.max_bytes)


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
        for row in scan_rows(self.path, how, self._wanted(), optional):
            if isinstance(row, BadLine):
                yield row
                continue
            try:
                yield self._recording(row)
            except DataError as error:
                yield error

    def _wanted(self) -> list[str]:
        label = self.config.label_key if self.marking is None else self.marking.key or self.config.label_key
        return [self.config.path_key, *([label] if self.labelled else [])]

    def _recording(self, row: Row) -> Recording:
        place, cells = f"{self.path}:{row.line}", {str(key): str(cell).strip() for key, cell in row.cells.items()}
        if empty := next((key for key in self._wanted() if not cells[key]), None):
            raise DataError(f"{place}: '{empty}' is empty; fill it or remove the line")
        config = self.config
        whole = self._whole(cells[config.path_key], place)
        start, end = _times(cells, whole, place, config)
        group = cells.get(config.group_key, "") if config.group_key else ""
        check_length(round((end - start) * whole.rate), whole.rate, place, config)
        one = Recording(place, _cut(whole, start, end, place), whole.rate, None, group)
        if self.marking is not None and self.marking.key is not None:
            return marked(one, within(self._marks(cells[self.marking.key], whole, self.marking, place), start, end))
        label = named(cells[config.label_key], place, config) if self.labelled else None
        one = replace(one, label=label)
        return one if self.marking is None else marked(one)

    def _whole(self, name: str, place: str) -> Recording:
        """The recording of a file."""
        if self._file is None or self._file[0] != name:
            file = self.path.parent / name
            try:
                self._file = name, self._heard(file, self.read.read(file, ".recordings", name))
            except DataError as error:
                self._file = name, error
        found = self._file[1]
        if isinstance(found, DataError):
            raise DataError(f"{place}: {found.message}")
        return found

    def _heard(self, file: Path, data: bytes) -> Recording:
        """A file of which parts may be cut: it is as long as memory allows."""
        name, config = str(file), self.config

        def allowed(samples: int, rate: int) -> None:
            _check_bytes(len(data) + 4 * samples, samples, name, config)

        return Recording(name, *parse_sound(data, name, config.channels, allowed))

    def _marks(self, name: str, whole: Recording, marking: Marking, place: str) -> tuple[Mark, ...]:
        """The labels in time of a whole file."""
        file = self.path.parent / name
        try:
            marks = parse_marks(self.read.read(file, ".marks", name), str(file), marking.per_second(whole.rate))
            marks = checked(marks, whole.seconds, str(file))
            return tuple(mark._replace(label=named(mark.label, str(file), self.config)) for mark in marks)
        except DataError as error:
            raise DataError(f"{place}: {error.message}") from None


def _times(cells: dict[str, str], whole: Recording, place: str, config: RecordingsConfig) -> tuple[float, float]:
    """From when to when a row's recording lasts, in seconds of its file."""
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
    return start, end


def _cut(whole: Recording, start: float, end: float, place: str) -> np.ndarray:
    found = whole.samples[round(start * whole.rate) : round(end * whole.rate)]
    if not len(found):
        raise DataError(f"{place}: from {start:g} to {end:g} s is shorter than a sample; correct start and end")
    # a view would keep the whole file in memory
    return found if len(found) == len(whole.samples) else found.copy()
