"""Intersection over union against sets of pixels, written out."""

import math

import numpy as np
import pytest
import torch

from headwise.predictors.classes import counted
from headwise.tasks.images.pixel_labeller import confusion, confusion_scores, pixel_scores


def by_sets(said, gold, classes):
    """The mean over classes of |A & B| / |A | B|, over all images at once."""
    found = []
    for number in range(classes):
        one = {tuple(place) for place in np.argwhere((said == number) & (gold >= 0))}
        other = {tuple(place) for place in np.argwhere(gold == number)}
        if one | other:
            found.append(len(one & other) / len(one | other))
    return sum(found) / len(found)


def test_scores_are_those_of_sets_of_pixels():
    draws = np.random.default_rng(0)
    said = draws.integers(0, 3, (5, 7, 11))
    # class 3 is not there at all, class 4 is what training lacks, -1 counts nowhere
    gold = draws.choice([-1, 0, 1, 2, 4], (5, 7, 11))
    stats = {}
    for one, other in zip(said, gold, strict=True):
        for name, value in counted(torch.from_numpy(one), torch.from_numpy(other), 4).items():
            stats[name] = stats.get(name, 0.0) + value
    scores = pixel_scores(stats, 4)
    assert scores["mean_iou"] == pytest.approx(by_sets(said, gold, 5))
    known = gold >= 0
    assert scores["pixel_accuracy"] == pytest.approx((said == gold)[known].mean())
    counts = confusion(said[known], gold[known], 4)
    assert counts.sum() == known.sum()
    found = confusion_scores(counts, ["a", "b", "c", "d", "lacked"])
    assert (found["mean_iou"], found["pixel_accuracy"]) == pytest.approx(
        tuple(scores[n] for n in ("mean_iou", "pixel_accuracy"))
    )
    assert ", d " not in found["iou_of_each"]


def test_nothing_scores_as_no_number():
    assert all(math.isnan(value) for value in pixel_scores({}, 3).values())
