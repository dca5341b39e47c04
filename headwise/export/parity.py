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
from headwise.export.answers import alike
from headwise.export.subject import COMPARED, Case, Written

T = TypeVar("T")

# of log-probabilities in float32; loss of BLEU of a quantized model
TOLERANCE, QUANTIZED_BLEU = 1e-5, 0.3
# of what a quantized model may lose: a point of a share, and a hundredth of other numbers
QUANTIZED_SHARE = 0.01
# by which a quantized model is judged, the first that a task has: what it may lose, and which way it improves
_MEASURES: dict[str, tuple[float | None, str]] = {
    "bleu": (QUANTIZED_BLEU, "high"),
    "wer": (1.0, "low"),
    "accuracy": (QUANTIZED_SHARE, "high"),
    "span_f1": (QUANTIZED_SHARE, "high"),
    "mean_iou": (QUANTIZED_SHARE, "high"),
    "auc": (QUANTIZED_SHARE, "high"),
    **dict.fromkeys(("rmse", "mse", "mae", "loss", "perplexity"), (None, "low")),
}
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

    def metric(
        self, subject: Any, cases: Sequence[Any], outputs: Sequence[Written], log_probs: Sequence[Any]
    ) -> dict[str, float]:
        """Its scores, as the run counts them."""
        scores: dict[str, float] = subject.metric(cases, outputs, log_probs)
        return scores


@dataclass(frozen=True)
class Parity:
    """A comparison.

    Args:
        identical: outputs that are equal, token by token.
        ties: outputs that differ, and are as good within the tolerance.
        largest_difference: of log-probabilities of the tokens of the references, or what `compares` says.
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
    compares: str = "log-probabilities"

    def failures(self) -> list[str]:
        """Why the two are not equal; none if they are."""
        if self.quantized:
            return self._losses()
        failures = []
        if self.identical + self.ties < self.compared:
            failures.append(f"{self.compared - self.identical - self.ties} of {self.compared} outputs differ")
        if not self.largest_difference <= self.tolerance:
            failures.append(
                f"{self.compares} differ by up to {self.largest_difference:.3g} (at most {self.tolerance:g})"
            )
        return failures

    def _losses(self) -> list[str]:
        ours, theirs = (self.metrics[side] for side in ("headwise", self.format))
        name = next((name for name in _MEASURES if name in ours), None)
        if name is None:
            return []
        bound, better = _MEASURES[name]
        loss = ours[name] - theirs[name] if better == "high" else theirs[name] - ours[name]
        # a measure of no bound has one relative to its size
        most = bound or QUANTIZED_SHARE * abs(ours[name])
        worse = "lower" if better == "high" else "higher"
        if loss <= most:
            return []
        return [f"{_shown(name)} is {theirs[name]:.4g} in place of {ours[name]:.4g} (at most {most:.3g} {worse})"]

    def files(self) -> dict[str, bytes]:
        """PARITY.md and parity.json."""
        text = json.dumps(asdict(self), indent=1, ensure_ascii=False, sort_keys=True) + "\n"
        return {FILE: text.encode(), PAGE: self._page().encode()}

    def _page(self) -> str:
        fewer = f" (all there are; {COMPARED} are compared where there are so many)" if self.compared < COMPARED else ""
        rows = {
            "examples": f"{self.compared} of the {self.split} part{fewer}",
            "identical outputs": f"{self.identical}" + (f", and {self.ties} as good to rounding" if self.ties else ""),
            f"largest difference of {self.compares}": f"{self.largest_difference:.3g}",
            **{
                f"{name}, Headwise / {self.format}": f"{value:.6g} / {self.metrics[self.format][name]:.6g}"
                for name, value in self.metrics["headwise"].items()
                if name in self.metrics[self.format]
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


def compare(subject: Any, runner: Runner, name: str, options: Mapping[str, Any], *, quantized: bool) -> Parity:
    """Both sides on the held-out examples of a run."""
    cases = subject.cases()
    if not cases:
        raise CheckpointError(f"{subject.run}: there is no example to compare on; name a file with --data")
    (ours, own_s), (theirs, their_s) = _timed(lambda: subject.search(cases)), _timed(lambda: runner.search(cases))
    log_probs, their_log_probs = subject.log_probs(cases), runner.log_probs(cases)
    same = [alike(own.tokens, their.tokens, TOLERANCE) for own, their in zip(ours, theirs, strict=True)]
    scores = [abs(own.score - their.score) for own, their in zip(ours, theirs, strict=True)]
    metrics = subject.metric(cases, ours, log_probs)
    return Parity(
        format=name,
        run=str(subject.run.resolve()),
        sha256=subject.digest(),
        split=subject.split,
        options=dict(options),
        compared=len(ours),
        identical=sum(same),
        ties=sum(not equal and score <= TOLERANCE for equal, score in zip(same, scores, strict=True)),
        largest_difference=max(map(_difference, log_probs, their_log_probs)),
        tolerance=TOLERANCE,
        metrics={"headwise": metrics, name: runner.metric(subject, cases, theirs, their_log_probs)},
        versions={"headwise": runtime.version(), "torch": torch.__version__, **runner.versions()},
        seconds={"headwise": own_s, name: their_s},
        quantized=quantized,
        compares=subject.compares,
    )


def _difference(own: Any, their: Any) -> float:
    """The largest difference of two rows of log-probabilities, or of other numbers, relative to sizes above 1.

    A log-probability of -6 in float32 is off by 1e-5 in CTranslate2 alone, measured against float64.
    """
    ours, theirs = (torch.as_tensor(row, dtype=torch.float64) for row in (own, their))
    if ours.shape != theirs.shape:
        return float("inf")
    differences = ((ours - theirs).abs() / ours.abs().clamp(min=1.0)).nan_to_num(float("inf"))
    return float(differences.max()) if differences.numel() else 0.0


def _shown(metric: str) -> str:
    return metric.upper() if metric in ("bleu", "wer", "auc") else metric


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    start = time.process_time()
    result = work()
    return result, time.process_time() - start
