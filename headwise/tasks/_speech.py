"""What the tasks on recordings share: their configuration, assets and batches, and how labels are learned."""

from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

from pydantic import Field

from headwise.config import Config, build
from headwise.data.recordings import Recording, RecordingsConfig, at_rate
from headwise.data.sources import Limits, Source
from headwise.data.strings import JoinedConfig, Strings
from headwise.data.suggestions import Suggestion, held_out
from headwise.data.utterances import (
    Recordings,
    SpeechBatch,
    Utterances,
    joined,
    load_recordings,
    measured,
    read_recordings,
)
from headwise.models.frame_windows import FrameEncoderConfig
from headwise.models.speech_models import FramesConfig
from headwise.predictors.listening import Known
from headwise.tasks._files import as_json, from_json
from headwise.tasks._labelling import Labelling
from headwise.tasks.task import Assets

SPEECH_FILE = "speech.json"
ENCODERS = "the encoder: conformer, attention, rnn, cnn, window (neighbouring places)"


class SpeechConfig(Config):
    """What is heard, and by which model."""

    frames: FramesConfig = Field(FramesConfig(), description="what the model hears of a recording")
    model: FrameEncoderConfig = Field(description=f"{ENCODERS} or token (each alone)")
    num_shown: int = Field(4, ge=0, description="how many recordings are named at each validation, with what is said")


class LabelledConfig(SpeechConfig):
    """What is heard, and by which model, that says labels."""

    label_smoothing: float = Field(0.0, ge=0, lt=1, description="share of the target spread over the labels")


class SpeechLabels(Labelling[Mapping[str, list[Recording]]]):
    """Labels of recordings or of their frames."""

    config: LabelledConfig

    def __init__(self, config: LabelledConfig, assets: Assets[Mapping[str, list[Recording]]]):
        super().__init__(config, assets)
        self.known = known_of(assets, config.frames.bands)
        self.numbers = {name: number for number, name in enumerate(self.known.outputs)}

    @property
    def num_labels(self) -> int:
        return len(self.numbers)

    def fewest_tensors(self) -> int:
        return self.config.model.fewest_tensors()


def made_assets(
    config: SpeechConfig, loaded: Recordings, outputs: list[str], frequent: str = "", notes: tuple[str, ...] = ()
) -> Assets[Mapping[str, list[Recording]]]:
    """What a task on recordings keeps."""
    mean, deviation = measured(loaded.parts["train"], config.frames.bands)
    known = Known(outputs, loaded.rate, mean, deviation, frequent)
    return Assets({SPEECH_FILE: as_json(known._asdict())}, loaded.parts, loaded.digests, loaded.notes + notes)


def known_of(assets: Assets[Any], bands: int) -> Known:
    """What the file of a run says. Raises: CheckpointError if it is damaged."""

    def read(found: Any) -> Known:
        known = Known.from_json(found)
        if len(known.mean) != bands:
            raise ValueError("other bands")
        return known

    return from_json(assets.files, SPEECH_FILE, read, "does not tell outputs, rate and constants")


def source_of(
    found: list[Recording] | None,
    encode: Callable[[Recording], list[int]],
    strings: Callable[[int], Strings],
    bands: int,
    limits: Limits,
    *,
    shuffle: bool,
) -> Source[SpeechBatch] | None:
    """Batches of recordings; None where there are none."""
    if not found:
        return None
    return Utterances(found, encode, strings(len(found)), bands).source(limits, shuffle=shuffle)


def joined_examples(data: JoinedConfig, split: str) -> list[Recording]:
    """The recordings of a part, joined as validation hears them."""
    found = read_recordings(data, split)
    strings = data.strings(len(found), held_out=split != "train")
    return [joined([at_rate(found[at], found[0].rate) for at in string]) for string in strings.drawn(0, 0)]


def suggest(data: Mapping[str, Any], kind: type[RecordingsConfig], about: str, more: Mapping[str, Any]) -> Suggestion:
    """A small Conformer for the recordings of these keys of `[data]`.

    Raises: DataError, ConfigError as the reader.
    """
    config = build(kind, data, "data")

    def parts(valid: float, test: float) -> object:
        return load_recordings(config.model_copy(update={"valid_fraction": valid, "test_fraction": test}))

    fractions = held_out(data, parts)
    loaded = load_recordings(config.model_copy(update=fractions))
    seconds = sum(one.seconds for one in loaded.parts["train"])
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


def shown(found: Mapping[str, list[Recording]] | None, count: int) -> list[Recording]:
    """The recordings that validations show."""
    parts = found or {}
    return list(parts.get("valid") or parts.get("train") or ())[:count]


def card(
    config: SpeechConfig,
    data: RecordingsConfig,
    assets: Assets[Mapping[str, list[Recording]]],
    what: str,
    answer: str,
    metrics: Mapping[str, float],
) -> str:
    """The README of a run."""
    scores = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
    count = len((assets.data or {}).get("train", ()))
    return (
        f"# {what} trained on {PurePath(data.train).name}\n\n"
        f"An encoder of kind {config.model.kind} over frames of {config.frames.bands} mel bands that {answer}, trained"
        f" with Headwise on {count:,} recordings. Validation: {scores or 'none'}.\n\n"
        "    headwise predict RUN recording.wav\n    headwise evaluate RUN --data list.csv\n"
        "    headwise explain RUN recording.wav\n\n"
        "`RUN` is this folder. It is complete and can be moved.\n"
    )
