"""What the heads of a model do in a few inputs: the statistics of every layer, over all of them."""

from collections.abc import Sequence

import numpy as np
import torch

from headwise.explain.head_statistics import HeadStatistics, looked_at, together
from headwise.predictors.looking import Look
from headwise.records import LayerRecord


def statistics_of(looks: Sequence[Look]) -> dict[str, HeadStatistics]:
    """The statistics of each layer by its name, over all inputs that were looked at."""
    found: dict[str, list[HeadStatistics]] = {}
    for look in looks:
        for name, (_, record) in look.layers.items():
            weights = record.weights()[0].double().cpu().numpy()
            found.setdefault(name, []).append(looked_at(weights, allowed(record)))
    return {name: together(parts) for name, parts in found.items()}


def allowed(record: LayerRecord) -> np.ndarray:
    """How many keys each row may attend to, by mask and bias: (1 or heads, queries), of the first input of a batch."""
    parts = []
    for each in record.calls:
        _, _, rows, keys = each.call.shape
        keep = each.call.keep()
        count = torch.full((1, rows), keys) if keep is None else keep.expand(-1, -1, rows, keys)[0].sum(-1)
        parts.append(count.double().cpu().numpy())
    widest = max(len(part) for part in parts)
    return np.concatenate([np.broadcast_to(part, (widest, part.shape[1])) for part in parts], axis=1)
