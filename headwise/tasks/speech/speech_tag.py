"""Labels of frames, of what sounds in every 10 ms of a recording, such as phones: the task and its predictor."""

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from headwise.config import Config
from headwise.data.batches import NO_TAG
from headwise.data.suggestions import Suggestion
from headwise.errors import ConfigError, DataError
from headwise.explain.explanation import Explanation, Layer
from headwise.explain.places import times
from headwise.labels import visible
from headwise.predictors import looking
from headwise.predictors.baselines import Baseline, majority
from headwise.predictors.classes import class_names, class_scores, most_frequent
from headwise.predictors.evaluating import evaluating
from headwise.predictors.predictor import Form
from headwise.predictors.rows import Scored, label_rows
from headwise.tasks._labelling import lacking
from headwise.tasks.speech import base
from headwise.tasks.speech.encoders import FrameEncoderConfig, FrameWindowConfig
from headwise.tasks.speech.listening import Listener
from headwise.tasks.speech.log_mel import frame_seconds
from headwise.tasks.speech.look import Track
from headwise.tasks.speech.marks import Mark, frame_labels, runs
from headwise.tasks.speech.models import EveryFrameConfig, FrameTagger, build_frame_tagger
from headwise.tasks.speech.recordings import Recording
from headwise.tasks.speech.utterances import MarkedConfig, SpeechBatch, load_recordings
from headwise.tasks.task import Assets, Description

# stretches that a title names
_TITLED = 12


@dataclass(frozen=True)
class FrameLabels:
    """The label of every frame of a recording, and how long a frame is, in seconds."""

    labels: list[str]
    seconds: float

    @property
    def marks(self) -> tuple[Mark, ...]:
        """Frames of one label as one stretch."""
        return runs(self.labels, self.seconds)


class SpeechTagger(Listener[FrameLabels]):
    """A model with its labels."""

    data: MarkedConfig

    def predict(self, items: Sequence[Recording | str] | str, options: Any = None) -> list[FrameLabels]:
        """The likeliest label of every frame of each recording; a text is the path of a sound file."""
        return [self._labels(odds) for odds in self.probabilities(items)]

    @torch.inference_mode()
    def probabilities(self, items: Sequence[Recording | str] | str) -> list[np.ndarray]:
        """(frames, labels) of each recording; errors as of `predict`."""

        def odds(batch: SpeechBatch) -> list[np.ndarray]:
            with evaluating(self.model):
                rows = self.model(batch.frames, batch.lens).float().softmax(-1).cpu()
            return [row[:count].numpy() for row, count in zip(rows, batch.lens.tolist(), strict=True)]

        return self.each(odds, self.batches(items))

    def write(self, item: Recording, output: FrameLabels, form: Form, options: Any = None) -> list[str]:
        """`start<tab>end<tab>label` in seconds, a line for each stretch; or JSON with the name of the recording."""
        if form == "text":
            return [f"{mark.start:.3f}\t{mark.end:.3f}\t{visible(mark.label)}" for mark in output.marks]
        marks = [[round(mark.start, 4), round(mark.end, 4), mark.label] for mark in output.marks]
        return [json.dumps({"path": item.name, "marks": marks}, ensure_ascii=False)]

    def scored(self, examples: Sequence[Recording], options: Any = None) -> Scored:
        """Accuracy and macro-F1 of the frames that have a label.

        `per_class` has precision, recall and F1 of each label, `confused` the most frequent mistakes.

        Raises: DataError: no recordings, or no labels in time.
        """
        frames = self._frames(examples, [output.labels for output in self.predict(examples)])
        predicted, gold = ([label for row in frames for label in row[side]] for side in (0, 1))
        per_class = class_scores(predicted, gold)
        scores: dict[str, float | str] = {"accuracy": sum(map(str.__eq__, predicted, gold)) / len(gold)}
        scores["macro_f1"] = per_class.macro_f1
        scores |= {"per_class": per_class.each} | ({"confused": per_class.confused} if per_class.confused else {})
        names = [recording.name for recording in examples]
        return Scored(scores, label_rows([row for row, _ in frames], [row for _, row in frames], names, "recordings"))

    def baselines(self, examples: Sequence[Recording]) -> Iterator[Baseline]:
        nothing = [[""] * self.heard(example).frames for example in examples]
        yield majority([label for _, gold in self._frames(examples, nothing) for label in gold])

    def _frames(
        self, examples: Sequence[Recording], predicted: Sequence[Sequence[str]]
    ) -> list[tuple[list[str], list[str]]]:
        """Of each recording the predicted and the true label of every frame that has one. Raises: as `evaluate`."""
        frames: list[tuple[list[str], list[str]]] = []
        for recording, labels in zip(examples, predicted, strict=True):
            if recording.marks is None:
                raise DataError(
                    f"{recording.name}: has no labels in time to compare with; give every recording its labels"
                )
            # the frames are those of the rate that the model hears
            expected = frame_labels(recording.marks, len(labels), self.known.rate, self.data.rest)
            pairs = [(a, b) for a, b in zip(labels, expected, strict=True) if b is not None]
            frames.append(([a for a, _ in pairs], [b for _, b in pairs]))
        if not any(gold for _, gold in frames):
            raise DataError("there is nothing to score: no frame has a label")
        return frames

    def explain(self, item: Recording | str, target: str | None = None) -> Explanation:
        """What the frames of each stretch look at, on average, in every layer; below the spectrogram and the labels.

        Of a model without attention the probability of every label, frame by frame.

        Raises: ConfigError: a target.
        """
        if target is not None:
            raise ConfigError("the labels of a recording cannot be given here; leave the target out")
        recording = self.heard(item)
        (odds,) = self.probabilities([recording])
        output = self._labels(odds)
        marks = output.marks
        row_names = [f"{mark.label} {mark.start:.2f} s" for mark in marks]
        shares = _shares(output.labels)
        layers = {}
        if looking.has_attention(self.model):
            (batch,) = self.batches(recording)
            for name, attention in looking.attended(self.model, batch.frames, batch.lens).items():
                places = attention.shape[2]
                of_places = _pooled(shares, self.model.factor, places)
                layers[name] = attention.layer(row_names, times(places, recording.seconds), "cross", rows=of_places)
        layers["output"] = Layer((shares @ odds)[None], row_names, self.known.outputs, "tags")
        track = Track(marks, self.known.outputs, odds.T)
        titled = [mark.label for mark in marks[:_TITLED]] + ["..."] * (len(marks) > _TITLED)
        return self.explained(recording, " ".join(titled), layers, track)

    def _labels(self, odds: np.ndarray) -> FrameLabels:
        return FrameLabels([self.known.outputs[at] for at in odds.argmax(-1).tolist()], frame_seconds(self.known.rate))


def frames_of(recording: Recording, rest: str | None) -> list[str | None]:
    """The label of every frame of a recording that has labels in time."""
    return frame_labels(recording.marks or (), recording.frames, recording.rate, rest)


def _shares(labels: Sequence[str]) -> np.ndarray:
    """(stretches, frames): the share of each frame in its stretch of equal labels."""
    sizes = [len(list(group)) for _, group in itertools.groupby(labels)]
    rows = np.repeat(np.arange(len(sizes)), sizes)
    return (rows == np.arange(len(sizes))[:, None]) / np.array(sizes, dtype=np.float64)[:, None]


def _pooled(shares: np.ndarray, factor: int, places: int) -> np.ndarray:
    """(stretches, places), from the frames that each place is made of."""
    padded = np.pad(shares, ((0, 0), (0, places * factor - shares.shape[1])))
    pooled: np.ndarray = padded.reshape(len(shares), places, factor).sum(-1)
    return pooled


class SpeechTagConfig(base.LabelledConfig):
    """Which recordings to label in time, and with which model."""

    data: MarkedConfig = Field(description="the recordings and their labels in time")
    frames: EveryFrameConfig = Field(EveryFrameConfig(), description="what the model hears of a recording")
    model: FrameEncoderConfig = Field(description=f"{base.ENCODERS}, mlp (neighbouring frames) or token")

    def model_post_init(self, context: object) -> None:
        if isinstance(self.model, FrameWindowConfig) and self.frames.subsampling != 1:
            raise ConfigError(
                f'model.kind = "mlp" reads frames as they are; leave out frames.subsampling ({self.frames.subsampling})'
            )


class SpeechTag(base.SpeechLabels):
    """A label for every frame of 10 ms; `training.batch_tokens` counts frames, losses are divided by labelled ones."""

    name: ClassVar[str] = "speech-tag"
    unit: ClassVar[str] = "frames"
    config_type: ClassVar[type[Config]] = SpeechTagConfig
    config: SpeechTagConfig

    @classmethod
    def prepare(cls, config: SpeechTagConfig) -> Assets[Mapping[str, list[Recording]]]:
        loaded, rest = load_recordings(config.data), config.data.rest
        counts = {part: Counter(_labels(recordings, rest)) for part, recordings in loaded.parts.items() if recordings}
        train_counts = Counter({label: count for label, count in counts["train"].items() if label is not None})
        if not train_counts:
            raise DataError(f"{config.data.train}: no frame has a label: there is nothing to learn")
        classes, best = class_names(list(train_counts), config.data.classes, "frames"), most_frequent(train_counts)
        notes = []
        for part, frames in counts.items():
            labelled = Counter({label: count for label, count in frames.items() if label is not None})
            if frames[None]:
                missing = f"{frames[None]:,} of {frames.total():,} frames have no label"
                notes.append(f"{part}: {missing}; set data.rest to one")
            if part != "train":
                notes.append(
                    f"{part}: always saying '{best}' is right for {frames[best] / max(labelled.total(), 1):.1%}"
                )
                notes += lacking(part, labelled, train_counts, "labels")
        return base.made_assets(config, loaded, classes, best, tuple(notes))

    @classmethod
    def suggest(cls, data: Mapping[str, Any]) -> Suggestion:
        return base.suggest(data, MarkedConfig, "Labels of frames", {"frames": {"bands": 40, "subsampling": 1}})

    def build(self) -> FrameTagger:
        constants = self.known.mean, self.known.deviation
        return build_frame_tagger(self.config.model, self.config.frames, constants, len(self.known.outputs))

    def answered(self, model: nn.Module, batch: SpeechBatch) -> tuple[Tensor, Tensor]:
        return model(batch.frames, batch.lens).flatten(0, 1), batch.targets.flatten()

    def sample(self, output: FrameLabels) -> str:
        return " ".join(mark.label for mark in output.marks)

    def predictor(self, model: nn.Module) -> SpeechTagger:
        assert isinstance(model, FrameTagger)
        return SpeechTagger(model, self.known, self.config.data)

    def description(self) -> Description:
        return self.described(
            "Labeller of frames", f"gives each frame of 10 ms one of {len(self.known.outputs)} labels"
        )

    def encode(self, recording: Recording) -> list[int]:
        # a label that training lacks is the number after all others
        unknown = len(self.numbers)
        labels = frames_of(recording, self.config.data.rest)
        return [NO_TAG if label is None else self.numbers.get(label, unknown) for label in labels]


def _labels(recordings: list[Recording], rest: str | None) -> Iterable[str | None]:
    return (label for recording in recordings for label in frames_of(recording, rest))
