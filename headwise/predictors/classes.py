"""How often each class is right, predicted and gold: counts that add up over batches, and scores of them."""

from collections import Counter
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from headwise import metrics
from headwise.data.words import NO_TAG

_SHOWN = 40
_CONFUSED = 5


def counted(said: Tensor, gold: Tensor, num_classes: int) -> dict[str, float]:
    """How often each class is right, predicted and gold, by its number; counts of several batches add up.

    Args:
        gold: `NO_TAG` where there is nothing to compare with; numbers from `num_classes` on are classes that training
            lacks.
    """
    known = gold != NO_TAG
    pairs = {"predicted": said[known], "gold": gold[known], "right": gold[known & (said == gold)]}
    stats: dict[str, float] = {}
    for name, numbers in pairs.items():
        # all classes that training lacks are one, which is never right
        found = torch.bincount(numbers.clamp(max=num_classes), minlength=num_classes + 1).tolist()
        stats |= {f"{name}_{number}": float(count) for number, count in enumerate(found)}
    return stats


def count_scores(stats: Mapping[str, float], num_classes: int) -> dict[str, float]:
    """Accuracy and macro-F1 of summed counts; all classes that training lacks are one."""
    names = ("right", "predicted", "gold")
    classes = range(num_classes + 1)
    right, predicted, gold = ([stats.get(f"{name}_{number}", 0.0) for number in classes] for name in names)
    return {"accuracy": sum(right) / max(1.0, sum(gold)), "macro_f1": metrics.macro_f1(right, predicted, gold)}


def class_scores(said: Sequence[str], gold: Sequence[str]) -> tuple[str, str]:
    """Precision, recall and F1 of each class with its count, the most frequent first; the most frequent mistakes.

    >>> class_scores(["a", "b", "b"], ["a", "a", "b"])
    ('a precision 1.000 recall 0.500 F1 0.667 (2), b precision 0.500 recall 1.000 F1 0.667 (1)', 'a as b (1)')
    """
    predicted, wanted = Counter(said), Counter(gold)
    pairs = Counter(zip(gold, said, strict=True))
    classes = sorted(predicted | wanted, key=lambda name: (-wanted[name], name))
    each = []
    for name in classes[:_SHOWN]:
        right = pairs[name, name]
        shares = right / max(1, predicted[name]), right / max(1, wanted[name])
        f1 = metrics.f1(right, predicted[name], wanted[name])
        each.append(f"{name} precision {shares[0]:.3f} recall {shares[1]:.3f} F1 {f1:.3f} ({wanted[name]:,})")
    more = f", and {len(classes) - _SHOWN:,} more" if len(classes) > _SHOWN else ""
    wrong = Counter({pair: count for pair, count in pairs.items() if pair[0] != pair[1]})
    mistakes = [f"{right} as {other} ({count:,})" for (right, other), count in wrong.most_common(_CONFUSED)]
    return ", ".join(each) + more, ", ".join(mistakes)
