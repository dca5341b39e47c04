"""Sound files as samples, whatever their format: WAV files are read here, FLAC files by the library soundfile."""

import io
from collections.abc import Iterator
from typing import Any

import numpy as np

from headwise.data.waves import MAX_RATE, Allowed, Channels, Sound, one_channel, parse_wave
from headwise.errors import ConfigError, DataError

FLAC = b"fLaC"
_BLOCK = 1 << 16


def parse_sound(data: bytes, name: str, channels: Channels = "mix", allowed: Allowed | None = None) -> Sound:
    """The samples of a WAV or FLAC file, which is known by its content; arguments and errors as of `parse_wave`.

    Raises:
        ConfigError: a FLAC file, and soundfile is not installed.
    """
    return (_flac if data.startswith(FLAC) else parse_wave)(data, name, channels, allowed)


def _flac(data: bytes, name: str, channels: Channels, allowed: Allowed | None) -> Sound:
    library = _soundfile()
    try:
        with library.SoundFile(io.BytesIO(data)) as file:
            promised, rate = int(file.frames), int(file.samplerate)
            if allowed is not None and 0 < rate <= MAX_RATE:
                allowed(promised, rate)
            parts = list(_blocks(file, name, channels, promised))
    except (DataError, KeyboardInterrupt):
        raise
    except Exception as error:
        # what a decoder raises for damaged bytes may be anything
        what = " ".join(str(error).split())[:100] or type(error).__name__
        raise DataError(f"{name}: is damaged or cut off ({what}); fetch it again or leave it out") from None
    found = np.concatenate(parts) if parts else np.zeros(0, np.float32)
    if not len(found):
        raise DataError(f"{name}: has no samples; record it again or leave it out")
    if len(found) != promised or not 0 < rate <= MAX_RATE:
        raise DataError(
            f"{name}: its header says {promised:,} samples at {rate:,} a second, but {len(found):,} follow: it is"
            " truncated or damaged; fetch it again"
        )
    return Sound(found, rate)


def _blocks(file: Any, name: str, channels: Channels, promised: int) -> Iterator[np.ndarray]:
    """Samples of one channel, as many as really follow and no more than promised."""
    count = 0
    while count < promised and len(part := file.read(_BLOCK, dtype="float32", always_2d=True)):
        yield one_channel(part, name, channels, count)
        count += len(part)


def _soundfile() -> Any:
    try:
        import soundfile
    except (ModuleNotFoundError, OSError):
        # the second: the library that it loads is not there
        raise ConfigError("FLAC files need soundfile; install it with: pip install 'headwise[audio]'") from None
    return soundfile
