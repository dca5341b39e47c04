"""What `headwise demo speech-classify` trains on."""

import math
import random
import struct
import wave
from pathlib import Path

from headwise.tasks.demo import Demo, write_table

# tone -> hertz at its begin and at its end
TONES = {"low": (300.0, 300.0), "high": (900.0, 900.0), "rising": (300.0, 900.0), "falling": (900.0, 300.0)}

_RATE = 4000


def tones(folder: Path, seed: int = 0, count: int = 240) -> list[tuple[str, str]]:
    """Writes WAV files of low, high, rising and falling tones with noise; gives rows of path and label."""
    draws = random.Random(f"tones {seed}")
    rows = [("path", "label")]
    for number in range(count):
        label = draws.choice(list(TONES))
        path = f"{number:03}.wav"
        with wave.open(str(folder / path), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(_RATE)
            samples = _tone(*TONES[label], draws)
            file.writeframes(struct.pack(f"<{len(samples)}h", *samples))
        rows.append((path, label))
    return rows


def _tone(begin: float, end: float, draws: random.Random) -> list[int]:
    """A third of a second or more, a little higher or lower than asked for."""
    length = draws.randrange(_RATE // 3, _RATE * 2 // 3)
    shift, loudness = draws.uniform(0.9, 1.1), draws.uniform(2000, 12000)
    samples, phase = [], 0.0
    for place in range(length):
        phase += 2 * math.pi * shift * (begin + (end - begin) * place / length) / _RATE
        samples.append(round(loudness * math.sin(phase) + draws.uniform(-800, 800)))
    return samples


def _tones(folder: Path) -> None:
    """Recordings of tones, and their list."""
    write_table(folder / "tones.csv", tones(folder))


SPEECH_CLASSIFY = Demo(
    "whether a tone is high, low, rising or falling",
    _tones,
    """[data]
train = "tones.csv"
[frames]
bands = 20
[model]
kind = "conformer"
d_model = 16
d_ff = 32
num_heads = 2
encoder_layers = 1
kernel = 5
dropout = 0.0
[pooling]
kind = "attention"
[training]
learning_rate = 5e-3
warmup_steps = 20
batch_sentences = 16
max_epochs = 10
monitor = "accuracy"
""",
    "FOLDER/000.wav",
)
