"""Sounds for tests: WAV files made by hand, and lists of tones, high and low."""

import io
import struct
from pathlib import Path

import numpy as np

RATE = 1600
TONES = {"low": 200.0, "high": 600.0}


def wave(samples, rate=RATE, *, bits=16, code=1, channels=1, extensible=False):
    """A WAV file of these samples from -1 to 1, those of several channels beside one another."""
    samples = np.asarray(samples, np.float64)
    if code == 3:
        body = samples.astype(f"<f{bits // 8}").tobytes()
    elif bits == 8:
        body = np.rint(samples * 128 + 128).clip(0, 255).astype(np.uint8).tobytes()
    else:
        whole = np.rint(samples * 2.0 ** (bits - 1)).clip(-(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1).astype("<i8")
        body = whole[:, None].view(np.uint8).reshape(-1, 8)[:, : bits // 8].tobytes()
    block = channels * bits // 8
    form = struct.pack("<HHIIHH", 0xFFFE if extensible else code, channels, rate, rate * block, block, bits)
    if extensible:
        form += struct.pack("<HHIH", 22, bits, 0, code) + bytes.fromhex("000000001000800000aa00389b71")
    # a chunk of odd size, which players write, before the samples
    chunks = b"".join(
        struct.pack("<4sI", kind, len(content)) + content + b"\0" * (len(content) % 2)
        for kind, content in ((b"fmt ", form), (b"LIST", b"odd"), (b"data", body))
    )
    return struct.pack("<4sI4s", b"RIFF", 4 + len(chunks), b"WAVE") + chunks


def tone(hertz, seconds, rate=RATE, seed=0):
    """A sine with a little noise."""
    times = np.arange(round(seconds * rate)) / rate
    noise = 0.01 * np.random.default_rng(seed).standard_normal(len(times))
    return 0.5 * np.sin(2 * np.pi * hertz * times) + noise


def tones(count):
    """Samples and names of so many tones, low and high, of different length."""
    names = [list(TONES)[number % 2] for number in range(count)]
    return [tone(TONES[name], 0.1 + 0.03 * (number % 4), seed=number) for number, name in enumerate(names)], names


def listed(folder: Path, count: int, silence: float = 0.0) -> None:
    """`list.csv` and its WAV files, each with so many seconds of silence at its end."""
    samples, names = tones(count)
    lines = ["path,label,take"]
    for number, (sound, name) in enumerate(zip(samples, names, strict=True)):
        (folder / f"{number}.wav").write_bytes(wave(np.pad(sound, (0, round(silence * RATE)))))
        lines.append(f"{number}.wav,{name},{number % 5}")
    (folder / "list.csv").write_text("\n".join(lines) + "\n")


def archive(count=8, **others):
    """An .npz file of joined tones."""
    samples, names = tones(count)
    arrays = {
        "audio": np.rint(np.concatenate(samples) * 32767).astype(np.int16),
        "offsets": np.cumsum([0, *map(len, samples)]),
        "label": np.array(names),
        "take": np.arange(count) % 3,
        "sample_rate": np.array(RATE),
    }
    stream = io.BytesIO()
    np.savez(stream, **{key: value for key, value in (arrays | others).items() if value is not None})
    return stream.getvalue()


def timed(folder: Path, count: int) -> None:
    """`timed.csv`: recordings of two tones one after another, low first in every second, and a label file for each."""
    lines = ["path,marks"]
    for number in range(count):
        names = list(TONES) if number % 2 else list(TONES)[::-1]
        seconds = [0.06 + 0.01 * (number % 4), 0.05 + 0.02 * (number % 3)]
        parts = [tone(TONES[name], length, seed=number) for name, length in zip(names, seconds, strict=True)]
        (folder / f"two{number}.wav").write_bytes(wave(np.concatenate(parts)))
        times = [0.0, seconds[0], sum(seconds)]
        rows = (f"{times[at]:.4f}\t{times[at + 1]:.4f}\t{name}\n" for at, name in enumerate(names))
        (folder / f"two{number}.txt").write_text("".join(rows))
        lines.append(f"two{number}.wav,two{number}.txt")
    (folder / "timed.csv").write_text("\n".join(lines) + "\n")
