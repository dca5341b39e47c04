"""Small data with a rule that can be told in a line, for demos: communities, tastes, tones, marked sentences."""

import math
import random
import struct
import wave
from collections.abc import Sequence
from pathlib import Path

from headwise.data import grammar

COMMUNITIES = ("red", "green", "blue")
# kind of goods -> how many of them there are; a good is called by its kind and a number
TASTES = ("book", "film", "game", "song")
_GOODS = 6
# tone -> hertz at its begin and at its end
TONES = {"low": (300.0, 300.0), "high": (900.0, 900.0), "rising": (300.0, 900.0), "falling": (900.0, 300.0)}
_RATE = 4000
MARK = "today"


def communities(seed: int = 0, size: int = 240) -> tuple[list[tuple[object, ...]], list[tuple[str, str]]]:
    """Nodes (id, label, one number for each community) and edges, most of which join nodes of one community.

    A node's numbers say its community in two of five cases, and any of them otherwise: neighbours know better.

    >>> nodes, edges = communities()
    >>> nodes[0], len(nodes)
    (('id', 'label', 'red', 'green', 'blue'), 241)
    """
    draws = random.Random(f"communities {seed}")
    labels = [draws.choice(COMMUNITIES) for _ in range(size)]
    nodes: list[tuple[object, ...]] = [("id", "label", *COMMUNITIES)]
    for number, label in enumerate(labels):
        said = label if draws.random() < 0.4 else draws.choice(COMMUNITIES)
        nodes.append((f"n{number}", label, *(int(said == one) for one in COMMUNITIES)))
    edges = []
    for number, label in enumerate(labels):
        alike = [other for other in range(size) if labels[other] == label and other != number]
        edges += [(f"n{number}", f"n{draws.choice(alike)}") for _ in range(3)]
        edges.append((f"n{number}", f"n{(number + draws.randrange(1, size)) % size}"))
    return nodes, edges


def clicks(seed: int = 0, sessions: int = 500) -> list[tuple[str, str]]:
    """Rows of session and item: a visitor has a taste, and chooses goods of its kind in nine of ten cases.

    >>> clicks()[0]
    ('session', 'item')
    """
    draws = random.Random(f"clicks {seed}")
    rows = [("session", "item")]
    for session in range(sessions):
        taste = draws.choice(TASTES)
        for _ in range(draws.randint(4, 9)):
            kind = taste if draws.random() < 0.9 else draws.choice(TASTES)
            rows.append((f"s{session}", f"{kind}{draws.randrange(_GOODS)}"))
    return rows


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


def reports(seed: int = 0, count: int = 1500) -> Sequence[tuple[str, str]]:
    """Pairs of a text and its summary: who does what in the one of three sentences that begins with `today`.

    >>> text, summary = reports()[0]
    >>> text.count("today"), text.count("."), len(summary.split())
    (1, 3, 4)
    """
    draws = random.Random(f"reports {seed}")
    rows = []
    for _ in range(count):
        said = [[draws.choice(grammar.KINDS[kind]) for kind in ("animal", "eats", "food")] for _ in range(3)]
        chosen = draws.randrange(3)
        texts = [f"the {' '.join(words)} ." for words in said]
        texts[chosen] = f"{MARK} {texts[chosen]}"
        rows.append((" ".join(texts), f"the {' '.join(said[chosen])}"))
    return rows
