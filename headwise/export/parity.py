"""The proof that an exported model computes what its run does: PARITY.md and parity.json."""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import torch

from headwise import runtime
from headwise.errors import CheckpointError
from headwise.export.subject import COMPARED, Case, Subject, Written

T = TypeVar("T")

# of log-probabilities in float32; loss of BLEU of a quantized model
TOLERANCE, QUANTIZED_BLEU = 1e-5, 0.3
FILE, PAGE = "parity.json", "PARITY.md"


class Runner(ABC):
    """An exported model in the program that it was exported to."""

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Of that program."""

    @abstractmethod
    def search(self, cases: Sequence[Case]) -> list[Written]:
        """What it writes, searching as the run does."""

    @abstractmethod
    def log_probs(self, cases: Sequence[Case]) -> list[list[float]]:
        """The log-probability of every token of the targets."""


@dataclass(frozen=True)
class Parity:
    """A comparison.

    Args:
        identical: outputs that are equal, token by token.
        ties: outputs that differ, and are as good within the tolerance.
        largest_difference: of log-probabilities of the tokens of the references.
        metrics: of both sides.
        seconds: CPU seconds of both sides for the search.
    """

    format: str
    run: str
    sha256: str
    split: str
    options: dict[str, Any]
    compared: int
    identical: int
    ties: int
    largest_difference: float
    tolerance: float
    metrics: dict[str, dict[str, float]]
    versions: dict[str, str]
    seconds: dict[str, float]
    quantized: bool

    def failures(self) -> list[str]:
        """Why the two are not equal; none if they are."""
        if self.quantized:
            return self._losses()
        failures = []
        if self.identical + self.ties < self.compared:
            failures.append(f"{self.compared - self.identical - self.ties} of {self.compared} outputs differ")
        if not self.largest_difference <= self.tolerance:
            failures.append(
                f"log-probabilities differ by up to {self.largest_difference:.3g} (at most {self.tolerance:g})"
            )
        return failures

    def _losses(self) -> list[str]:
        ours, theirs = (self.metrics[side].get("bleu") for side in ("headwise", self.format))
        if ours is not None and theirs is not None and ours - theirs > QUANTIZED_BLEU:
            return [f"BLEU is {theirs:.2f} in place of {ours:.2f} (at most {QUANTIZED_BLEU} lower)"]
        return []

    def files(self) -> dict[str, bytes]:
        """PARITY.md and parity.json."""
        text = json.dumps(asdict(self), indent=1, ensure_ascii=False, sort_keys=True) + "\n"
        return {FILE: text.encode(), PAGE: self._page().encode()}

    def _page(self) -> str:
        fewer = f" (all there are; {COMPARED} are compared where there are so many)" if self.compared < COMPARED else ""
        rows = {
            "examples": f"{self.compared} of the {self.split} part{fewer}",
            "identical outputs": f"{self.identical}" + (f", and {self.ties} as good to rounding" if self.ties else ""),
            "largest difference of log-probabilities": f"{self.largest_difference:.3g}",
            **{
                f"{name}, Headwise / {self.format}": f"{value:.6g} / {self.metrics[self.format][name]:.6g}"
                for name, value in self.metrics["headwise"].items()
            },
            "CPU seconds, Headwise / "
            + self.format: f"{self.seconds['headwise']:.2f} / {self.seconds[self.format]:.2f}",
            "versions": ", ".join(f"{name} {version}" for name, version in self.versions.items()),
            "run": self.run,
            "SHA-256 of its weights": f"`{self.sha256}`",
        }
        table = "".join(f"| {name} | {value} |\n" for name, value in rows.items())
        verdict = "; ".join(self.failures()) or ("within the bounds of quantization" if self.quantized else "equal")
        head = f"# Parity\n\nBoth sides: {verdict}.\n\n| | |\n|---|---|\n"
        return f"{head}{table}\nRepeat it: `headwise export --check FOLDER`.\n"


def compare(subject: Subject, runner: Runner, name: str, options: Mapping[str, Any], *, quantized: bool) -> Parity:
    """Both sides on the held-out examples of a run."""
    cases = subject.cases()
    if not cases:
        raise CheckpointError(f"{subject.run}: there is no example to compare on; name a file with --data")
    (ours, own_s), (theirs, their_s) = _timed(lambda: subject.search(cases)), _timed(lambda: runner.search(cases))
    log_probs, their_log_probs = subject.log_probs(cases), runner.log_probs(cases)
    pairs = list(zip(ours, theirs, strict=True))
    identical = sum(own.tokens == their.tokens for own, their in pairs)
    ties = sum(own.tokens != their.tokens and abs(own.score - their.score) <= TOLERANCE for own, their in pairs)
    differences = [
        abs(own - their)
        for own_row, their_row in zip(log_probs, their_log_probs, strict=True)
        for own, their in zip(own_row, their_row, strict=True)
    ]
    return Parity(
        format=name,
        run=str(subject.run.resolve()),
        sha256=subject.digest(),
        split=subject.split,
        options=dict(options),
        compared=len(cases),
        identical=identical,
        ties=ties,
        largest_difference=max(differences),
        tolerance=TOLERANCE,
        metrics={
            "headwise": subject.metric(cases, ours, log_probs),
            name: subject.metric(cases, theirs, their_log_probs),
        },
        versions={"headwise": runtime.version(), "torch": torch.__version__, **runner.versions()},
        seconds={"headwise": own_s, name: their_s},
        quantized=quantized,
    )


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    start = time.process_time()
    result = work()
    return result, time.process_time() - start
