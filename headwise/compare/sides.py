"""Models that differ in what is compared, trained alike: their scores over seeds, and how sure a difference is."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from scipy import stats

from headwise.compare.verdicts import LEVEL, Interval
from headwise.errors import ConfigError
from headwise.predictors.intervals import Resampled, interval, variance

# seeds from which six pairs can show a difference at all by signs alone; with fewer an interval is wide
ENOUGH_SEEDS = 6


@dataclass(frozen=True)
class Cost:
    """Of a model, and of a step of its training on one thread: CPU seconds, tokens of a batch, bytes at the height."""

    parameters: int
    step_cpu_s: float
    tokens: float
    peak_bytes: int

    @property
    def token_cpu_us(self) -> float:
        """CPU microseconds of training for each token or other unit of a batch."""
        return 1e6 * self.step_cpu_s / max(self.tokens, 1.0)


@dataclass(frozen=True)
class Side:
    """One of the models that are compared.

    Args:
        settings: key and value of what it differs in.
        scores: by seed; of a run that failed the worst there can be, which is infinite.
        failures: by seed, why a run failed.
        resampled: by seed, the score as a function of the examples.
        runs: by seed, its folder.
        state_bytes: what a decoder keeps of a hypothesis at the end of the longest example; None: nothing is decoded.
        tuned: the value that was chosen for it on the validation data, if any; at_edge: it is the first or last one
            tried, so that a better one may lie beyond.
        cpu_s, steps: of all its runs that are scored, and of one of them on average.
        runs: the run folder of each seed.
    """

    name: str
    settings: Mapping[str, str]
    scores: Mapping[int, float]
    cost: Cost
    cpu_s: float
    steps: float
    tuned: str | None = None
    at_edge: bool = False
    failures: Mapping[int, str] = field(default_factory=dict)
    resampled: Mapping[int, Resampled] = field(default_factory=dict)
    state_bytes: int | None = None
    runs: Mapping[int, str] = field(default_factory=dict)

    @property
    def score(self) -> Interval:
        """The mean over seeds and its 95 % interval, over seeds and examples; of one seed that over examples alone.

        Without limit where nothing is known; all of it the worst score where a run failed.
        """
        values = list(self.scores.values())
        if self.failures:
            return Interval.exact(math.fsum(values))
        several = [self.resampled[seed] for seed in self.scores if seed in self.resampled]
        if len(values) > 1:
            return Interval.of(values, variance=_variance(several) if len(several) == len(values) else 0.0)
        low, high = interval(several[0]) if several else (math.nan, math.nan)
        return Interval(values[0], *((low, high) if low == low else (-math.inf, math.inf)))


@dataclass(frozen=True)
class Difference:
    """How far the best side is ahead of another, paired by seed.

    Args:
        ahead: mean, with its 95 % interval: over seeds and examples; of a single seed over examples alone.
        p: of no difference, by Student's t, raised for as many comparisons as are made (Holm 1979); of the signs alone
            where a run failed; None for a single seed, of which nothing is known of chance.
        examples: groups of examples that the interval is over; 0: seeds alone.
    """

    ahead: Interval
    p: float | None
    examples: int = 0

    @property
    def clear(self) -> bool:
        """Whether chance would hardly make it."""
        return self.p is not None and self.p < 1 - LEVEL


def _error(values: Sequence[float], variance: float) -> float:
    return math.sqrt(float(stats.sem(values)) ** 2 + variance)


def examples_variance(several: Sequence[Resampled], others: Sequence[Resampled] = ()) -> float:
    """How far the mean of some scores, less that of others, varies with the examples; 0 of what has no rows of them.

    Of right and wrong answers at least what one more example would change: where all are alike, that is not certain.
    """
    if not several:
        return 0.0
    sizes = [float(np.abs(metric.each).max()) for metric in (*several, *others) if metric.each is not None]
    least = max(sizes) / several[0].groups if len(sizes) == len(several) + len(others) else 0.0
    return max(_variance(several, others), least**2)


def _variance(several: Sequence[Resampled], others: Sequence[Resampled] = ()) -> float:
    """As `variance`; 0 of a single example, and where the examples are not the same, so that nothing is paired."""
    try:
        spread = variance(several, others)
    except ConfigError:
        return 0.0
    return 0.0 if math.isnan(spread) else spread


def rank(sides: Sequence[Side], better: Literal["low", "high"]) -> tuple[list[Side], dict[str, Difference]]:
    """Sides from the best mean to the worst, and the difference of each but the best, by its name.

    The best is chosen by the same scores that it is tested with, so a p is a little small; the interval is not
    corrected for the number of comparisons. With one seed in common, and no rows of examples, none is returned.

    Raises: ConfigError for sides without a seed in common.
    """
    sign = 1.0 if better == "high" else -1.0
    order = sorted(sides, key=lambda side: (-sign * side.score.value, len(side.failures)))
    best, others = order[0], order[1:]
    paired: dict[str, Difference] = {}
    for side in others:
        seeds = sorted(best.scores.keys() & side.scores.keys())
        if not seeds:
            raise ConfigError(f"{best.name} and {side.name} have no seed in common")
        if (difference := _difference(best, side, seeds, sign)) is not None:
            paired[side.name] = difference
    tested = {name: difference.p for name, difference in paired.items() if difference.p is not None}
    raised = dict(zip(tested, holm(list(tested.values())), strict=True))
    return order, {name: replace(difference, p=raised.get(name)) for name, difference in paired.items()}


def _difference(best: Side, side: Side, seeds: Sequence[int], sign: float) -> Difference | None:
    # of two runs that failed neither is ahead
    ahead = [
        sign * (best.scores[seed] - side.scores[seed]) if best.scores[seed] != side.scores[seed] else 0.0
        for seed in seeds
    ]
    several, others = (
        [sampled.resampled[seed] for seed in seeds if seed in sampled.resampled] for sampled in (best, side)
    )
    if not all(map(math.isfinite, ahead)):
        unknown_ends = Interval(math.fsum(ahead), -math.inf, math.inf)
        return Difference(unknown_ends, _of_signs(ahead))
    whole = len(several) == len(others) == len(seeds)
    groups = several[0].groups if whole else 0
    if len(seeds) > 1:
        spread = _variance(several, others) if whole else 0.0
        return Difference(Interval.of(ahead, variance=spread), _p(ahead, spread), groups if spread else 0)
    try:
        low, high = (sign * end for end in interval(several[0], others[0])) if whole else (math.nan, math.nan)
    except ConfigError:
        return None
    return None if math.isnan(low) else Difference(Interval(ahead[0], min(low, high), max(low, high)), None, groups)


def _p(differences: Sequence[float], variance: float = 0.0) -> float:
    """By Student's t over seeds, with the variance that the examples add; where nothing varies, of the signs alone.

    >>> _p([0.5] * 6), _p([0.0] * 6)
    (0.03125, 1.0)
    """
    size = max(map(abs, differences))
    if max(differences) - min(differences) <= 1e-9 * size and not variance:
        return _of_signs(differences)
    score = math.fsum(differences) / len(differences) / _error(differences, variance)
    return 2.0 * float(stats.t.sf(abs(score), len(differences) - 1))


def _of_signs(differences: Sequence[float]) -> float:
    """Of as many differences of one sign, or more; those of 0 do not count."""
    ahead, behind = (sum(sign * number > 0 for number in differences) for sign in (1, -1))
    return float(stats.binomtest(ahead, ahead + behind).pvalue) if ahead + behind else 1.0


def holm(p: Sequence[float]) -> list[float]:
    """Probabilities raised for as many tests: the smallest by their number, the next by one less, and so on.

    Source: Holm 1979, "A simple sequentially rejective multiple test procedure".

    >>> [round(p, 9) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    raised, least = [0.0] * len(p), 0.0
    for place, at in enumerate(sorted(range(len(p)), key=lambda at: p[at])):
        least = max(least, min(1.0, (len(p) - place) * p[at]))
        raised[at] = least
    return raised


def front(sides: Sequence[Side], better: Literal["low", "high"]) -> list[Side]:
    """Sides that no other is better than at the same or less CPU time a token, from the cheapest (Pareto).

    One of which a run failed is none of them.
    """
    sign = 1.0 if better == "high" else -1.0
    efficient: list[Side] = []
    for side in sorted(
        (side for side in sides if not side.failures),
        key=lambda side: (side.cost.token_cpu_us, -sign * side.score.value),
    ):
        if not efficient or sign * side.score.value > sign * efficient[-1].score.value:
            efficient.append(side)
    return efficient
