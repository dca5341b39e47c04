"""Models that differ in what is compared, trained alike: their scores over seeds, and how sure a difference is."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from scipy import stats

from headwise.compare.verdicts import LEVEL, Interval
from headwise.errors import ConfigError

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
        scores: by seed.
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
    runs: Mapping[int, str] = field(default_factory=dict)

    @property
    def score(self) -> Interval:
        """The mean over seeds and its 95 % interval; of one seed no interval: ends without limit."""
        values = list(self.scores.values())
        return Interval.of(values) if len(values) > 1 else Interval(values[0], -math.inf, math.inf)


@dataclass(frozen=True)
class Difference:
    """How far the best side is ahead of another, paired by seed.

    Args:
        ahead: mean, with its 95 % interval.
        p: of no difference, by the paired t-test, raised for as many comparisons as are made (Holm 1979).
    """

    ahead: Interval
    p: float

    @property
    def clear(self) -> bool:
        """Whether chance would hardly make it."""
        return self.p < 1 - LEVEL


def rank(sides: Sequence[Side], better: Literal["low", "high"]) -> tuple[list[Side], dict[str, Difference]]:
    """Sides from the best mean to the worst, and the difference of each but the best, by its name.

    The best is chosen by the same scores that it is tested with, so a p is a little small; the interval is not
    corrected for the number of comparisons. With one seed in common nothing is known of chance: none is returned.

    Raises: ConfigError for sides without a seed in common.
    """
    sign = 1.0 if better == "high" else -1.0
    order = sorted(sides, key=lambda side: -sign * side.score.value)
    best, others = order[0], order[1:]
    paired: dict[str, tuple[Interval, float]] = {}
    for side in others:
        seeds = sorted(best.scores.keys() & side.scores.keys())
        if not seeds:
            raise ConfigError(f"{best.name} and {side.name} have no seed in common")
        if len(seeds) > 1:
            ahead = [sign * (best.scores[seed] - side.scores[seed]) for seed in seeds]
            paired[side.name] = Interval.of(ahead), _p(ahead)
    return order, {
        name: Difference(ahead, p)
        for (name, (ahead, _)), p in zip(paired.items(), holm([p for _, p in paired.values()]), strict=True)
    }


def _p(differences: Sequence[float]) -> float:
    """Of the paired t-test; where differences do not vary, which it cannot divide by, of the signs alone.

    >>> _p([0.5] * 6), _p([0.0] * 6)
    (0.03125, 1.0)
    """
    size = max(map(abs, differences))
    if max(differences) - min(differences) <= 1e-9 * size:
        # all of one sign: the chance of that, of either sign
        return 2.0 * 0.5 ** len(differences) if size else 1.0
    return float(stats.ttest_1samp(differences, 0.0).pvalue)


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
    """Sides that no other is better than at the same or less CPU time a token, from the cheapest (Pareto)."""
    sign = 1.0 if better == "high" else -1.0
    efficient: list[Side] = []
    for side in sorted(sides, key=lambda side: (side.cost.token_cpu_us, -sign * side.score.value)):
        if not efficient or sign * side.score.value > sign * efficient[-1].score.value:
            efficient.append(side)
    return efficient
