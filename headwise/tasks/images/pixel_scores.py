"""Scores of labels of pixels: accuracy, intersection over union, and which classes are taken for which."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Int64

from headwise.predictors.baselines import Baseline

# pairs of classes, and classes, that are told
_CONFUSED, _SHOWN = 5, 40


def overlaps(
    right: Sequence[int] | Sequence[float],
    predicted: Sequence[int] | Sequence[float],
    gold: Sequence[int] | Sequence[float],
) -> list[float]:
    """Intersection over union of each class over all pixels; NaN of a class that is neither predicted nor gold.

    IoU = right / (predicted + gold - right)

    Source: Everingham et al. 2010, "The Pascal Visual Object Classes Challenge", section 4.3; Long et al. 2015,
    arXiv:1411.4038, section 5.

    >>> overlaps(right=[2, 0, 0], predicted=[4, 0, 1], gold=[4, 0, 0])
    [0.3333333333333333, nan, 0.0]
    """
    unions = [found + wanted - hits for hits, found, wanted in zip(right, predicted, gold, strict=True)]
    return [hits / union if union else math.nan for hits, union in zip(right, unions, strict=True)]


def mean_overlap(
    right: Sequence[int] | Sequence[float],
    predicted: Sequence[int] | Sequence[float],
    gold: Sequence[int] | Sequence[float],
) -> float:
    """The mean of `overlaps` over the classes that are predicted or gold; NaN where there is none.

    >>> mean_overlap(right=[2, 0, 0], predicted=[4, 0, 1], gold=[4, 0, 0])
    0.16666666666666666
    """
    found = [value for value in overlaps(right, predicted, gold) if not math.isnan(value)]
    return math.fsum(found) / len(found) if found else math.nan


def pixel_scores(stats: Mapping[str, float], num_classes: int) -> dict[str, float]:
    """Pixel accuracy and mean IoU of the counts of `counted`; all classes that training lacks are one."""
    right, predicted, gold = (
        [stats.get(f"{name}_{number}", 0.0) for number in range(num_classes + 1)]
        for name in ("right", "predicted", "gold")
    )
    total = sum(gold)
    return {
        "pixel_accuracy": sum(right) / total if total else math.nan,
        "mean_iou": mean_overlap(right, predicted, gold),
    }


def confusion(
    said: Int64[np.ndarray, "pixels"], gold: Int64[np.ndarray, "pixels"], num_classes: int
) -> Int64[np.ndarray, "gold_classes said_classes"]:
    """How many pixels of each class are said to be of each; the last class is that of all that training lacks.

    >>> confusion(np.array([0, 1, 1]), np.array([0, 0, 2]), 2).tolist()
    [[1, 1, 0], [0, 0, 0], [0, 1, 0]]
    """
    side = num_classes + 1
    return np.bincount(gold * side + said, minlength=side * side).reshape(side, side)


def majority_of_pixels(gold: Int64[np.ndarray, "classes"]) -> Baseline:
    """The most frequent class predicted of every pixel, from how many pixels each has.

    >>> majority_of_pixels(np.array([3, 1])).scores
    {'pixel_accuracy': 0.75, 'mean_iou': 0.375}
    """
    said = np.where(np.arange(len(gold)) == gold.argmax(), gold.sum(), 0)
    right = np.minimum(said, gold)
    shared = mean_overlap(right.tolist(), said.tolist(), gold.tolist())
    return Baseline("majority", {"pixel_accuracy": float(right.sum() / gold.sum()), "mean_iou": shared})


def told(counts: Int64[np.ndarray, "gold_classes said_classes"], names: Sequence[str]) -> dict[str, float | str]:
    """Scores of a confusion matrix: accuracy, mean IoU, that of each class with its pixels, the usual confusions.

    Args:
        names: of the classes, and of what training lacks.
    """
    right, gold, said = counts.diagonal(), counts.sum(1), counts.sum(0)
    each = [value.tolist() for value in (right, said, gold)]
    shown = sorted(np.flatnonzero(gold + said).tolist(), key=lambda number: -gold[number])
    by_class = [f"{names[number]} {overlaps(*each)[number]:.4f} ({gold[number]:,})" for number in shown[:_SHOWN]]
    wrong = counts - np.diag(right)
    pairs = [divmod(int(place), len(names)) for place in np.argsort(-wrong, axis=None, kind="stable")[:_CONFUSED]]
    confused = [
        f"{names[true]} for {names[other]} {wrong[true, other]:,} ({wrong[true, other] / gold[true]:.1%})"
        for true, other in pairs
        if wrong[true, other]
    ]
    return {
        "pixel_accuracy": float(right.sum() / counts.sum()),
        "mean_iou": mean_overlap(*each),
        "iou_of_each": ", ".join(by_class) + (", ..." if len(shown) > _SHOWN else ""),
        "confused": ", ".join(confused) or "none",
    }
