"""How much of what a model writes is said for the first time."""

from collections.abc import Sequence


def distinct(outputs: Sequence[str], n: int) -> float:
    """Different n-grams of all outputs together, divided by their words; NaN without a word.

    Words stand between spaces. 1 if no word comes twice; near 0 for a model that always says the same.

    Source: Li et al. 2016, arXiv:1510.03055, section 5.3 (distinct-1 and distinct-2).

    >>> distinct(["i see", "i see you"], 1), distinct(["i see", "i see you"], 2)
    (0.6, 0.4)
    """
    words = [output.split() for output in outputs]
    grams = {tuple(row[start : start + n]) for row in words for start in range(len(row) - n + 1)}
    total = sum(map(len, words))
    return len(grams) / total if total else float("nan")
