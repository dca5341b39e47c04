"""How sure a score is: intervals by drawing the groups of its examples again, of one model or of a difference."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from headwise.errors import ConfigError

ROUNDS = 400
_SHARE = 0.95


@dataclass(frozen=True)
class Resampled:
    """A score as a function of how often each group of its examples counts.

    Args:
        noun: what the groups are, such as "sessions": what belongs together is drawn together.
        score: from a weight for each group.
        question: what identifies the examples and what is predicted of them, equal for models that can be compared.
    """

    name: str
    noun: str
    groups: int
    score: Callable[[Float[np.ndarray, "groups"]], float]
    question: str

    def value(self) -> float:
        """The score of all examples as they are."""
        return self.score(np.ones(self.groups))


def interval(
    metric: Resampled, other: Resampled | None = None, rounds: int = ROUNDS, seed: int = 0
) -> tuple[float, float]:
    """The 95 % percentile interval of a score, or of the score of one less that of another on the same draws.

    Args:
        rounds: how often as many groups as there are are drawn with replacement.
        seed: the same one draws the same groups.

    Raises: ConfigError if the two were not asked the same.
    Source: Efron and Tibshirani 1993, "An Introduction to the Bootstrap", chapter 13.

    >>> mean = Resampled("mean", "numbers", 4, lambda weights: float(np.average([1, 2, 3, 4], weights=weights)), "")
    >>> low, high = interval(mean)
    >>> 1 <= low < 2.5 < high <= 4, interval(mean, mean)
    (True, (0.0, 0.0))
    """
    if other is not None and (metric.name, metric.groups, metric.question) != (
        other.name,
        other.groups,
        other.question,
    ):
        raise ConfigError(
            "the two runs were asked different things, so that their scores cannot be compared: they have to rank the"
            " same candidates; train both on the same data, with the same settings of [data] and [negatives]"
        )
    draws = np.random.default_rng(seed)
    samples = []
    for _ in range(rounds):
        weights = np.bincount(draws.integers(0, metric.groups, metric.groups), minlength=metric.groups).astype(float)
        samples.append(metric.score(weights) - (0.0 if other is None else other.score(weights)))
    low, high = np.nanquantile(samples, [(1 - _SHARE) / 2, (1 + _SHARE) / 2])
    return float(low), float(high)


def compare_scores(metric: Resampled, other: Resampled) -> dict[str, float | str]:
    """The scores of two models on the same examples, their difference and its interval; raises as `interval`."""
    low, high = interval(metric, other)
    here, there = metric.value(), other.value()
    return {
        metric.name: here,
        f"{metric.name} of the other": there,
        "difference": here - there,
        "interval": interval_text(low, high, metric),
    }


def interval_text(low: float, high: float, metric: Resampled) -> str:
    return f"{low:.4f} to {high:.4f} (95 %, bootstrap over {metric.groups:,} {metric.noun}, seed 0)"
