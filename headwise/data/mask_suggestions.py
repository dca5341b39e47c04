"""A recipe to begin with for pictures with a label for each pixel, for `headwise init`."""

import math
from collections.abc import Mapping
from typing import Any

from headwise.config import build
from headwise.data.image_sets import measured
from headwise.data.masks import MasksConfig, scan_of
from headwise.data.suggestions import Suggestion

# side of the largest pictures that a small network is made to read
_LARGEST = 96


def suggest_for_masks(data: Mapping[str, Any]) -> Suggestion:
    """A residual network with a way back to pixels for the pictures of these keys of `[data]`.

    Raises: as `suggest_for_pairs`.
    """
    config = build(MasksConfig, data, "data")
    found = measured(config, scan_of(config), _LARGEST)
    # a last map of four places across or more
    stages = max(1, min(4, math.floor(math.log2(min(config.size or found.size))) - 1))
    values = {
        "data": {"train": config.train, **found.keys(), "channels": found.channels, **data},
        "flip": False,
        "model": {"kind": "cnn", "width": 16, "stages": stages, "blocks": 1, "norm": "batch", "dropout": 0.1},
        "training": {
            "learning_rate": 4e-3,
            "weight_decay": 0.01,
            "schedule": "budget",
            "warmup_share": 0.1,
            "batch_sentences": max(4, min(32, found.number // 20)),
            "max_epochs": 10 if found.number > 5000 else 30,
            "monitor": "mean_iou",
        },
    }
    return Suggestion(values, f"Labels of pixels, fitted to the {found.number:,} pictures")
