"""What the tasks that listen share: configuration, files, sources."""

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, ClassVar

from pydantic import Field
from torch import nn

from headwise.config import Config, build
from headwise.data.inspection import DataKind
from headwise.data.sources import Limits, Source
from headwise.data.suggestions import Suggestion, held_out
from headwise.tasks._files import as_json, from_json
from headwise.tasks._labelling import Labelling
from headwise.tasks.speech.encoders import FrameEncoderConfig
from headwise.tasks.speech.listening import Known
from headwise.tasks.speech.models import FramesConfig
from headwise.tasks.speech.recordings import Recording, RecordingsConfig, at_rate
from headwise.tasks.speech.report import RECORDINGS
from headwise.tasks.speech.utterances import (
    Recordings,
    SpeechBatch,
    Strings,
    Utterances,
    concatenated,
    load_recordings,
    measured,
    read_recordings,
)
from headwise.tasks.task import Assets, Description, Task

SPEECH_FILE = "speech.json"
ENCODERS = "the encoder: conformer, attention, rnn, cnn, window (neighbouring places)"


class SpeechConfig(Config):
    """What is heard, and by which model."""

    frames: FramesConfig = Field(FramesConfig(), description="what the model hears of a recording")
    model: FrameEncoderConfig = Field(description=f"{ENCODERS} or token (each alone)")
    num_shown: int = Field(4, ge=0, description="recordings shown at each validation, with the prediction")


class LabelledConfig(SpeechConfig):
    """What is heard, and by which model, that says labels."""

    label_smoothing: float = Field(0.0, ge=0, lt=1, description="share of the target spread over the labels")


class SpeechTask(Task[Mapping[str, list[Recording]]]):
    """A task on recordings; `training.batch_tokens` counts frames of 10 ms."""

    kinds: ClassVar[tuple[DataKind, ...]] = (RECORDINGS,)
    config: Any

    def __init__(self, config: Any, assets: Assets[Mapping[str, list[Recording]]]):
        super().__init__(config, assets)
        self.known = known_of(assets, config.frames.bands)

    @classmethod
    def examples(cls, config: Any, split: str) -> list[Recording]:
        """The recordings of a part, joined as validation hears them."""
        recordings = read_recordings(config.data, split)
        strings = config.data.strings(len(recordings), held_out=split != "train")
        return [
            concatenated([at_rate(recordings[at], recordings[0].rate) for at in string])
            for string in strings.drawn(0, 0)
        ]

    @abstractmethod
    def encode(self, recording: Recording) -> list[int]:
        """The numbers that a recording is to give."""

    def strings(self, count: int, *, held_out: bool) -> Strings:
        """Which of so many recordings are heard together."""
        strings: Strings = self.config.data.strings(count, held_out=held_out)
        return strings

    def source(self, split: str, limits: Limits) -> Source[SpeechBatch] | None:
        recordings, train = (self.assets.data or {}).get(split), split == "train"
        if not recordings:
            return None
        strings = self.strings(len(recordings), held_out=not train)
        return Utterances(recordings, self.encode, strings, self.config.frames.bands).source(limits, shuffle=train)

    def samples(self, model: nn.Module) -> list[str]:
        parts = self.assets.data or {}
        chosen = list(parts.get("valid") or parts.get("train") or ())[: self.config.num_shown]
        outputs = zip(chosen, self.predictor(model).predict(chosen), strict=True)
        return [
            f"{PurePath(recording.name).name} ({recording.label}) → {self.sample(output)}"
            for recording, output in outputs
        ]

    @abstractmethod
    def sample(self, output: Any) -> str:
        """An output as validations show it."""

    def described(self, title: str, answer: str) -> Description:
        """What the README of a run says.

        Args:
            answer: what the encoder does.
        """
        config, count = self.config, len((self.assets.data or {}).get("train", ()))
        text = (
            f"An encoder of kind {config.model.kind} over frames of {config.frames.bands} mel bands that {answer},"
            f" trained with Headwise on {count:,} recordings."
        )
        commands = ("predict RUN recording.wav", "evaluate RUN --data list.csv", "explain RUN recording.wav")
        return Description(title, text, commands)


class SpeechLabels(SpeechTask, Labelling[Mapping[str, list[Recording]]]):
    """Labels of recordings or of their frames."""

    def __init__(self, config: LabelledConfig, assets: Assets[Mapping[str, list[Recording]]]):
        super().__init__(config, assets)
        self.numbers = {name: number for number, name in enumerate(self.known.outputs)}

    @property
    def num_labels(self) -> int:
        return len(self.numbers)


def made_assets(
    config: SpeechConfig, loaded: Recordings, outputs: list[str], frequent: str = "", notes: tuple[str, ...] = ()
) -> Assets[Mapping[str, list[Recording]]]:
    """What a task on recordings keeps."""
    mean, deviation = measured(loaded.parts["train"], config.frames.bands)
    metadata = Known(outputs=outputs, rate=loaded.rate, mean=mean, deviation=deviation, frequent=frequent)
    return Assets({SPEECH_FILE: as_json(metadata.model_dump())}, loaded.parts, loaded.digests, loaded.notes + notes)


def known_of(assets: Assets[Any], bands: int) -> Known:
    """What the file of a run says. Raises: CheckpointError if it is damaged."""

    def read(value: Any) -> Known:
        metadata = Known.model_validate(value)
        if len(metadata.mean) != bands:
            raise ValueError("other bands")
        return metadata

    return from_json(assets.files, SPEECH_FILE, read, "does not tell outputs, rate and constants")


def suggest(data: Mapping[str, Any], kind: type[RecordingsConfig], about: str, more: Mapping[str, Any]) -> Suggestion:
    """A small Conformer for the recordings of these keys of `[data]`. Raises: DataError, ConfigError as the reader."""
    config = build(kind, data, "data")

    def parts(valid: float, test: float) -> object:
        return load_recordings(config.model_copy(update={"valid_fraction": valid, "test_fraction": test}))

    fractions = held_out(data, parts)
    loaded = load_recordings(config.model_copy(update=fractions))
    seconds = sum(recording.seconds for recording in loaded.parts["train"])
    model = {"kind": "conformer", "d_model": 64, "d_ff": 128, "num_heads": 4, "encoder_layers": 2, "dropout": 0.1}
    values = {
        "data": {**fractions, **data},
        "frames": {"bands": 40, "subsampling": 2},
        "model": model,
        **more,
        "training": {
            "learning_rate": 2e-3,
            "schedule": "budget",
            "warmup_share": 0.1,
            "batch_tokens": max(2048, int(100 * config.max_seconds)),
            "max_epochs": max(5, min(60, round(60_000 / max(seconds, 1)))),
        },
    }
    return Suggestion(values, f"{about}, fitted to the {len(loaded.parts['train']):,} recordings")
