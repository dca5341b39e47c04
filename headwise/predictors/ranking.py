"""Scores of rankings: area under the ROC curve, in one list and within groups, log loss, hit rate; ties count half."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float, Int

Weights = Float[np.ndarray, "rows"]


def weighted_auc(scores: Float[np.ndarray, "rows"], labels: Bool[np.ndarray, "rows"]) -> Callable[[Weights], float]:
    """A function from the weight of each row to the area under the ROC curve; the scores are sorted once.

    The area is the share of (positive, negative) pairs whose positive has the higher score, equal scores counting half;
    a pair weighs the product of its rows' weights. NaN where there is no such pair.

    >>> weighted_auc(np.array([0.1, 0.4, 0.4, 0.8]), np.array([False, False, True, True]))(np.ones(4))
    0.875
    """
    order = np.argsort(scores, kind="stable")
    ranked, positive = scores[order], labels[order]
    starts = np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1]))) if len(ranked) else np.zeros(0, int)

    def area(weights: Weights) -> float:
        placed = weights[order]
        yes = np.add.reduceat(np.where(positive, placed, 0.0), starts) if len(starts) else np.zeros(0)
        no = np.add.reduceat(np.where(positive, 0.0, placed), starts) if len(starts) else np.zeros(0)
        pairs = yes.sum() * no.sum()
        below = np.cumsum(no) - no
        return float((yes * (below + no / 2)).sum() / pairs) if pairs else float("nan")

    return area


def auc(scores: Float[np.ndarray, "rows"], labels: Bool[np.ndarray, "rows"], weights: Weights | None = None) -> float:
    """The area under the ROC curve; NaN where all labels are the same. See `weighted_auc`."""
    return weighted_auc(scores, labels)(np.ones(len(scores)) if weights is None else weights)


def grouped_auc(
    scores: Float[np.ndarray, "rows"], labels: Bool[np.ndarray, "rows"], groups: Int[np.ndarray, "rows"]
) -> float:
    """The mean of the areas within the groups, each weighing its rows; groups without both labels are left out.

    Source: Zhou et al. 2018, arXiv:1706.06978, section 6.3.

    >>> grouped_auc(np.array([1.0, 2.0, 5.0, 4.0]), np.array([False, True, False, True]), np.array([0, 0, 1, 1]))
    0.5
    """
    order = np.argsort(groups, kind="stable")
    found, sizes = [], []
    for rows in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        area = auc(scores[rows], labels[rows])
        if area == area:
            found.append(area)
            sizes.append(len(rows))
    return float(np.average(found, weights=sizes)) if found else float("nan")


def hit_rate(scores: Float[np.ndarray, "choices candidates"], count: int) -> float:
    """The share of choices whose first candidate is among the `count` best; of equal scores any may come first.

    >>> hit_rate(np.array([[3.0, 1.0, 2.0], [1.0, 1.0, 2.0]]), 2)
    0.75
    """
    first = scores[:, :1]
    above, equal = (scores > first).sum(1), (scores == first).sum(1)
    return float(np.clip((count - above) / equal, 0.0, 1.0).mean()) if len(scores) else float("nan")


def log_loss(logits: Float[np.ndarray, "rows"], labels: Bool[np.ndarray, "rows"]) -> float:
    """Mean cross entropy of yes and no, in nats.

    >>> round(log_loss(np.zeros(2), np.array([True, False])), 4)
    0.6931
    """
    return float(np.logaddexp(0.0, np.where(labels, -logits, logits)).mean())
