"""What recipes read, made from what an address gives; and digests of contents, however they are compressed."""

import gzip
import hashlib
import itertools
import shutil
import wave
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from headwise.data.idx import parse_npz
from headwise.errors import DataError

HEAD_LINES = 100
# of the arrays of an archive: what the catalogue lists takes a hundredth
_MOST_BYTES = 1 << 32


def content_digest(path: Path) -> str:
    """The SHA-256 of a file's content: of gzip what is packed, of `.npz` names, types, shapes and values of arrays.

    Two programs may pack the same content into different bytes.

    Raises: DataError where the file cannot be read.
    """
    try:
        if path.suffix == ".npz":
            return _arrays_digest(path)
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: cannot be read ({error}); fetch it again") from None


def _arrays_digest(path: Path) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(parse_npz(path, str(path), max_bytes=_MOST_BYTES).items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def copied(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)


def packed(source: Path, target: Path) -> None:
    """The file as gzip, the same bytes whenever it is made."""
    with source.open("rb") as lines, target.open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as out:
        shutil.copyfileobj(lines, out)


def head(source: Path, target: Path) -> None:
    with source.open("rb") as lines, target.open("wb") as out:
        out.writelines(itertools.islice(lines, HEAD_LINES))


def two_columns(source: Path, target: Path) -> None:
    """The first two columns of a file of tab-separated ones, as gzip."""
    with source.open("rb") as lines, target.open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as out:
        for line in lines:
            out.write(b"\t".join(line.rstrip(b"\r\n").split(b"\t")[:2]) + b"\n")


def recordings(source: Path, target: Path) -> None:
    """All `{digit}_{speaker}_{take}.wav` below a folder as one archive of arrays, in the order of digit, speaker, take.

    Raises: DataError for a recording that is not mono, 16 bit, of 8 kHz; or none at all.
    """
    takes = sorted((_parse_name(path), path) for path in source.rglob("*.wav"))
    if not takes:
        raise DataError(f"{source}: no recordings in it; expected names such as 7_jackson_32.wav")
    audio = [_samples(path) for _, path in takes]
    speakers = sorted({speaker for (_, speaker, _), _ in takes})
    np.savez_compressed(
        target,
        audio=np.concatenate(audio),
        offsets=np.cumsum([0, *(len(samples) for samples in audio)], dtype=np.int64),
        labels=np.array([digit for (digit, _, _), _ in takes], np.uint8),
        speaker_ids=np.array([speakers.index(speaker) for (_, speaker, _), _ in takes], np.uint8),
        speakers=np.array(speakers),
        take=np.array([take for (_, _, take), _ in takes], np.uint8),
        sample_rate=np.array(8000, np.int64),
    )


def _parse_name(path: Path) -> tuple[int, str, int]:
    parts = path.stem.split("_")
    if len(parts) != 3 or not (parts[0].isdecimal() and parts[2].isdecimal()):
        raise DataError(f"{path}: is not named digit_speaker_take.wav, such as 7_jackson_32.wav")
    return int(parts[0]), parts[1], int(parts[2])


def _samples(path: Path) -> np.ndarray:
    try:
        with wave.open(str(path), "rb") as sound:
            kind = sound.getnchannels(), sound.getsampwidth(), sound.getframerate()
            data = sound.readframes(sound.getnframes())
    except (wave.Error, EOFError) as error:
        raise DataError(f"{path}: is no WAV file, or a damaged one ({error}); fetch it again") from None
    if kind != (1, 2, 8000):
        raise DataError(f"{path}: channels, bytes a sample and rate are {kind}, expected (1, 2, 8000)")
    return np.frombuffer(data, "<i2").astype(np.int16)


FORMS: dict[str, Callable[[Path, Path], None]] = {
    "copied": copied,
    "packed": packed,
    "head": head,
    "two_columns": two_columns,
    "recordings": recordings,
}
