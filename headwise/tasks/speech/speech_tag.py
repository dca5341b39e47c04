"""Labels of frames: what sounds in every 10 ms of a recording; phones, digits, or whatever the data calls it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from pydantic import Field
from torch import Tensor, nn

from headwise.config import Config
from headwise.data.batches import NO_TAG
from headwise.data.suggestions import Suggestion
from headwise.errors import ConfigError, DataError
from headwise.predictors.classes import class_names, most_frequent
from headwise.tasks._labelling import lacking
from headwise.tasks.speech import base
from headwise.tasks.speech.encoders import FrameEncoderConfig, FrameWindowConfig
from headwise.tasks.speech.models import EveryFrameConfig, FrameTagger, build_frame_tagger
from headwise.tasks.speech.recordings import Recording
from headwise.tasks.speech.speech_tagger import FrameLabels, SpeechTagger, frames_of
from headwise.tasks.speech.utterances import MarkedConfig, SpeechBatch, load_recordings
from headwise.tasks.task import Assets, Description


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
