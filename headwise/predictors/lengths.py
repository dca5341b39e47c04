"""The scores of a predictor by how long its inputs are, how deeply they are nested, and by place in them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headwise.errors import ConfigError, DataError, unknown
from headwise.predictors.predictor import Predictor

_BRACKETS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


def words(text: str) -> int:
    """How many words a text has between blanks."""
    return len(text.split())


def nesting(text: str) -> int:
    """The most brackets that are open at once, of any kind; one that closes nothing counts as none.

    >>> nesting("( [ ] ( ( ) ) )"), nesting(") ("), nesting("a b")
    (3, 1, 0)
    """
    depth = deepest = 0
    for letter in text:
        depth = max(0, depth + _BRACKETS.get(letter, 0))
        deepest = max(deepest, depth)
    return deepest


# what `headwise curve length --by` sorts inputs by, and what that is called along an axis
SIZES: dict[str, tuple[Callable[[str], int], str]] = {
    "words": (words, "length of the input, words"),
    "nesting": (nesting, "brackets open at once, at most"),
}


@dataclass(frozen=True)
class Bucket:
    """The examples with inputs of `shortest` to `longest` words: how many, their mean length, and their scores.

    By nesting it is the depth in place of the length; by place, `count` is of words, not of examples.
    """

    shortest: int
    longest: int
    count: int
    mean: float
    scores: dict[str, float]


def buckets(lengths: Sequence[int], number: int) -> list[range]:
    """Ranges of lengths with about equally many examples each, at most so many; equal lengths stay together.

    Raises: DataError: no lengths.

    >>> buckets([1, 1, 1, 2, 5, 9], 3)
    [range(1, 2), range(2, 3), range(3, 10)]
    """
    if not lengths:
        raise DataError("there is nothing to score: no examples")
    ordered, edges = sorted(lengths), [min(lengths)]
    for part in range(1, number):
        edge = ordered[min(len(ordered) - 1, part * len(ordered) // number - 1)] + 1
        if edges[-1] < edge <= ordered[-1]:
            edges.append(edge)
    return [range(low, high) for low, high in zip(edges, [*edges[1:], ordered[-1] + 1], strict=True)]


def by_length(
    predictor: Predictor[Any, Any, Any],
    examples: Sequence[Any],
    ranges: Sequence[range],
    size: Callable[[str], int] = words,
) -> list[Bucket]:
    """The scores of the examples in each range of lengths, in words between blanks; ranges without one are left out.

    Args:
        size: what is measured of a text in place of its words.

    Raises: Unsupported: a model that reads no text.
    """
    lengths = [size(predictor.text_of(example)) for example in examples]
    scored = []
    for span in ranges:
        inside = [place for place, length in enumerate(lengths) if length in span]
        if not inside:
            continue
        scores = predictor.evaluate([examples[place] for place in inside])
        numbers = {name: float(value) for name, value in scores.items() if not isinstance(value, str)}
        mean = sum(lengths[place] for place in inside) / len(inside)
        scored.append(Bucket(span.start, span.stop - 1, len(inside), mean, numbers))
    return scored


def by_place(predictor: Predictor[Any, Any, Any], examples: Sequence[Any], ranges: Sequence[range]) -> list[Bucket]:
    """The accuracy of the words at each range of places in their text, from 1; ranges without one are left out.

    Raises: Unsupported: a model that gives no answer for each word.
    """
    right = predictor.right(examples)
    scored = []
    for span in ranges:
        inside = [(place, flag) for row in right for place, flag in enumerate(row, 1) if place in span]
        if inside:
            mean = sum(place for place, _ in inside) / len(inside)
            accuracy = sum(flag for _, flag in inside) / len(inside)
            scored.append(Bucket(span.start, span.stop - 1, len(inside), mean, {"accuracy": accuracy}))
    return scored


def metric_of(scores: dict[str, float], name: str | None) -> str:
    """The score that is meant; the first if none is. Raises: ConfigError for one that there is not."""
    if name is not None and name not in scores:
        raise ConfigError(unknown("metric", name, scores))
    return next(iter(scores)) if name is None else name
