"""Held-out examples of any task, and what one side answers: outputs, what the model gave, and the task's own scores."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from headwise.data.files import sha256
from headwise.errors import DataError, HeadwiseError, Unsupported
from headwise.export.subject import COMPARED, Subject, Written, without_chance
from headwise.models.decoder_only import DecoderOnly
from headwise.runs.publish import MODEL
from headwise.training.loading import examples, load, recipe_of
from headwise.training.recipe import Recipe, flattened


@dataclass
class Answers:
    """A run with examples, of any task.

    Args:
        split: where the examples come from.
    """

    run: Path
    recipe: Recipe
    predictor: Any
    held_out: Sequence[Any]
    split: str
    compares: ClassVar[str] = "outputs of the model"

    @property
    def model(self) -> nn.Module:
        model: nn.Module = self.predictor.model
        return model

    def flat(self) -> dict[str, Any]:
        """The keys of the recipe."""
        return flattened(self.recipe)

    def digest(self) -> str:
        """SHA-256 of the weights."""
        return sha256(self.run / MODEL)

    def cases(self) -> list[Any]:
        """The examples."""
        return list(self.held_out)

    @torch.inference_mode()
    def search(self, cases: Sequence[Any]) -> list[Written]:
        """What is answered to each; where examples give no inputs, what is counted of each."""
        try:
            items = [self.predictor.input_of(example) for example in cases]
        except HeadwiseError:
            columns = self.predictor.evaluate_each(cases).rows.columns
            return [Written([list(row)], math.nan) for row in zip(*columns.values(), strict=True)]
        answers = self.predictor.predict(items)
        return [Written([answer], _score(answer)) for answer in answers]

    @torch.inference_mode()
    def log_probs(self, cases: Sequence[Any]) -> list[Any]:
        """What the model gave at each call; of one that writes, the mean log-probability of each text."""
        outputs: list[Any] = []
        handle = self.model.register_forward_hook(lambda module, inputs, output: outputs.append(_first(output)))
        try:
            scored = self.predictor.evaluate_each(cases)
        finally:
            handle.remove()
        if outputs:
            return outputs
        columns = scored.rows.columns
        if "nll" not in columns:
            # nothing is counted of references: of its own outputs
            written = [
                output for example in cases for output in self.predictor.outputs(self.predictor.input_of(example))
            ]
            return [torch.tensor([output.log_prob / max(1, len(output.tokens))]) for output in written]
        pairs = zip(columns["nll"], columns["tokens"], strict=True)
        return [torch.tensor([-nll / max(1, tokens)]) for nll, tokens in pairs]

    def metric(self, cases: Sequence[Any], outputs: Sequence[Written], log_probs: Sequence[Any]) -> dict[str, float]:
        """The scores of the task."""
        scores = self.predictor.evaluate(cases)
        return {name: float(score) for name, score in scores.items() if isinstance(score, int | float)}


def _first(output: Any) -> Tensor:
    tensor: Tensor = output if isinstance(output, Tensor) else output[0]
    return tensor.detach().double()


def _score(answer: Any) -> float:
    """What a written answer is ranked by."""
    best = answer[0] if isinstance(answer, list) and answer else answer
    score = getattr(best, "score", math.nan)
    return float(score)


def alike(own: Any, their: Any, tolerance: float) -> bool:
    """Whether two answers are the same, numbers within a tolerance, relative where above 1.

    >>> alike(["a", 2, 0.5], ["a", 2, 0.5000001], 1e-5), alike("a", "b", 1e-5), alike([1], [1, 2], 1e-5)
    (True, False, False)
    """
    if isinstance(own, float):
        return bool(
            own == their or abs(own - their) <= tolerance * max(1.0, abs(own)) or (own != own and their != their)
        )
    if isinstance(own, Tensor | np.ndarray):
        ours, theirs = np.asarray(own), np.asarray(their)
        return ours.shape == theirs.shape and bool(np.allclose(ours, theirs, tolerance, tolerance, equal_nan=True))
    if is_dataclass(own):
        return all(alike(getattr(own, part.name), getattr(their, part.name), tolerance) for part in fields(own))
    if isinstance(own, dict):
        return own.keys() == their.keys() and all(alike(own[key], their[key], tolerance) for key in own)
    if isinstance(own, list | tuple):
        pairs = zip(own, their, strict=False)
        return len(own) == len(their) and all(alike(*pair, tolerance) for pair in pairs)
    return bool(own == their)


def subject_of(
    run: Path, split: str | None, data: Mapping[str, Any] | None, *, everything: bool = False
) -> Subject | Answers:
    """A run and its held-out examples.

    Args:
        everything: of any task; else of those that write texts.

    Raises: Unsupported for a task whose outputs are no texts; DataError where there are no examples.
    """
    recipe, predictor = recipe_of(run), settled(load(run))
    texts = writes_texts(predictor)
    if not texts and not everything:
        raise Unsupported(
            f"{run}: task {recipe.task} cannot be exported to this format, which takes translate, summarise and"
            " language-model; onnx and torch take any task"
        )
    kind: Any = Subject if texts else Answers
    for part in [split] if split else ["test", "valid", "train"]:
        try:
            held_out = examples(run, part, data)[:COMPARED]
        except DataError as error:
            problem = error
            continue
        subject: Subject | Answers = kind(run, recipe, predictor, held_out, part)
        return subject
    raise problem


def writes_texts(predictor: Any) -> bool:
    """Whether it searches for texts with an encoder-decoder or a decoder, as formats of writers need."""
    return hasattr(predictor, "source_tokenizer") or isinstance(predictor.model, DecoderOnly)


def settled(predictor: Any) -> Any:
    """The predictor, whose searches are in float32 and without chance, whatever its recipe says."""
    twin = predictor.twin()
    if twin is not None:
        twin.instead = "fp32"
    holder = getattr(predictor, "translator", predictor)
    if getattr(getattr(holder, "decoding", None), "method", None) == "sample":
        holder.decoding = without_chance(holder.decoding)
    return predictor
