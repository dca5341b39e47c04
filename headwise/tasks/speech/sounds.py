"""Sound as samples: WAV and FLAC files, read by soundfile, whose headers are distrusted; other rates, by soxr."""

import io
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float32, Shaped

from headwise.errors import ConfigError, DataError

Channels = Literal["mix", "refuse"]

MAX_RATE = 384_000
FLAC = b"fLaC"
# numbers that are decoded at once, so that what is in between takes little memory
_AT_ONCE = 1 << 20
# a file has a few; so many take a second
_MAX_CHUNKS = 1 << 20

# told the samples of a channel and how many are a second
Allowed = Callable[[int, int], None]


class Sound(NamedTuple):
    """Samples from -1 to 1 of one channel, and how many of them are a second."""

    samples: Float32[np.ndarray, "samples"]
    rate: int


def parse_sound(data: bytes, name: str, channels: Channels = "mix", allowed: Allowed | None = None) -> Sound:
    """The samples of a WAV or FLAC file, which is known by its content.

    Args:
        name: of the file, for errors.
        channels: several channels are averaged ("mix") or refused.
        allowed: told the samples of a channel and their rate before any is decoded; raises where they are too many.

    Raises:
        DataError: `name: ...` for other formats, damaged files, headers that do not fit the content, no samples, and as
            `one_channel`.
        ConfigError: soundfile is not installed.
    """
    if not data:
        raise DataError(f"{name}: is empty (0 bytes); restore it or leave it out")
    if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        _check_chunks(data, name)
    elif not data.startswith(FLAC):
        raise DataError(f"{name}: is no WAV or FLAC file; convert it, for example with ffmpeg")
    library = _soundfile()
    try:
        with library.SoundFile(io.BytesIO(data)) as file:
            declared, rate = int(file.frames), int(file.samplerate)
            if allowed is not None and 0 < rate <= MAX_RATE:
                allowed(declared, rate)
            blocks = list(_blocks(file, name, channels, declared))
    except (DataError, KeyboardInterrupt):
        raise
    except Exception as error:
        # what a decoder raises for damaged bytes may be anything
        what = " ".join(str(getattr(error, "error_string", error)).split())[:100] or type(error).__name__
        raise DataError(f"{name}: is damaged or cut off ({what}); fetch it again or leave it out") from None
    samples = np.concatenate(blocks) if blocks else np.zeros(0, np.float32)
    if not len(samples):
        raise DataError(f"{name}: has no samples; record it again or leave it out")
    if len(samples) != declared or not 0 < rate <= MAX_RATE:
        raise DataError(
            f"{name}: its header says {declared:,} samples at {rate:,} a second, but {len(samples):,} follow: it is"
            " truncated or damaged; fetch it again"
        )
    return Sound(samples, rate)


def one_channel(
    samples: Shaped[np.ndarray, "samples channels"], name: str, channels: Channels, first: int = 0
) -> Float32[np.ndarray, "samples"]:
    """Samples of several channels as those of one.

    Args:
        name: of the file, for errors.
        channels: as in `parse_sound`.
        first: the number of the first of these samples in its file.

    Raises:
        DataError: `name: ...` for channels that are refused, and for samples that are no numbers from -1 to 1: how
            loud they were meant to be is not known, and one file changed by itself would differ from the others.
    """
    if samples.shape[1] > 1 and channels == "refuse":
        raise DataError(f'{name}: has {samples.shape[1]} channels; give one, or set data.channels = "mix"')
    if not (peaks := np.abs(samples).max(axis=1) <= 1).all():
        at = int((~peaks).argmax())
        value = samples[at][np.abs(samples[at]).argmax()]
        if not np.isfinite(samples[at]).all():
            raise DataError(f"{name}: sample {first + at:,} is no finite number; write it again")
        raise DataError(
            f"{name}: sample {first + at:,} is {value:g}, and floats go from -1 to 1; divide all recordings by the same"
            " number, or write them as whole numbers of 16 bits"
        )
    mixed: np.ndarray = samples.mean(axis=1, dtype=np.float64).astype(np.float32)
    return mixed


def resampled(sound: Sound, rate: int) -> Sound:
    """The same sound at another rate; what the lower rate cannot hold is left out. Raises: ConfigError without soxr.

    >>> resampled(Sound(np.ones(400, np.float32), 16000), 8000).samples.shape
    (200,)
    """
    if sound.rate == rate:
        return sound
    try:
        import soxr
    except ImportError:
        raise ConfigError(_install("other rates", "soxr")) from None
    samples = soxr.resample(sound.samples, sound.rate, rate, quality="VHQ")
    # less than one sample at the new rate is one
    return Sound(samples if len(samples) else sound.samples[:1], rate)


def _check_chunks(data: bytes, name: str) -> None:
    """Refuses a WAV file whose chunks are longer than what follows: libsndfile reads what there is in silence."""
    place = 12
    for _ in range(_MAX_CHUNKS):
        kind, size = data[place : place + 4], int.from_bytes(data[place + 4 : place + 8], "little")
        # zeros may fill a file up
        if not kind.strip(b"\0") and not data[place:].strip(b"\0"):
            return
        place += 8 + size
        if place > len(data):
            raise DataError(
                f"{name}: its header says {size:,} bytes of {kind!r}, but only {max(0, len(data) - place + size):,}"
                " follow: it is truncated, damaged, or was never finished; fetch it again"
            )
        # chunks begin at even places, though some writers leave out the byte that makes a size even
        place += size % 2 and data[place : place + 1] == b"\0"
    raise DataError(f"{name}: more than {_MAX_CHUNKS:,} chunks; write it again")


def _blocks(file: Any, name: str, channels: Channels, declared: int) -> Iterator[np.ndarray]:
    """Samples of one channel, as many as really follow and no more than declared."""
    count, size = 0, max(1, _AT_ONCE // file.channels)
    while count < declared and len(block := file.read(size, dtype="float32", always_2d=True)):
        yield one_channel(block, name, channels, count)
        count += len(block)


def _soundfile() -> Any:
    try:
        import soundfile
    except (ImportError, OSError):
        # the second: the library that it loads is not there
        raise ConfigError(_install("sound files", "soundfile")) from None
    return soundfile


def _install(what: str, library: str) -> str:
    return f"{what} need {library}; install it with: pip install 'headwise[audio]'"
