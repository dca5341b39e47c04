"""A trained classifier of recordings: says which class each is of, scores itself, shows which frames it looks at."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from headwise.errors import ConfigError, DataError
from headwise.explain.explanation import Explanation
from headwise.explain.places import times
from headwise.labels import decimals, probability, visible
from headwise.models.pooling import AttentionOverSequence
from headwise.predictors import looking
from headwise.predictors.baselines import Baseline, majority
from headwise.predictors.classes import verdict_scores
from headwise.predictors.predictor import Form
from headwise.tasks.speech.listening import Listener
from headwise.tasks.speech.recordings import Recording
from headwise.tasks.speech.utterances import SpeechBatch


class SpeechLabeller(Listener[dict[str, float]]):
    """A model with its classes."""

    @torch.inference_mode()
    def predict(self, items: Sequence[Recording | str] | str, options: Any = None) -> list[dict[str, float]]:
        """The probability of every class for each recording, the likeliest first; a text is the path of a file."""

        def shares(batch: SpeechBatch) -> list[dict[str, float]]:
            rows = self.model(batch.frames, batch.lens).float().softmax(-1).tolist()
            named = (zip(self.known.outputs, row, strict=True) for row in rows)
            return [dict(sorted(row, key=lambda share: -share[1])) for row in named]

        return self.each(shares, self.batches(items))

    def write(self, item: Recording, output: dict[str, float], form: Form, options: Any = None) -> list[str]:
        """`class<tab>probability`; or JSON with the name of the recording and the probability of every class."""
        label, share = next(iter(output.items()))
        if form == "text":
            return [f"{visible(label)}\t{probability(share)}"]
        return [json.dumps({"path": item.name, "label": label, "probabilities": output}, ensure_ascii=False)]

    def scores_of(self, examples: Sequence[Recording], options: Any = None) -> dict[str, float | str]:
        """Scores as of `verdict_scores`. Raises: DataError: recordings without a label."""
        gold = gold_of(examples)
        return verdict_scores(self.predict(examples), gold)

    def baselines(self, examples: Sequence[Recording]) -> Iterator[Baseline]:
        yield majority(gold_of(examples))

    def explain(self, item: Recording | str, target: str | None = None) -> Explanation:
        """What the pooling and every attention layer look at, frame by frame.

        Raises:
            ConfigError: a target.
            Unsupported: a model without attention.
        """
        if target is not None:
            raise ConfigError("the class of a recording cannot be given here; leave the target out")
        recording = self.heard(item)
        (label, share), *_ = self.predict([recording])[0].items()
        answer = f"{label} {decimals(share)}"
        (batch,) = self.batches(recording)
        layers = {}
        for name, attention in looking.attended(self.model, batch.frames, batch.lens).items():
            pooled = isinstance(self.model.pooling, AttentionOverSequence) and name.startswith("pooling.")
            keys = times(attention.weights.shape[-1], recording.seconds)
            layers[name] = attention.layer([answer] if pooled else keys, keys, "pooled" if pooled else None)
        return self.explained(recording, answer, layers)


def gold_of(examples: Sequence[Recording]) -> list[str]:
    """What is right for each example. Raises: DataError for one without a label."""
    for recording in examples:
        if recording.label is None:
            raise DataError(f"{recording.name}: has no label to compare with; give every recording its label")
    return [recording.label or "" for recording in examples]
