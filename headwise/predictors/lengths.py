"""The scores of a predictor by how long its inputs are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headwise.errors import ConfigError, DataError, unknown
from headwise.predictors.predictor import Predictor


@dataclass(frozen=True)
class Bucket:
    """The examples with inputs of `shortest` to `longest` words: how many, their mean length, and their scores."""

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


def by_length(predictor: Predictor[Any, Any, Any], examples: Sequence[Any], ranges: Sequence[range]) -> list[Bucket]:
    """The scores of the examples in each range of lengths, in words between blanks; ranges without one are left out.

    Raises: Unsupported: a model that reads no text.
    """
    lengths = [len(predictor.text_of(example).split()) for example in examples]
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


def metric_of(scores: dict[str, float], name: str | None) -> str:
    """The score that is meant; the first if none is. Raises: ConfigError for one that there is not."""
    if name is not None and name not in scores:
        raise ConfigError(unknown("metric", name, scores))
    return next(iter(scores)) if name is None else name
