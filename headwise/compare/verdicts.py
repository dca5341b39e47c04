"""From numbers to a verdict, by a rule that is stated before they are measured."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from headwise.errors import ConfigError
from headwise.explain.curves import half_width

LEVEL = 0.95

Outcome = Literal["holds", "refuted", "undecided"]
Verdict = Literal["holds", "holds only where", "does not hold", "undecided", "invalid"]


@dataclass(frozen=True)
class Interval:
    """A value and its 95 % interval; ends that are the value itself where it is exact."""

    value: float
    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> "Interval":
        return cls(value, value, value)

    @classmethod
    def of(cls, draws: Sequence[float], level: float = LEVEL, variance: float = 0.0) -> "Interval":
        """mean +- t sqrt(s^2 / n + v) of n independent draws; without limit for a single one, which has no spread.

        It has no width where all draws agree: then nothing is known of how far they vary.

        Args:
            variance: of the mean for another reason, such as the examples that all seeds are scored on. The interval is
                a little wide then, never narrow: the draws hold a part of it.

        Raises: ConfigError for none, such as the runs of a side that all failed.

        >>> Interval.of([1.0, 1.0, 1.0]), Interval.of([0.5])
        (Interval(value=1.0, low=1.0, high=1.0), Interval(value=0.5, low=-inf, high=inf))
        """
        if not draws:
            raise ConfigError("nothing was measured, so that there is no interval: every run of a side failed")
        mean = math.fsum(draws) / len(draws)
        if len(draws) == 1:
            return cls(mean, -math.inf, math.inf)
        error = math.hypot(float(stats.sem(draws)), math.sqrt(variance))
        return cls.around(mean, error, len(draws) - 1, level)

    @classmethod
    def around(cls, value: float, error: float, freedom: int, level: float = LEVEL) -> "Interval":
        """A value with a standard error that so many degrees of freedom are known of, by Student's t."""
        half = half_width(error, freedom, level)
        return cls(value, value - half, value + half)

    @property
    def half(self) -> float | None:
        """Half its width; None where it has no limit."""
        half = self.high - self.value
        return half if math.isfinite(half) else None

    @classmethod
    def across(cls, table: Sequence[Sequence[float]]) -> "Interval":
        """The mean of a table with a row for each seed and a column for each example, which both could be others.

        Its variance is that between the means of seeds, over their number, and that between the means of examples,
        over theirs; a little wide, since the second is a part of the first.

        Raises: ConfigError for fewer than two rows or columns.

        >>> Interval.across([[1.0, 3.0], [1.0, 3.0]])
        Interval(value=2.0, low=-10.706204736174694, high=14.706204736174694)
        """
        values = np.asarray(table, dtype=float)
        if min(values.shape) < 2:
            raise ConfigError("one seed, or one example, has no interval; take two or more")
        error = math.hypot(*(float(stats.sem(values.mean(axis))) for axis in (1, 0)))
        return cls.around(float(values.mean()), error, len(values) - 1)


@dataclass(frozen=True)
class Cell:
    """What was measured in one condition, and what the rule makes of it; None: an end of the interval without limit."""

    where: str
    value: float
    low: float | None
    high: float | None
    outcome: Outcome

    @classmethod
    def of(cls, where: str, interval: Interval, outcome: Outcome) -> "Cell":
        low, high = (end if math.isfinite(end) else None for end in (interval.low, interval.high))
        return cls(where, interval.value, low, high, outcome)


@dataclass(frozen=True)
class Control:
    """Something that must come out so, or the experiment itself is wrong."""

    what: str
    passed: bool
    value: float


def larger(where: str, interval: Interval, effect: float) -> Cell:
    """Whether a difference is there: its interval above 0, and the difference as large as one that matters.

    It is refuted where the interval lies below that effect: smaller than matters, or the reverse.
    """
    if effect <= 0:
        raise ConfigError(f"an effect that matters is above 0, got {effect}")
    outcome: Outcome = "undecided"
    if interval.low > 0 and interval.value >= effect:
        outcome = "holds"
    elif interval.high < effect:
        outcome = "refuted"
    return Cell.of(where, interval, outcome)


def near(where: str, interval: Interval, theory: float, within: float) -> Cell:
    """Whether a value is what a theory says: its interval within so much of it; refuted where they do not meet."""
    low, high = theory - within, theory + within
    outcome: Outcome = "undecided"
    if low <= interval.low and interval.high <= high:
        outcome = "holds"
    elif interval.high < low or interval.low > high:
        outcome = "refuted"
    return Cell.of(where, interval, outcome)


def equal(where: str, difference: Callable[[float], Interval], within: float) -> Cell:
    """Whether two sides differ by less than matters: two one-sided tests at 5 %.

    It holds where the 90 % interval lies within so much of 0, and is refuted where all of the 95 % interval lies
    outside. The cell shows that of 95 %.

    Args:
        difference: from a level to the interval of that level.

    Source: Schuirmann 1987, "A comparison of the two one-sided tests procedure and the power approach".

    >>> equal("here", lambda level: Interval.of([0.001, -0.002, 0.0], level), 0.01).outcome
    'holds'
    """
    if within <= 0:
        raise ConfigError(f"an effect that matters is above 0, got {within}")
    interval, narrow = difference(LEVEL), difference(2 * LEVEL - 1)
    outcome: Outcome = "undecided"
    if -within < narrow.low and narrow.high < within:
        outcome = "holds"
    elif interval.low >= within or interval.high <= -within:
        outcome = "refuted"
    return Cell.of(where, interval, outcome)


def trend(where: str, rows: Sequence[Sequence[float]], effect: float, variance: float = 0.0) -> Cell:
    """Whether values rise along conditions in a stated order, by Page's test, and from the first to the last enough.

    It holds where p < 0.05 and the mean rise is as large as one that matters; it is refuted where the 95 % interval of
    the rise lies below that. The cell shows the rise.

    Args:
        rows: of each seed, the values in the order of the conditions: two seeds and three conditions or more.
        variance: of the mean rise as the examples are drawn anew.

    Source: Page 1963, "Ordered hypotheses for multiple treatments".

    >>> trend("depth", [[0.1, 0.5, 0.9], [0.2, 0.4, 0.9], [0.1, 0.6, 0.8]], 0.1).outcome
    'holds'
    """
    rise = Interval.of([row[-1] - row[0] for row in rows], variance=variance)
    p = float(stats.page_trend_test(rows).pvalue)
    outcome: Outcome = "undecided"
    if p < 1 - LEVEL and rise.value >= effect:
        outcome = "holds"
    elif rise.high < effect:
        outcome = "refuted"
    return Cell.of(f"{where} (Page's test: p = {p:.2g})", rise, outcome)


def crosses(where: str, first: Interval, last: Interval) -> Cell:
    """Whether a difference changes its sign: all of it above 0 at first, and all of it below 0 at last.

    It is refuted where it is above 0 at last too, or below 0 at first. The cell shows the last one.
    """
    outcome: Outcome = "undecided"
    if first.low > 0 and last.high < 0:
        outcome = "holds"
    elif last.low > 0 or first.high < 0:
        outcome = "refuted"
    return Cell.of(where, last, outcome)


def above(where: str, interval: Interval, least: float) -> Cell:
    """Whether a value is above a bound, with all of its interval; refuted where all of it is below."""
    return beyond(where, interval, least, least)


def below(where: str, interval: Interval, most: float) -> Cell:
    """Whether a value is below a bound, with all of its interval; refuted where all of it is above."""
    outcome: Outcome = "holds" if interval.high < most else "refuted" if interval.low > most else "undecided"
    return Cell.of(where, interval, outcome)


def beyond(where: str, interval: Interval, holds: float, refuted: float) -> Cell:
    """Whether a value has passed a bound, with all of its interval; refuted where all of it falls short of another one.

    It is to be larger than `holds` where that is the larger of the two bounds, else smaller.

    >>> beyond("a rank correlation", Interval(0.3, 0.2, 0.4), 0.5, 0.7).outcome
    'holds'
    """
    sign = 1.0 if holds >= refuted else -1.0
    low, high = sorted((sign * interval.low, sign * interval.high))
    outcome: Outcome = "holds" if low > sign * holds else "refuted" if high < sign * refuted else "undecided"
    return Cell.of(where, interval, outcome)


def verdict(cells: Sequence[Cell], controls: Sequence[Control] = ()) -> Verdict:
    """What all cells say together; "invalid" where a control failed: then they say nothing.

    >>> verdict([Cell("a", 1.0, 1.0, 1.0, "holds"), Cell("b", 0.0, 0.0, 0.0, "refuted")])
    'holds only where'
    """
    outcomes = {cell.outcome for cell in cells}
    if not cells or not all(control.passed for control in controls):
        return "invalid"
    if outcomes == {"holds"}:
        return "holds"
    if outcomes == {"refuted"}:
        return "does not hold"
    return "holds only where" if {"holds", "refuted"} <= outcomes else "undecided"


def why(cells: Sequence[Cell], controls: Sequence[Control] = ()) -> str:
    """The verdict in a sentence: in which conditions it holds, in which it does not, in which nobody knows."""
    failed = [control.what for control in controls if not control.passed]
    if not cells:
        failed.append("no condition was left to judge")
    if failed:
        return f"the experiment is not valid: {'; '.join(failed)}"
    parts = []
    for outcome, beginning in {"holds": "Holds", "refuted": "Does not hold", "undecided": "Undecided"}.items():
        names = [cell.where for cell in cells if cell.outcome == outcome]
        if len(names) == len(cells):
            return f"{beginning} in all of {len(cells)} conditions."
        if names:
            parts.append(f"{beginning} for {'; '.join(names)}.")
    return " ".join(parts)
