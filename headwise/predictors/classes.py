"""How often each class is right, predicted and gold: counts that add up over batches, and scores of them."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from headwise import metrics
from headwise.data.batches import NO_TAG
from headwise.errors import DataError
from headwise.predictors.rows import Formula, Rows, Scored, question_of

_SHOWN = 40
_CONFUSED = 5


def counted(predicted: Tensor, gold: Tensor, num_classes: int) -> dict[str, float]:
    """How often each class is right, predicted and gold, by its number; counts of several batches add up.

    Args:
        gold: `NO_TAG` where there is nothing to compare with; numbers from `num_classes` on are classes that training
            lacks.
    """
    labelled = gold != NO_TAG
    pairs = {"predicted": predicted[labelled], "gold": gold[labelled], "right": gold[labelled & (predicted == gold)]}
    stats: dict[str, float] = {}
    for name, numbers in pairs.items():
        # all classes that training lacks are one, which is never right
        counts = torch.bincount(numbers.clamp(max=num_classes), minlength=num_classes + 1).tolist()
        stats |= {f"{name}_{number}": float(count) for number, count in enumerate(counts)}
    return stats


def mean(total: int | float, count: int | float) -> float:
    """total / count; NaN where nothing was counted, so that nothing never looks like a perfect loss.

    >>> mean(3.0, 2), mean(0.0, 0)
    (1.5, nan)
    """
    return total / count if count else math.nan


def summed(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The sums of counts by name."""
    stats: Counter[str] = Counter()
    for part in parts:
        stats.update(part)
    return dict(stats)


def count_scores(stats: Mapping[str, float], num_classes: int) -> dict[str, float]:
    """Accuracy and macro-F1 of summed counts; all classes that training lacks are one."""
    names = ("right", "predicted", "gold")
    classes = range(num_classes + 1)
    right, predicted, gold = ([stats.get(f"{name}_{number}", 0.0) for number in classes] for name in names)
    return {"accuracy": sum(right) / max(1.0, sum(gold)), "macro_f1": metrics.macro_f1(right, predicted, gold)}


def verdict_scores(
    probabilities: Sequence[Mapping[str, float]], gold: Sequence[str], inputs: Sequence[object] = ()
) -> Scored:
    """Accuracy, macro-F1, cross entropy in nats and scores by class of probabilities beside what is right.

    The cross entropy is over the examples whose class is known; NaN where there are none.

    Args:
        probabilities: of each example the probability of every class that is known, the likeliest first.
        inputs: what identifies the examples.

    >>> verdict_scores([{"a": 1.0, "b": 0.0}], ["b"]).scores["accuracy"]
    0.0
    """
    chosen = [next(iter(shares)) for shares in probabilities]
    right = np.array([a == b for a, b in zip(chosen, gold, strict=True)])
    odds = [shares[name] for shares, name in zip(probabilities, gold, strict=True) if name in shares]
    by_class = class_scores(chosen, gold)
    scores: dict[str, float | str] = {"accuracy": float(right.mean()), "macro_f1": by_class.macro_f1}
    scores["loss"] = float(-np.log(np.maximum(odds, 1e-38)).mean()) if odds else float("nan")
    scores |= {"per_class": by_class.each} | ({"confused": by_class.confused} if by_class.confused else {})
    pairs = list(zip(probabilities, gold, strict=True))
    columns = {
        "predicted": chosen,
        "gold": list(gold),
        "right": right.astype(int).tolist(),
        "known": [int(name in shares) for shares, name in pairs],
        "nll": [-math.log(max(shares[name], 1e-38)) if name in shares else 0.0 for shares, name in pairs],
    }
    formulas = {
        "accuracy": Formula("mean", ("right",)),
        "macro_f1": Formula("macro_f1", ("predicted", "gold")),
        "loss": Formula("mean", ("nll", "known")),
    }
    return Scored(scores, Rows(columns, formulas, question_of(inputs, gold)))


class ClassScores(NamedTuple):
    """Macro-F1; precision, recall and F1 of each class with its count, the most frequent first; the usual mistakes."""

    macro_f1: float
    each: str
    confused: str


def class_scores(predictions: Sequence[str], gold: Sequence[str]) -> ClassScores:
    """Scores by class of what was said beside what is right.

    >>> scores = class_scores(["a", "b", "b"], ["a", "a", "b"])
    >>> scores.each
    'a precision 1.000 recall 0.500 F1 0.667 (2), b precision 0.500 recall 1.000 F1 0.667 (1)'
    >>> scores.confused
    'a as b (1)'
    """
    predicted, targets, pairs = Counter(predictions), Counter(gold), Counter(zip(gold, predictions, strict=True))
    classes = sorted(predicted | targets, key=lambda name: (-targets[name], name))
    counts = [[float(counter[name]) for name in classes] for counter in (predicted, targets)]
    right = [float(pairs[name, name]) for name in classes]
    lines = []
    for name, hits, predicted_count, gold_count in list(zip(classes, right, *counts, strict=True))[:_SHOWN]:
        precision, recall = hits / max(1.0, predicted_count), hits / max(1.0, gold_count)
        f1 = metrics.f1(hits, predicted_count, gold_count)
        lines.append(f"{name} precision {precision:.3f} recall {recall:.3f} F1 {f1:.3f} ({gold_count:,.0f})")
    more = f", and {len(classes) - _SHOWN:,} more" if len(classes) > _SHOWN else ""
    wrong = Counter({pair: count for pair, count in pairs.items() if pair[0] != pair[1]})
    mistakes = [f"{target} as {other} ({count:,})" for (target, other), count in wrong.most_common(_CONFUSED)]
    return ClassScores(metrics.macro_f1(right, *counts), ", ".join(lines) + more, ", ".join(mistakes))


def by_tag(predictions: Sequence[str], gold: Sequence[str]) -> tuple[float, str]:
    """Macro-F1, and the F1 of each tag with its count, the most frequent first."""
    right = Counter(tag for tag, other in zip(predictions, gold, strict=True) if tag == other)
    return f1_by_label(right, Counter(predictions), Counter(gold))


def f1_by_label(right: Counter[str], predicted: Counter[str], targets: Counter[str]) -> tuple[float, str]:
    """Macro-F1, and the F1 of each label with how often it is a target, the most frequent first.

    Args:
        right, predicted, targets: how often each label is predicted rightly, is predicted, and is the target.
    """
    names = sorted(predicted | targets, key=lambda name: (-targets[name], name))
    counts = [[float(counter[name]) for name in names] for counter in (right, predicted, targets)]
    scores = [metrics.f1(*tag_counts) for tag_counts in zip(*counts, strict=True)]
    lines = [f"{name} {score:.4f} ({targets[name]:,})" for name, score in zip(names, scores, strict=True)]
    return metrics.macro_f1(*counts), ", ".join(lines)


def class_names(labels: list[str], named: list[str], noun: str = "images") -> list[str]:
    """The classes in their order: as named, else by number where all are numbers, else by alphabet.

    Args:
        noun: what has them, for the error.

    Raises: DataError: a label that is not among those named; a single class.

    >>> class_names(["10", "9", "10"], [])
    ['9', '10']
    """
    distinct = set(labels)
    if named:
        if others := sorted(distinct - set(named)):
            raise DataError(f"label '{others[0]}' is not among data.classes; name every class, or leave the list out")
        return named
    if len(distinct) < 2:
        raise DataError(f"all {noun} are of one class, '{min(distinct)}'; there is nothing to tell apart")
    if all(label.isascii() and label.isdigit() for label in distinct):
        # as numbers are sorted, of any number of digits
        return sorted(distinct, key=lambda label: (len(label.lstrip("0")), label.lstrip("0"), label))
    return sorted(distinct)


def most_frequent(counts: Mapping[str, int]) -> str:
    """The most frequent class, of equally frequent ones the first in the alphabet.

    >>> most_frequent({"b": 2, "a": 2, "c": 1})
    'a'
    """
    return min(counts, key=lambda name: (-counts[name], name))
