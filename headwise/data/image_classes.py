"""Images of classes: the parts of a recipe, their classes in order, what is odd, a recipe to begin with."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from headwise.config import build
from headwise.data.corpus import resolve
from headwise.data.image_sets import ImageSet, Loaded, Scan, images_of, load_parts, measured, seen_before
from headwise.data.images import ImagesConfig, scan_images
from headwise.data.pixels import Image
from headwise.data.suggestions import Suggestion
from headwise.predictors.classes import class_names

# classes that a note names
_NAMED = 5


def load_images(config: ImagesConfig) -> Loaded:
    """Reads and splits the labelled images of a recipe, as `load_parts`.

    Raises:
        DataError: as `load_parts`; labels that are not as the recipe names them, or all alike.
    """
    loaded = load_parts(config, _scan(config))
    train, notes = loaded.parts["train"], list(loaded.notes)
    classes = class_names(train.labels, config.classes)
    for part, images in loaded.parts.items():
        notes += _told(part, images, train, classes) if len(images) else []
    return replace(loaded, classes=classes, notes=tuple(notes))


def read_part(config: ImagesConfig, part: str) -> list[Image]:
    """The labelled images of a part that has files of its own, as they are. Raises: DataError, as `load_images`."""
    return list(images_of(config, _scan(config), part))


def suggest_for_images(data: Mapping[str, Any]) -> Suggestion:
    """A residual network for the images of these keys of `[data]`.

    Raises: as `suggest_for_pairs`.
    """
    config = build(ImagesConfig, data, "data")
    found = measured(config, _scan(config))
    # a last map of two places across or more
    stages = max(1, min(3, math.ceil(math.log2(min(config.size or found.size)))))
    values = {
        "data": {"train": config.train, **found.keys(), "channels": found.channels, **data},
        "augmentation": {"shift": 2, "flip": False},
        "model": {"kind": "cnn", "width": 32, "stages": stages, "blocks": 1, "norm": "batch", "dropout": 0.2},
        "training": {
            "learning_rate": 4e-3,
            "weight_decay": 0.05,
            "schedule": "budget",
            "warmup_share": 0.1,
            "batch_sentences": max(16, min(128, found.number // 20)),
            "max_epochs": 10 if found.number > 20_000 else 30,
            "monitor": "accuracy",
        },
    }
    return Suggestion(values, f"Classification, fitted to the {found.number:,} images")


def _paths(config: ImagesConfig, part: str) -> tuple[Path, Path | None]:
    target = getattr(config, f"{part}_target")
    return resolve(getattr(config, part)), None if target is None else resolve(target)


def _scan(config: ImagesConfig) -> Scan:
    return lambda part, read: scan_images(*_paths(config, part), config, read)


def _told(part: str, images: ImageSet, train: ImageSet, classes: list[str]) -> list[str]:
    """What a part is like, and what of it training has or lacks."""
    counts = Counter(images.labels)
    most, least = max(counts.values()), min(counts.values())
    each = f"{most:,}" if most == least else f"{least:,} to {most:,}"
    notes = [f"{part}: {len(images):,} images of {len(counts):,} classes, {each} each"]
    if part == "train":
        return notes
    notes += seen_before(part, images, train)
    others = Counter({label: count for label, count in counts.items() if label not in classes})
    if others:
        named = ", ".join(f"{label} ({count:,})" for label, count in others.most_common(_NAMED))
        more = ", ..." if len(others) > _NAMED else ""
        notes.append(f"{part}: classes that training lacks, so that they cannot be got right: {named}{more}")
    return notes
