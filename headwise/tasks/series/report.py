"""What `headwise data report` says of series."""

from collections.abc import Sequence
from dataclasses import asdict
from math import fsum, isclose
from typing import Any

from headwise.data.bad_lines import BadLines
from headwise.data.files import resolve
from headwise.data.inspection import DataKind, Inspection, Odd
from headwise.data.report import measure
from headwise.tasks.series.data import SeriesConfig, Step, numeric_columns, scan_steps

# columns that are named as not read
_SHOWN = 5


def _series(data: SeriesConfig, part: str, held_out: str | None) -> Inspection:
    bad, odd = BadLines(), Odd()
    path = resolve(getattr(data, part))
    columns, others = (data.columns, []) if data.columns else numeric_columns(path, data)
    steps = list(bad.good(scan_steps(path, data, columns)))
    steps_by_series: dict[str, list[Step]] = {}
    for step in steps:
        if step.filled:
            odd.add("missing numbers", step.line)
        before = steps_by_series.setdefault(step.series, [])
        if len(before) > 1 and _uneven(before, step):
            odd.add("uneven time", step.line)
        before.append(step)
    lines = [f"series                   {len(steps_by_series):,}", f"columns                  {len(columns):,}"]
    lines += [f"  not read: {', '.join(map(repr, others[:_SHOWN]))}"] if others else []
    facts: dict[str, Any] = {"series": len(steps_by_series), "columns": {}, "not_read": others}
    for place, column in enumerate(columns if steps else ()):
        numbers = [step.numbers[place] for step in steps]
        summary = {"least": min(numbers), "mean": fsum(numbers) / len(numbers), "greatest": max(numbers)}
        facts["columns"][column] = summary
        lines.append(f"  {column[:22]:<22} " + ", ".join(f"{name} {number:.4g}" for name, number in summary.items()))
    if steps:
        facts["lengths"] = asdict(measure([len(rows) for rows in steps_by_series.values()]))
    return Inspection(str(path), "steps", len(steps), bad, odd, facts, tuple(lines))


def _uneven(before: Sequence[Step], step: Step) -> bool:
    """Whether a step comes sooner or later than the second one came after the first."""
    times = [point.time for point in (before[0], before[1], before[-1], step) if point.time is not None]
    return len(times) == 4 and not isclose(times[3] - times[2], times[1] - times[0], rel_tol=1e-6)


SERIES = DataKind("series", SeriesConfig, _series)
