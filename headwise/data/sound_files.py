"""Sound files as samples, whatever their format: WAV files are read here, FLAC files by the library soundfile."""

import io
from typing import Any

import numpy as np

from headwise.data.waves import MAX_RATE, Channels, Sound, one_channel, parse_wave
from headwise.errors import ConfigError, DataError

FLAC = b"fLaC"
# of all channels of a file: about nine hours at 16 kHz
MAX_SAMPLES = 1 << 29
_BLOCK = 1 << 16


def parse_sound(data: bytes, name: str, channels: Channels = "mix") -> Sound:
    """The samples of a WAV or FLAC file, which is known by its content; arguments and errors as of `parse_wave`.

    Raises:
        ConfigError: a FLAC file, and soundfile is not installed.
    """
    return _flac(data, name, channels) if data.startswith(FLAC) else parse_wave(data, name, channels)


def _flac(data: bytes, name: str, channels: Channels) -> Sound:
    library = _soundfile()
    try:
        with library.SoundFile(io.BytesIO(data)) as file:
            found, promised, rate = _blocks(file, name), int(file.frames), int(file.samplerate)
    except (DataError, KeyboardInterrupt):
        raise
    except Exception as error:
        # what a decoder raises for damaged bytes may be anything
        what = " ".join(str(error).split())[:100] or type(error).__name__
        raise DataError(f"{name}: is damaged or cut off ({what}); fetch it again or leave it out") from None
    if not len(found):
        raise DataError(f"{name}: has no samples; record it again or leave it out")
    if len(found) != promised or not 0 < rate <= MAX_RATE:
        raise DataError(
            f"{name}: its header says {promised:,} samples at {rate:,} a second, but {len(found):,} follow: it is"
            " truncated or damaged; fetch it again"
        )
    return Sound(one_channel(found, name, channels), rate)


def _blocks(file: Any, name: str) -> np.ndarray:
    """(samples, channels) from -1 to 1, as many as really follow: a header may promise more than memory holds."""
    parts: list[np.ndarray] = []
    left = MAX_SAMPLES // max(1, file.channels)
    while len(part := file.read(_BLOCK, dtype="float32", always_2d=True)):
        parts.append(part)
        left -= len(part)
        if left < 0:
            raise DataError(f"{name}: has more than {MAX_SAMPLES:,} samples; cut it into several files")
    return np.concatenate(parts) if parts else np.zeros((0, 1), np.float32)


def _soundfile() -> Any:
    try:
        import soundfile
    except (ModuleNotFoundError, OSError):
        # the second: the library that it loads is not there
        raise ConfigError("FLAC files need soundfile; install it with: pip install 'headwise[audio]'") from None
    return soundfile
