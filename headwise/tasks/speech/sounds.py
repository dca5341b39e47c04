"""Sound as samples: WAV files, whose headers are distrusted, FLAC by soundfile; changes of the sampling rate."""

import io
import math
import struct
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float32, Shaped
from torch.nn import functional as F

from headwise.errors import ConfigError, DataError

Channels = Literal["mix", "refuse"]

MAX_RATE = 384_000
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_OTHERS = {b"OggS": "an Ogg file", b"ID3": "an MP3 file", b"\xff\xfb": "an MP3 file"}
_OTHERS |= {b"FORM": "an AIFF file", b"RIFX": "a WAV file of big-endian numbers", b"RF64": "a WAV file of 64 bits"}
# zero crossings of the windowed sinc on each side, and the part of the lower rate's band that passes
_CROSSINGS, _ROLLOFF = 16, 0.95
# numbers that are converted or filtered at once, so that what is in between takes little memory
_AT_ONCE = 1 << 20
# a file has a few; so many take a second
_MOST_CHUNKS = 1 << 20

# told the samples of a channel and how many are a second
Allowed = Callable[[int, int], None]


class Sound(NamedTuple):
    """Samples from -1 to 1 of one channel, and how many of them are a second."""

    samples: Float32[np.ndarray, "samples"]
    rate: int


class _Format(NamedTuple):
    code: int
    channels: int
    rate: int
    bits: int


def parse_wave(data: bytes, name: str, channels: Channels = "mix", allowed: Allowed | None = None) -> Sound:
    """The samples of a WAV file: PCM of 8, 16, 24 or 32 bits, or floats of 32 or 64.

    Args:
        name: of the file, for errors.
        channels: several channels are averaged ("mix") or refused.
        allowed: told the samples of a channel and their rate before any is converted; raises where they are too many.

    Raises:
        DataError: `name: ...` for other formats, headers that do not fit the content, no samples, and as
            `one_channel`.

    >>> body = struct.pack("<4sI4s4sIHHIIHH4sI2h", b"RIFF", 40, b"WAVE", b"fmt ", 16, 1, 1, 8000, 16000, 2, 16,
    ...                    b"data", 4, 16384, -32768)
    >>> parse_wave(body, "example").samples.tolist()
    [0.5, -1.0]
    """
    form, body = _chunks(data, name)
    size = form.channels * form.bits // 8
    if not body:
        raise DataError(f"{name}: has no samples; record it again or leave it out")
    if len(body) % size:
        raise DataError(f"{name}: its {len(body):,} bytes of samples are no multiple of {size}; write it again")
    count, step = len(body) // size, max(1, _AT_ONCE // form.channels)
    if allowed is not None:
        allowed(count, form.rate)
    samples = np.empty(count, np.float32)
    for at in range(0, count, step):
        part = _numbers(body[at * size : (at + step) * size], form).reshape(-1, form.channels)
        samples[at : at + step] = one_channel(part, name, channels, at)
    return Sound(samples, form.rate)


def one_channel(
    samples: Shaped[np.ndarray, "samples channels"], name: str, channels: Channels, first: int = 0
) -> Float32[np.ndarray, "samples"]:
    """Samples of several channels as those of one.

    Args:
        name: of the file, for errors.
        channels: as in `parse_wave`.
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
    """The same sound at another rate, by a sinc of 16 zero crossings a side under a Hann window.

    What lies above 95 % of half the lower rate is left out, so that nothing is folded back.

    Source: Smith 2002, "Digital Audio Resampling Home Page", section "Theory of ideal bandlimited interpolation".

    >>> resampled(Sound(np.ones(400, np.float32), 16000), 8000).samples.shape
    (200,)
    """
    if sound.rate == rate:
        return sound
    common = math.gcd(sound.rate, rate)
    old, new = sound.rate // common, rate // common
    cutoff = min(old, new) * _ROLLOFF
    width = math.ceil(_CROSSINGS * old / cutoff)
    length = math.ceil(new * len(sound.samples) / old)
    taps = torch.arange(-width, width + 2, dtype=torch.float64)
    framed = F.pad(torch.from_numpy(sound.samples), (width, width + 1)).unfold(0, len(taps), 1)
    made, step = torch.empty(length, dtype=torch.float32), max(1, _AT_ONCE // len(taps))
    # one filter for each of the `new` places that new samples take between two old ones, as far as they occur
    for some in (torch.arange(min(new, length)) * old).split(step):
        times = (taps - (some % new).double()[:, None] / new) * (cutoff / old)
        hann = torch.cos(times.clamp(-_CROSSINGS, _CROSSINGS) * math.pi / _CROSSINGS / 2) ** 2
        filters = torch.sinc(times) * hann * (cutoff / old)
        for place, begin, kernel in zip((some // old).tolist(), (some // new).tolist(), filters, strict=True):
            to = made[place::new]
            for at in range(0, len(to), step):
                rows = slice(begin + at * old, begin + (at + step) * old, old)
                to[at : at + step] = framed[rows][: len(to) - at].double() @ kernel
    return Sound(made.numpy(), rate)


def _chunks(data: bytes, name: str) -> tuple[_Format, memoryview]:
    """The format and the bytes of the samples."""
    if not data:
        raise DataError(f"{name}: is empty (0 bytes); restore it or leave it out")
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        what = next((told for magic, told in _OTHERS.items() if data.startswith(magic)), "no WAV file")
        raise DataError(f"{name}: is {what}; convert it to WAV or FLAC, for example with ffmpeg")
    form, place, count = None, 12, 0
    while place + 8 <= len(data) and (count := count + 1) <= _MOST_CHUNKS:
        kind, size = struct.unpack_from("<4sI", data, place)
        found = memoryview(data)[place + 8 : place + 8 + size]
        if kind in (b"fmt ", b"data") and len(found) < size:
            raise DataError(
                f"{name}: its header says {size:,} bytes of {kind.decode().strip()}, but only {len(found):,} follow: it"
                " is truncated; fetch it again"
            )
        if kind == b"fmt ":
            form = _format(found, name)
        elif kind == b"data":
            if form is None:
                break
            rest = data[place + 8 + size :]
            # some writers leave out the byte that makes a size even
            if not (_are_chunks(rest) or _are_chunks(rest[size % 2 :])):
                raise DataError(
                    f"{name}: its header says {size:,} bytes of data, but {len(rest):,} follow them that are no other"
                    " chunk: it is damaged, or was never finished; write it again"
                )
            return form, found
        # chunks begin at even places
        place += 8 + size + size % 2
    if count > _MOST_CHUNKS:
        raise DataError(f"{name}: more than {_MOST_CHUNKS:,} chunks come before its samples; write it again")
    missing = "format" if form is None else "samples"
    raise DataError(f"{name}: ends before its {missing}: it is truncated or damaged; fetch it again")


def _are_chunks(rest: bytes) -> bool:
    """Whether bytes are chunks with their sizes; what fills a file up is zeros."""
    # looked for once: there may be a million chunks
    place, end, count = 0, len(rest.rstrip(b"\0")), 0
    while place + 8 <= len(rest) and place < end and (count := count + 1) <= _MOST_CHUNKS:
        (size,) = struct.unpack_from("<I", rest, place + 4)
        place += 8 + size
        if place > len(rest):
            return False
        place += size % 2
    return place >= end


def _format(found: memoryview, name: str) -> _Format:
    if len(found) < 16:
        raise DataError(f"{name}: its format has {len(found)} bytes, not 16 or more: it is damaged; write it again")
    code, channels, rate, _, block, bits = struct.unpack_from("<HHIIHH", found)
    if code == _EXTENSIBLE and len(found) >= 26:
        (code,) = struct.unpack_from("<H", found, 24)
    if (code, bits) not in {(_PCM, 8), (_PCM, 16), (_PCM, 24), (_PCM, 32), (_FLOAT, 32), (_FLOAT, 64)}:
        raise DataError(
            f"{name}: holds samples of {bits} bits in format {code}; write PCM of 8, 16, 24 or 32 bits, or floats"
        )
    if not channels or not 0 < rate <= MAX_RATE or block != channels * bits // 8:
        raise DataError(
            f"{name}: its header says {channels} channels, {rate:,} samples a second and {block} bytes a sample: it is"
            " damaged; write it again"
        )
    return _Format(code, channels, rate, bits)


def _numbers(body: memoryview, form: _Format) -> np.ndarray:
    """All samples from -1 to 1."""
    if form.code == _FLOAT:
        return np.frombuffer(body, f"<f{form.bits // 8}")
    if form.bits == 8:
        return (np.frombuffer(body, np.uint8) - 128.0) / 128
    if form.bits == 24:
        # the three bytes become the upper ones of four
        wide = np.zeros((len(body) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(body, np.uint8).reshape(-1, 3)
        return wide.view("<i4")[:, 0] / 2.0**31
    return np.frombuffer(body, f"<i{form.bits // 8}") / 2.0 ** (form.bits - 1)


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
