"""A claim about attention as an experiment that anybody can run, and the record of a run."""

import datetime
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from pydantic import Field

from headwise import runtime
from headwise.compare.bench import Bench, SideRecord
from headwise.compare.lines import add_line, read_lines
from headwise.compare.verdicts import Cell, Control, Verdict, verdict, why
from headwise.config import Config
from headwise.errors import ConfigError
from headwise.locks import turn

Evidence = tuple[Sequence[Cell], Sequence[Control]]


@dataclass(frozen=True)
class Claim:
    """A sentence that may be wrong, and how to find out.

    Args:
        source: where the sentence comes from.
        rule: how the verdict follows from the numbers. Whoever changes it, or the experiment, raises `version`.
        written: day of the rule, which comes before every run.
        measure: cells and controls, of the whole experiment (True) or of a quick one of at most two CPU minutes.
        trial: the same of an experiment that trains models, in place of `measure`.
        weakness: why another experiment might come out otherwise: what is not held equal, not tried, or small.
        across: the words of the axis of the values.
    """

    name: str
    sentence: str
    source: str
    rule: str
    written: datetime.date
    measure: Callable[[bool], Evidence] | None = None
    version: int = 1
    trial: Callable[[Bench], Evidence] | None = None
    weakness: str = ""
    across: str = "value"

    def __post_init__(self) -> None:
        if (self.measure is None) == (self.trial is None):
            raise ConfigError(f"claim '{self.name}' needs one of measure and trial")

    def evidence(self, full: bool, bench: Bench | None) -> Evidence:
        """Runs the experiment. Raises: ConfigError for one that trains without a bench."""
        if self.measure is not None:
            return self.measure(full)
        if bench is None or self.trial is None:
            raise ConfigError(f"claim '{self.name}' trains models; give a folder for their runs")
        return self.trial(bench)


class ClaimRecord(Config):
    """What a run of a claim found."""

    name: str
    version: int
    variant: Literal["quick", "full"]
    sentence: str
    source: str
    rule: str
    written: datetime.date
    verdict: Verdict
    why: str
    cells: list[Cell]
    controls: list[Control]
    sides: list[SideRecord] = Field([])
    notes: list[str] = Field([])
    cpu_s: float
    processor: str
    ran: datetime.date
    release: str
    torch: str

    @property
    def left_out(self) -> list[Verdict]:
        """The verdicts without each seed in turn; empty where no condition is over three seeds or more."""
        count = max((len(cell.left_out) for cell in self.cells), default=0)
        return [
            verdict([cell.without(seed) if len(cell.left_out) == count else cell for cell in self.cells], self.controls)
            for seed in range(count)
        ]


def run_claim(claim: Claim, *, full: bool = False, bench: Bench | None = None) -> ClaimRecord:
    """Runs the experiment on one thread, and judges by its rule.

    Args:
        bench: where a claim that trains does so; it says itself whether the experiment is the full one.
    Raises: ConfigError: a claim that trains, without a bench; what training raises.
    """
    full = full if bench is None else bench.full
    start = _cpu_s()
    with runtime.threads_of(1):
        cells, controls = claim.evidence(full, bench)
    if bench is not None and bench.crashes:
        # what a side might have reached is not known
        cells, controls = [replace(cell, outcome="undecided") for cell in cells], []
    # of a run that was broken off, what was trained before counts too
    spent = max(_cpu_s() - start, bench.cpu_s if bench is not None else 0.0)
    return ClaimRecord(
        name=claim.name,
        version=claim.version,
        variant="full" if full else "quick",
        sentence=claim.sentence,
        source=claim.source,
        rule=claim.rule,
        written=claim.written,
        verdict=verdict(cells, controls),
        why=_why(cells, controls, bench),
        cells=list(cells),
        controls=list(controls),
        sides=bench.sides if bench is not None and claim.trial else [],
        notes=[*bench.notes, *_detectable(cells)] if bench is not None and claim.trial else [],
        cpu_s=round(spent, 1),
        processor=runtime.processor(),
        ran=datetime.datetime.now(datetime.UTC).date(),
        release=runtime.version(),
        torch=torch.__version__,
    )


def _why(cells: Sequence[Cell], controls: Sequence[Control], bench: Bench | None) -> str:
    if bench is not None and bench.crashes:
        return f"Undecided, since runs crashed; run it again. {'; '.join(bench.crashes)}"
    return why(cells, controls)


def _detectable(cells: Sequence[Cell]) -> list[str]:
    """For each condition over seeds that is undecided, how large a mean would have been clear of 0."""
    return [
        f"{cell.where}: with {len(cell.left_out)} seeds, half of the interval is {(cell.high - cell.low) / 2:.2g}"
        for cell in cells
        if cell.outcome == "undecided" and cell.left_out and cell.low is not None and cell.high is not None
    ]


def _cpu_s() -> float:
    """CPU seconds of this process and of those that it waited for."""
    return sum(os.times()[:4])


def read_records(path: Path) -> list[ClaimRecord]:
    """The records of a file, a line of JSON each, oldest first; none where there is no file.

    Raises: DataError: a line that is no record, with its number.
    """
    advice = "name a file that `headwise claims run --records` wrote, or a new one"
    return read_lines(path, ClaimRecord, "record of a claim", advice)


def add_record(path: Path, record: ClaimRecord) -> None:
    """Adds a record to a file, which is replaced in one step and checked before; several processes take turns.

    Raises: as `read_records` and `turn`.
    """
    with turn(path):
        read_records(path)
        add_line(path, record)


def newest(records: Iterable[ClaimRecord], claims: Iterable[Claim]) -> dict[str, ClaimRecord]:
    """The record that counts for each claim: of its present version, a full one before a quick one, the latest."""
    versions = {claim.name: claim.version for claim in claims}
    chosen: dict[str, ClaimRecord] = {}
    for record in records:
        before = chosen.get(record.name)
        if record.version == versions.get(record.name) and (
            before is None or record.variant == "full" or before.variant == "quick"
        ):
            chosen[record.name] = record
    return chosen


def earlier(records: Iterable[ClaimRecord], claims: Iterable[Claim]) -> dict[str, list[ClaimRecord]]:
    """For each claim the last record of each version before the present one, the oldest first."""
    versions = {claim.name: claim.version for claim in claims}
    last = {(record.name, record.version): record for record in records}
    history: dict[str, list[ClaimRecord]] = {}
    for (name, version), record in sorted(last.items()):
        if version < versions.get(name, 0):
            history.setdefault(name, []).append(record)
    return history
