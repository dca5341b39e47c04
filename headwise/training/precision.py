"""Which precision a run searches in where the choice is left to it: what 8 bits gain here, and what they lose."""

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from headwise import native, runtime
from headwise.errors import CheckpointError, HeadwiseError, MachineError
from headwise.layers.inference import has_int8, int8_bits, int8_product
from headwise.predictors.predictor import Predictor
from headwise.predictors.twins import Choice, Requested
from headwise.processes import ALONE, sharing
from headwise.runs.commits import MANIFEST, commit_file

FILE = "decoding.json"
# examples of the held-out part that both precisions are compared on
_COMPARED = 200
# how much worse a score may be: points of BLEU and of the word error rate, nats a token; negative where high is good
_BOUNDS = {"bleu": -0.3, "wer": 1.0, "loss": 0.01}
# "auto" takes 8 bits where their products have this many times the rate of float32
_GAIN = 1.5


class Quality(NamedTuple):
    """A score in both precisions."""

    metric: str
    fp32: float
    int8: float
    examples: str

    @property
    def fits(self) -> bool:
        """Whether 8 bits lose no more than is allowed; a score that is no number does not."""
        bound = _BOUNDS[self.metric]
        return (self.int8 - self.fp32) * (1 if bound > 0 else -1) <= abs(bound)

    def __str__(self) -> str:
        return f"{self.metric} {self.int8:.4g} in place of {self.fp32:.4g} on {self.examples}"


class Decision:
    """Chooses the precision of a run, once for each state of its weights, processor and PyTorch: `decoding.json`.

    Args:
        examples: the labelled examples of a split. Raises: HeadwiseError where there are none.
        gain: the rate of 8-bit products in relation to float32.
    """

    def __init__(
        self,
        run: Path,
        predictor: Predictor[Any, Any, Any],
        examples: Callable[[str], list[Any]],
        gain: Callable[[], float] | None = None,
    ):
        self._run, self._predictor, self._examples, self._gain = run, predictor, examples, gain or int8_gain

    def __call__(self, requested: Requested) -> Choice:
        """The choice, with its reason."""
        saved = self._saved()
        if requested == "auto":
            gain = saved.get("gain") or self._gain()
            if gain < _GAIN:
                self._save({**saved, "gain": gain})
                return Choice("fp32", f"products of 8 bits have {gain:.1f} times the rate of float32 here")
            saved = {**saved, "gain": gain}
        try:
            quality = Quality(**saved["quality"]) if "quality" in saved else self._measured()
        except HeadwiseError as error:
            unchecked = f"there is nothing to check 8 bits by: {error}"
            return Choice("fp32", unchecked) if requested == "auto" else Choice("int8", f"as requested; {unchecked}")
        self._save({**saved, "quality": quality._asdict()})
        if not quality.fits:
            allowed = f"at most {abs(_BOUNDS[quality.metric])} worse is allowed"
            return Choice("fp32", f"8 bits would lose too much: {quality}; {allowed}")
        faster = f"products have {saved['gain']:.1f} times the rate of float32 here; " if requested == "auto" else ""
        return Choice("int8", f"{faster}{quality}")

    def _measured(self) -> Quality:
        """Both precisions in turn, by greedy search. Raises: HeadwiseError where there are no examples."""
        split, held_out = self._held_out()
        predictor = self._predictor
        how = {"method": "greedy"} | ({} if predictor.engines() is None else {"engine": "headwise"})
        # every process for itself, since not all of them may be here
        with sharing(ALONE):
            scores = [
                predictor.evaluate(held_out, options=predictor.options({**how, "precision": precision}))
                for precision in ("fp32", "int8")
            ]
        metric = next((name for name in _BOUNDS if name in scores[0]), None)
        if metric is None:
            raise CheckpointError(f"its task has none of the scores {', '.join(_BOUNDS)}")
        exact, rounded = (float(values[metric]) for values in scores)
        return Quality(metric, exact, rounded, f"{len(held_out)} examples of the {split} part")

    def _held_out(self) -> tuple[str, list[Any]]:
        problem: HeadwiseError | None = None
        for split in ("valid", "test"):
            try:
                if held_out := self._examples(split)[:_COMPARED]:
                    return split, held_out
            except HeadwiseError as error:
                problem = problem or error
        raise problem or CheckpointError("the run has no held-out part")

    def _state(self) -> dict[str, str]:
        """What a choice holds for."""
        digest = sha256((self._run / MANIFEST).read_bytes()).hexdigest()
        # in C++ smaller layers are rounded too
        bits = f"{int8_bits()}, {'C++' if native.build().library else 'PyTorch'}" if has_int8() else ""
        return {"manifest": digest, "processor": runtime.processor(), "torch": torch.__version__, "bits": bits}

    def _saved(self) -> dict[str, Any]:
        """What was measured before in this state."""
        try:
            saved = json.loads((self._run / FILE).read_bytes())
            Quality(**saved.get("quality", {"metric": "loss", "fp32": 0.0, "int8": 0.0, "examples": ""}))
            return saved if saved.items() >= self._state().items() else {}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def _save(self, measured: Mapping[str, Any]) -> None:
        """For the next process; in a folder that cannot be written it measures again."""
        try:
            text = json.dumps({**self._state(), **measured}, indent=1, sort_keys=True) + "\n"
            if not (self._run / FILE).is_file() or (self._run / FILE).read_text() != text:
                commit_file(self._run / FILE, text.encode())
        except (OSError, MachineError):
            return


def int8_gain() -> float:
    """The rate of an 8-bit product in relation to float32, by processor time: 5 rows, 512 to 2,048 columns."""
    linear = nn.Linear(512, 2048, device="cpu", dtype=torch.float32)
    x = torch.linspace(-1, 1, 5 * 512, device="cpu", dtype=torch.float32).view(5, 512)
    rounded = int8_product(linear)
    # turn by turn: what else runs on the machine slows both alike; the first turn warms up
    turns = [(_seconds(linear, x), _seconds(rounded, x)) for _ in range(8)][1:]
    plain_s, rounded_s = (min(column) for column in zip(*turns, strict=True))
    # a clock too coarse to see either shows no gain
    return plain_s / rounded_s if rounded_s > 0 else 1.0


@torch.inference_mode()
def _seconds(product: Callable[[Tensor], Tensor], x: Tensor) -> float:
    start = process_time()
    for _ in range(20):
        product(x)
    return process_time() - start
