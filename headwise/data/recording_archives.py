"""Recordings from .npz archives: the samples of all joined in one array, and where each begins."""

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from headwise.data.idx import EACH_BYTES, check_size, parse_npz
from headwise.data.log_mel import frame_count, frame_seconds
from headwise.data.marks import Mark, runs
from headwise.data.recordings import Recording, RecordingsConfig, Scanned, check_length, marked, named
from headwise.errors import DataError

_RATE = "sample_rate"


def scan_archive(path: Path, data: bytes, config: RecordingsConfig, labelled: bool) -> Scanned:
    """The recordings in the bytes of an .npz file, one after another; of one that cannot be read, why.

    Raises:
        DataError: `path: ...`, the arrays do not fit one another.
    """
    marking = config.marking() if labelled else None
    in_time = marking.key if marking is not None else None
    of_all = [*([config.label_key] if labelled and in_time is None else []), *filter(None, [config.group_key])]
    needed = [config.offsets_key, _RATE, *([in_time or config.label_key] if labelled else [])]
    keys = (config.audio_key, *dict.fromkeys([*needed, *of_all]))
    found = parse_npz(data, str(path), keys, "data.audio_key", max_bytes=config.max_bytes)
    if missing := next((key for key in needed if key not in found), None):
        raise DataError(f"{path}: has no array '{missing}'; add it, or say with the keys of data what yours is called")
    audio, offsets = _audio(found[config.audio_key], path), _offsets(found, path, config)
    check_size(len(offsets) * EACH_BYTES, f"{path}: has {len(offsets):,} offsets", config.max_bytes)
    rate = _rate(found[_RATE], path)
    for key in of_all if labelled else []:
        if key in found and (found[key].shape != (len(offsets) - 1,) or found[key].dtype.kind not in "iuU"):
            raise DataError(f"{path}: '{key}' must be a whole number or text for each of {len(offsets) - 1} recordings")
    track = None if in_time is None else _Track(found[in_time], in_time, offsets, rate, path)
    for number, (start, end) in enumerate(itertools.pairwise(offsets)):
        name = f"{path}[{number}]"
        group = str(found[config.group_key][number]) if config.group_key in found and labelled else ""
        try:
            check_length(int(end - start), rate, name, config)
            one = Recording(name, _samples(audio[start:end]), rate, None, group)
            if track is not None:
                one = marked(one, track.marks(number, name, config))
            elif labelled:
                one = replace(one, label=named(str(found[config.label_key][number]), name, config))
                one = one if marking is None else marked(one)
        except DataError as error:
            yield error
        else:
            yield one


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
        """The stretches of a recording."""
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


def _offsets(found: dict[str, np.ndarray], path: Path, config: RecordingsConfig) -> np.ndarray:
    offsets, count = found[config.offsets_key], len(found[config.audio_key])
    if offsets.ndim != 1 or offsets.dtype.kind not in "iu" or len(offsets) < 2:
        raise DataError(f"{path}: offsets must be two or more whole numbers, where recordings begin and end")
    signed = offsets.astype(np.int64)
    if signed[0] < 0 or signed[-1] > count or (wrong := np.flatnonzero(np.diff(signed) <= 0)).size:
        at = f" (recording {int(wrong[0])})" if signed[0] >= 0 and signed[-1] <= count else ""
        raise DataError(f"{path}: offsets must rise from 0 to at most {count:,}, the samples there are{at}; mend them")
    return signed
