"""What is in dialogues, images and recordings: what cannot be read, and what the rest is like."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import fsum
from pathlib import Path
from typing import Any, TypeVar

from headwise.data.bad_lines import BadLine, BadLines
from headwise.data.corpus import resolve
from headwise.errors import DataError
from headwise.tasks.images.images import ImagesConfig, scan_images
from headwise.tasks.speech.recordings import RecordingsConfig, scan_recordings
from headwise.tasks.translation.dialogues import DialogueConfig, scan_dialogues

T = TypeVar("T")

# good ones, bad ones, odd ones by kind with their places, facts by name
Found = tuple[int, BadLines, list[tuple[str, int]], dict[str, Any]]
# entries of a table that people are shown
_SHOWN = 10


def dialogues(data: DialogueConfig, part: str) -> Found:
    """Turns and answers of each dialogue; one that comes twice is odd."""
    bad, odd = BadLines(), []
    turns, answers, seen = [], 0, set()
    for one in bad.good(scan_dialogues(resolve(getattr(data, part)), data)):
        turns.append(len(one.turns))
        answers += len(one.answers)
        if (told := tuple(one.turns)) in seen:
            odd.append(("duplicates", one.line))
        seen.add(told)
    facts = {"turns": _spread(turns), "answers": answers} if turns else {}
    return len(turns), bad, odd, facts


def images(data: ImagesConfig, part: str) -> Found:
    """Sizes, channels and classes of images; one of a single colour is odd."""
    bad, odd = BadLines(), []
    shapes: Counter[str] = Counter()
    labels: Counter[str] = Counter()
    target = getattr(data, f"{part}_target", None)
    path = resolve(getattr(data, part))
    scanned = scan_images(path, None if target is None else resolve(target), data)
    for number, one in _good(scanned, bad, path, "images"):
        shapes[str(one.shape)] += 1
        labels[str(one.label)] += 1
        if (one.pixels == one.pixels[0, 0]).all():
            odd.append(("one colour", number))
    return shapes.total(), bad, odd, {"sizes": dict(shapes.most_common()), "classes": dict(labels.most_common())}


def recordings(data: RecordingsConfig, part: str) -> Found:
    """Rates, seconds and labels of recordings; one that is silent throughout is odd."""
    bad, odd = BadLines(), []
    rates: Counter[str] = Counter()
    labels: Counter[str] = Counter()
    seconds: list[float] = []
    path = resolve(getattr(data, part))
    for number, one in _good(scan_recordings(path, data), bad, path, "recordings"):
        rates[str(one.rate)] += 1
        labels[str(one.label)] += 1
        seconds.append(one.seconds)
        if not one.samples.any():
            odd.append(("silent", number))
    facts: dict[str, Any] = {"rates": dict(rates.most_common()), "labels": dict(labels.most_common())}
    if seconds:
        facts["seconds"] = _spread(seconds)
    return len(seconds), bad, odd, facts


def told(facts: dict[str, Any]) -> tuple[str, ...]:
    """The facts as lines for people; of long tables the first entries."""
    lines = []
    for name, value in facts.items():
        if not isinstance(value, dict):
            lines.append(f"{name:<24} {value:,}")
            continue
        lines.append(f"{name:<24} {len(value):,}" if name in ("sizes", "classes", "labels", "rates") else name)
        lines += [f"  {key[:40]:<22} {number:,}" for key, number in list(value.items())[:_SHOWN]]
        lines += [f"  and {len(value) - _SHOWN:,} more"] if len(value) > _SHOWN else []
    return tuple(lines)


def _spread(values: Sequence[int] | Sequence[float]) -> dict[str, int | float]:
    found = {"least": min(values), "mean": fsum(values) / len(values), "greatest": max(values)}
    return {name: round(value, 3) for name, value in found.items()}


def _good(found: Iterable[T | DataError], bad: BadLines, path: Path, kind: str) -> Iterator[tuple[int, T]]:
    """What was read with its number from 1; what could not be is among the bad ones, by its number."""

    def passed() -> Iterator[tuple[int, T] | BadLine]:
        for number, one in enumerate(found, 1):
            yield BadLine(str(path), number, kind, one.message) if isinstance(one, DataError) else (number, one)

    return bad.good(passed())
