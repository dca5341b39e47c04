"""Classification of recordings, each of one class, such as the digit that is said: the task and its predictor."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from headwise.config import Config
from headwise.data.suggestions import Suggestion
from headwise.errors import ConfigError
from headwise.explain.explanation import Explanation
from headwise.explain.places import times
from headwise.labels import decimals, probability, visible
from headwise.models.pooling import AttentionOverSequence, SequencePoolingConfig
from headwise.predictors import looking
from headwise.predictors.baselines import (
    Baseline,
    logistic_regression,
    majority,
    named,
    of_labels,
    sample,
    standardised,
)
from headwise.predictors.classes import class_names, most_frequent, verdict_scores
from headwise.predictors.predictor import Form
from headwise.predictors.rows import Scored
from headwise.tasks._labelling import lacking
from headwise.tasks.demo import Demo
from headwise.tasks.speech import base
from headwise.tasks.speech.demo import SPEECH_CLASSIFY
from headwise.tasks.speech.encoders import SpeechEncoderConfig
from headwise.tasks.speech.listening import Listener, gold_of
from headwise.tasks.speech.models import SpeechClassifier, build_speech_classifier
from headwise.tasks.speech.recordings import Recording, RecordingsConfig
from headwise.tasks.speech.utterances import SpeechBatch, Strings, load_recordings, read_recordings
from headwise.tasks.task import Assets, Description


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

    def scored(self, examples: Sequence[Recording], options: Any = None) -> Scored:
        """Scores as of `verdict_scores`. Raises: DataError: recordings without a label."""
        gold = gold_of(examples)
        return verdict_scores(self.predict(examples), gold, [recording.name for recording in examples])

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
            keys = times(attention.shape[2], recording.seconds)
            layers[name] = attention.layer([answer] if pooled else keys, keys, "pooled" if pooled else None)
        return self.explained(recording, answer, layers)


class SpeechClassifyConfig(base.LabelledConfig):
    """Which recordings to tell apart, and with which model."""

    data: RecordingsConfig = Field(description="the recordings")
    model: SpeechEncoderConfig = Field(description=f"{base.ENCODERS} or token (each alone)")
    pooling: SequencePoolingConfig = Field(
        SequencePoolingConfig(), description="from the states of a recording to one vector: any kind but cls"
    )

    def model_post_init(self, context: object) -> None:
        if self.pooling.kind == "cls":
            raise ConfigError('pooling.kind = "cls" is for texts; use mean, max, last or attention')
        self.pooling.check(self.model)


class SpeechClassify(base.SpeechLabels):
    """Telling recordings apart, each of which has one class; `training.batch_tokens` counts frames of 10 ms."""

    name: ClassVar[str] = "speech-classify"
    demo: ClassVar[Demo | None] = SPEECH_CLASSIFY
    unit: ClassVar[str] = "recordings"
    config_type: ClassVar[type[Config]] = SpeechClassifyConfig
    config: SpeechClassifyConfig

    @classmethod
    def prepare(cls, config: SpeechClassifyConfig) -> Assets[Mapping[str, list[Recording]]]:
        loaded = load_recordings(config.data)
        labels = [recording.label or "" for recording in loaded.parts["train"]]
        classes, best = class_names(labels, config.data.classes, "recordings"), most_frequent(Counter(labels))
        notes = []
        for part, recordings in loaded.parts.items():
            if part != "train" and recordings:
                counts = Counter(str(recording.label) for recording in recordings)
                notes.append(f"{part}: always saying '{best}' is right for {counts[best] / len(recordings):.1%}")
                notes += lacking(part, counts, classes)
        return base.made_assets(config, loaded, classes, best, tuple(notes))

    @classmethod
    def examples(cls, config: SpeechClassifyConfig, split: str) -> list[Recording]:
        return read_recordings(config.data, split)

    @classmethod
    def baselines(
        cls, config: SpeechClassifyConfig, predictor: SpeechLabeller, examples: Sequence[Recording]
    ) -> Iterator[Baseline]:
        """Logistic regression on mean and deviation of every band."""
        every = cls.examples(config, "train")
        train = sample(every)
        train_features, features = standardised(predictor.summaries(train), predictor.summaries(examples))
        predicted = logistic_regression(train_features, [recording.label or "" for recording in train], features)
        name = named("mean bands and logistic regression", len(train), len(every))
        yield of_labels(name, predicted, [recording.label or "" for recording in examples])

    @classmethod
    def suggest(cls, data: Mapping[str, Any]) -> Suggestion:
        return base.suggest(
            data, RecordingsConfig, "Classification of speech", {"pooling": {"kind": "attention", "num_heads": 4}}
        )

    def build(self) -> SpeechClassifier:
        constants = self.known.mean, self.known.deviation
        config = self.config
        return build_speech_classifier(config.model, config.frames, config.pooling, constants, len(self.known.outputs))

    def strings(self, count: int, *, held_out: bool) -> Strings:
        return Strings(count)

    def answered(self, model: nn.Module, batch: SpeechBatch) -> tuple[Tensor, Tensor]:
        return model(batch.frames, batch.lens), batch.targets[:, 0]

    def sample(self, output: Mapping[str, float]) -> str:
        label, share = next(iter(output.items()))
        return f"{label} {decimals(share)}"

    def predictor(self, model: nn.Module) -> SpeechLabeller:
        assert isinstance(model, SpeechClassifier)
        return SpeechLabeller(model, self.known, self.config.data)

    def description(self) -> Description:
        return self.described("Classifier of recordings", f"tells {len(self.known.outputs)} classes apart")

    def encode(self, recording: Recording) -> list[int]:
        return [self.numbers.get(recording.label or "", len(self.numbers))]
