"""From numbers to a verdict, by a rule that is stated before they are measured."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from scipy import stats

from headwise.errors import ConfigError
from headwise.explain.curves import half_width

LEVEL = 0.95
# of a prediction of one more draw, as many places with equal shares between them
_PREDICTED = 99

Outcome = Literal["holds", "refuted", "undecided"]
Verdict = Literal["holds", "holds only where", "does not hold", "undecided", "invalid"]


@dataclass(frozen=True)
class Interval:
    """A value and its 95 % interval; ends that are the value itself where it is exact.

    Args:
        draws: what it is the mean of, such as a number for each seed; empty where it is none.
        variance, level: as of `of`.
    """

    value: float
    low: float
    high: float
    draws: tuple[float, ...] = field(default=(), compare=False, repr=False)
    variance: float = field(default=0.0, compare=False, repr=False)
    level: float = field(default=LEVEL, compare=False, repr=False)

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
        error = math.hypot(float(np.std(draws, ddof=1)) / math.sqrt(len(draws)), math.sqrt(variance))
        interval = cls.around(mean, error, len(draws) - 1, level)
        return replace(interval, draws=tuple(map(float, draws)), variance=variance, level=level)

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

    @property
    def left_out(self) -> list["Interval"]:
        """The intervals without each draw in turn; none of fewer than three draws, since one alone has no spread.

        >>> [each.value for each in Interval.of([0.0, 1.0, 2.0]).left_out]
        [1.5, 1.0, 0.5]
        """
        if len(self.draws) < 3:
            return []
        rests = ([*self.draws[:place], *self.draws[place + 1 :]] for place in range(len(self.draws)))
        return [Interval.of(rest, self.level, self.variance) for rest in rests]

    @property
    def one_more(self) -> list["Interval"]:
        """The intervals with one more draw, at places of equal shares of its prediction; none of one draw.

        From n draws of a normal distribution the next one is predicted as their mean + s sqrt(1 + 1 / n) t(n - 1).

        Source: Hahn and Meeker 1991, "Statistical intervals", section 4.7.
        """
        if len(self.draws) < 2:
            return []
        wide = float(np.std(self.draws, ddof=1)) * math.sqrt(1 + 1 / len(self.draws))
        shares = np.arange(1, _PREDICTED + 1) / (_PREDICTED + 1)
        more = np.mean(self.draws) + wide * stats.t.ppf(shares, len(self.draws) - 1)
        return [Interval.of([*self.draws, float(draw)], self.level, self.variance) for draw in more]

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
        return cls.of(values.mean(1).tolist(), variance=float(stats.sem(values.mean(0))) ** 2)


@dataclass(frozen=True)
class Cell:
    """What was measured in one condition, and what the rule makes of it; None: an end of the interval without limit.

    Args:
        left_out: what it makes of it without each draw (seed) in turn; empty where no three were drawn.
        turned: share of the predictions of one more draw with which the outcome is another one; None: none was drawn.
    """

    where: str
    value: float
    low: float | None
    high: float | None
    outcome: Outcome
    left_out: Sequence[Outcome] = ()
    turned: float | None = None

    @classmethod
    def of(cls, where: str, interval: Interval, judge: Callable[..., Outcome], *others: Interval) -> "Cell":
        """A cell that shows an interval.

        Args:
            judge: from the interval, and others of the same draws if any, to the outcome.
        """
        low, high = (end if math.isfinite(end) else None for end in (interval.low, interval.high))
        outcome = judge(interval, *others)
        known = (interval, *others)
        # others of fewer draws than the first, or none, are no pairs of it
        pairs = all(len(other.draws) == len(interval.draws) for other in others)
        left_out, more = [], []
        if pairs:
            left_out = [judge(*rest) for rest in zip(*(one.left_out for one in known), strict=True)]
            more = [judge(*grown) for grown in zip(*(one.one_more for one in known), strict=True)]
        turned = sum(other != outcome for other in more) / len(more) if more else None
        return cls(where, interval.value, low, high, outcome, left_out, turned)

    def without(self, draw: int) -> "Cell":
        """The cell with the outcome that it has without a draw."""
        return replace(self, outcome=self.left_out[draw])


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

    def judge(interval: Interval) -> Outcome:
        if interval.low > 0 and interval.value >= effect:
            return "holds"
        return "refuted" if interval.high < effect else "undecided"

    return Cell.of(where, interval, judge)


def near(where: str, interval: Interval, theory: float, within: float) -> Cell:
    """Whether a value is what a theory says: its interval within so much of it; refuted where they do not meet."""
    low, high = theory - within, theory + within

    def judge(interval: Interval) -> Outcome:
        if low <= interval.low and interval.high <= high:
            return "holds"
        return "refuted" if interval.high < low or interval.low > high else "undecided"

    return Cell.of(where, interval, judge)


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

    def judge(interval: Interval, narrow: Interval) -> Outcome:
        if -within < narrow.low and narrow.high < within:
            return "holds"
        return "refuted" if interval.low >= within or interval.high <= -within else "undecided"

    return Cell.of(where, difference(LEVEL), judge, difference(2 * LEVEL - 1))


def trend(where: str, rows: Sequence[Sequence[float]], effect: float, variance: float = 0.0) -> Cell:
    """Whether values rise along conditions in a stated order, by Page's test, and from the first to the last enough.

    It holds where p < 0.05, and the mean rise, all of whose 95 % interval is above 0, is as large as one that matters;
    it is refuted where the interval of the rise lies below that. The cell shows the rise. With two seeds and three
    conditions p is 0.028 at best, with three seeds 0.0046.

    Args:
        rows: of each seed, the values in the order of the conditions: two seeds and three conditions or more.
        variance: of the mean rise as the examples are drawn anew.

    Source: Page 1963, "Ordered hypotheses for multiple treatments".

    >>> trend("depth", [[0.1, 0.5, 0.9], [0.2, 0.4, 0.9], [0.1, 0.6, 0.8]], 0.1).outcome
    'holds'
    """
    rise = Interval.of([row[-1] - row[0] for row in rows], variance=variance)
    p = _page(rows)

    def judge(rise: Interval, p: float) -> Outcome:
        return larger("", rise, effect).outcome if p < 1 - LEVEL or rise.high < effect else "undecided"

    cell = Cell.of(f"{where} (Page's test: p = {p:.2g})", rise, lambda rise: judge(rise, p))
    rests = ([*rows[:place], *rows[place + 1 :]] for place in range(len(rows)))
    left_out = [judge(short, _page(rest)) for short, rest in zip(rise.left_out, rests, strict=False)]
    # one more row of a trend is not predicted
    return replace(cell, left_out=left_out, turned=None)


def _page(rows: Sequence[Sequence[float]]) -> float:
    return float(stats.page_trend_test(rows).pvalue)


def crosses(where: str, first: Interval, last: Interval) -> Cell:
    """Whether a difference changes its sign: all of it above 0 at first, and all of it below 0 at last.

    It is refuted where it is above 0 at last too, or below 0 at first. The cell shows the last one.
    """

    def judge(last: Interval, first: Interval) -> Outcome:
        if first.low > 0 and last.high < 0:
            return "holds"
        return "refuted" if last.low > 0 or first.high < 0 else "undecided"

    return Cell.of(where, last, judge, first)


def above(where: str, interval: Interval, least: float) -> Cell:
    """Whether a value is above a bound, with all of its interval; refuted where all of it is below."""
    return beyond(where, interval, least, least)


def below(where: str, interval: Interval, most: float) -> Cell:
    """Whether a value is below a bound, with all of its interval; refuted where all of it is above."""

    def judge(interval: Interval) -> Outcome:
        return "holds" if interval.high < most else "refuted" if interval.low > most else "undecided"

    return Cell.of(where, interval, judge)


def beyond(where: str, interval: Interval, holds: float, refuted: float) -> Cell:
    """Whether a value has passed a bound, with all of its interval; refuted where all of it falls short of another one.

    It is to be larger than `holds` where that is the larger of the two bounds, else smaller.

    >>> beyond("a rank correlation", Interval(0.3, 0.2, 0.4), 0.5, 0.7).outcome
    'holds'
    """
    sign = 1.0 if holds >= refuted else -1.0

    def judge(interval: Interval) -> Outcome:
        low, high = sorted((sign * interval.low, sign * interval.high))
        return "holds" if low > sign * holds else "refuted" if high < sign * refuted else "undecided"

    return Cell.of(where, interval, judge)


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
