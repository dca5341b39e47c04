"""How sure a score is: intervals by drawing the groups of its examples again, of one model or of a difference."""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from headwise.errors import ConfigError

ROUNDS = 400
_SHARE = 0.95
# for a mean the draws are cheap
_MEAN_ROUNDS = 9999
# the correction for skewness leaves out each group in turn, whose cost grows with their square
_MOST_CORRECTED = 5000
# numbers that are drawn at once
_BATCH = 4_000_000


@dataclass(frozen=True)
class Resampled:
    """A score as a function of how often each group of its examples counts.

    Args:
        noun: what the groups are, such as "sessions": what belongs together is drawn together.
        score: from a weight for each group.
        question: what identifies the examples and what is predicted of them, equal for models that can be compared.
        each: the score of each group, where that of all is their mean.
    """

    name: str
    noun: str
    groups: int
    score: Callable[[Float[np.ndarray, "groups"]], float]
    question: str
    each: Float[np.ndarray, "groups"] | None = None

    def value(self) -> float:
        """The score of all examples as they are."""
        return self.score(np.ones(self.groups))


def interval(
    metric: Resampled, other: Resampled | None = None, rounds: int = ROUNDS, seed: int = 0
) -> tuple[float, float]:
    """The 95 % bootstrap interval of a score, or of the score of one less that of another on the same draws.

    Of a mean over groups it is scipy's, bias-corrected and accelerated (of more than 5,000 groups: of percentiles);
    else the score is computed on each draw, and the interval is that of percentiles. Of a single group nothing is
    known: NaN.

    Args:
        rounds: how often as many groups as there are are drawn with replacement, where the score is no mean.
        seed: the same one draws the same groups.

    Raises: ConfigError if the two were not asked the same.
    Source: Efron and Tibshirani 1993, "An Introduction to the Bootstrap", chapters 13 and 14.

    >>> mean = Resampled("mean", "numbers", 4, lambda weights: float(np.average([1, 2, 3, 4], weights=weights)), "")
    >>> low, high = interval(mean)
    >>> 1 <= low < 2.5 < high <= 4, interval(mean, mean)
    (True, (0.0, 0.0))
    """
    if other is not None:
        check_same(metric, other)
    if metric.groups < 2:
        return math.nan, math.nan
    if metric.each is not None and (other is None or other.each is not None):
        return _of_mean(metric.each if other is None or other.each is None else metric.each - other.each, seed)
    samples = draws([metric], [] if other is None else [other], rounds, seed)
    low, high = np.nanquantile(samples, [(1 - _SHARE) / 2, (1 + _SHARE) / 2])
    return float(low), float(high)


def check_same(metric: Resampled, *others: Resampled) -> None:
    """Raises: ConfigError: the scores are of different examples."""
    if any(
        (metric.name, metric.groups, metric.question) != (other.name, other.groups, other.question) for other in others
    ):
        raise ConfigError(
            "the runs were asked different things, so that their scores cannot be compared: they have to answer the"
            " same examples; train both on the same data, with the same settings of [data] (and of [negatives], if any)"
        )


def draws(
    metrics: Sequence[Resampled], others: Sequence[Resampled] = (), rounds: int = ROUNDS, seed: int = 0
) -> Float[np.ndarray, "rounds"]:
    """The mean of some scores less that of others, each on the same groups drawn with replacement, several times."""
    groups, generator, samples = metrics[0].groups, np.random.default_rng(seed), []
    for _ in range(rounds):
        weights = np.bincount(generator.integers(0, groups, groups), minlength=groups).astype(float)
        first, second = (
            [metric.score(weights) for metric in several] if several else [0.0] for several in (metrics, others)
        )
        samples.append(math.fsum(first) / len(first) - math.fsum(second) / len(second))
    return np.array(samples)


def variance(metrics: Sequence[Resampled], others: Sequence[Resampled] = ()) -> float:
    """How much the mean of some scores, less that of others, varies as the examples are drawn anew.

    Of means over groups, their variance by the number of groups; else that of bootstrap draws. NaN of a single group.

    Raises: ConfigError if they were not asked the same.
    """
    check_same(metrics[0], *metrics, *others)
    if metrics[0].groups < 2:
        return math.nan
    if all(metric.each is not None for metric in (*metrics, *others)):
        own, other = ([metric.each for metric in several if metric.each is not None] for several in (metrics, others))
        difference = np.mean(own, axis=0) - (np.mean(other, axis=0) if other else 0.0)
        return float(np.var(difference, ddof=1)) / metrics[0].groups
    return float(np.nanvar(draws(metrics, others), ddof=1))


def _of_mean(values: Float[np.ndarray, "groups"], seed: int) -> tuple[float, float]:
    from scipy import stats

    if np.ptp(values) <= 1e-12 * np.abs(values).max():
        # scipy's is NaN where nothing varies
        return float(values[0]), float(values[0])
    for method in ("BCa", "percentile") if len(values) <= _MOST_CORRECTED else ("percentile",):
        with warnings.catch_warnings():
            # of draws that are all alike, whose interval is NaN
            warnings.simplefilter("ignore")
            low, high = stats.bootstrap(
                (values,),
                np.mean,
                n_resamples=_MEAN_ROUNDS,
                batch=max(1, _BATCH // len(values)),
                confidence_level=_SHARE,
                method=method,
                rng=seed,
            ).confidence_interval
        if math.isfinite(low) and math.isfinite(high):
            break
    return float(low), float(high)


def compare_scores(metric: Resampled, other: Resampled) -> dict[str, float | str]:
    """The scores of two models on the same examples, their difference and its interval; raises as `interval`.

    Where each answer is right or wrong, `p` is that of no difference by McNemar's exact test.
    """
    low, high = interval(metric, other)
    here, there = metric.value(), other.value()
    scores: dict[str, float | str] = {
        metric.name: here,
        f"{metric.name} of the other": there,
        "difference": here - there,
    }
    if (p := _of_right_and_wrong(metric, other)) is not None:
        scores["p"] = p
    return scores | {"interval": interval_text(low, high, metric)}


def _of_right_and_wrong(metric: Resampled, other: Resampled) -> float | None:
    """McNemar's exact test: of the answers of which one is right, how many are the first model's."""
    from scipy import stats

    if metric.each is None or other.each is None or not set(np.unique([metric.each, other.each])) <= {0.0, 1.0}:
        return None
    better, worse = (
        int((first > second).sum()) for first, second in ((metric.each, other.each), (other.each, metric.each))
    )
    return float(stats.binomtest(better, better + worse).pvalue) if better + worse else 1.0


def interval_text(low: float, high: float, metric: Resampled) -> str:
    if math.isnan(low):
        return f"unknown: 1 of {metric.noun} has no spread"
    return f"{low:.4f} to {high:.4f} (95 %, bootstrap over {metric.groups:,} {metric.noun}, seed 0)"
