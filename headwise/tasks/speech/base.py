"""What the tasks that listen share: files, sources, models."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.precision import wide
from headwise.config import Config, build
from headwise.data.inspection import DataKind
from headwise.data.sources import Limits, Source
from headwise.data.suggestions import Suggestion, held_out
from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.decoding import ctc
from headwise.decoding.search import DecodingConfig
from headwise.layers.loss import output_loss, real_rows
from headwise.models.protocols import Memory, Seq2Seq
from headwise.models.transformer_config import DecoderConfig
from headwise.tasks._files import as_json, from_json, tokenizer_in
from headwise.tasks._labelling import Labelling
from headwise.tasks.speech.encoders import FrameEncoderConfig, SpeechEncoderConfig
from headwise.tasks.speech.listening import Known
from headwise.tasks.speech.log_mel import frame_count
from headwise.tasks.speech.models import (
    FrameLabeller,
    FramesConfig,
    SpeechReader,
    build_frame_labeller,
    build_speech_writer,
)
from headwise.tasks.speech.recordings import Recording, RecordingsConfig, at_rate
from headwise.tasks.speech.report import RECORDINGS
from headwise.tasks.speech.speech_writer import SpeechWriter, paired
from headwise.tasks.speech.transcriber import Transcriber, Units
from headwise.tasks.speech.utterances import (
    Recordings,
    SpeechBatch,
    Strings,
    Utterances,
    joined,
    load_recordings,
    measured,
    read_recordings,
)
from headwise.tasks.task import Assets, Description, Task
from headwise.tasks.text.writer import Writing, text_of

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
            joined([at_rate(recordings[at], recordings[0].rate) for at in string]) for string in strings.drawn(0, 0)
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
    metadata = Known(outputs, loaded.rate, mean, deviation, frequent)
    return Assets({SPEECH_FILE: as_json(metadata._asdict())}, loaded.parts, loaded.digests, loaded.notes + notes)


def known_of(assets: Assets[Any], bands: int) -> Known:
    """What the file of a run says. Raises: CheckpointError if it is damaged."""

    def read(value: Any) -> Known:
        metadata = Known.from_json(value)
        if len(metadata.mean) != bands:
            raise ValueError("other bands")
        return metadata

    return from_json(assets.files, SPEECH_FILE, read, "does not tell outputs, rate and constants")


def suggest(data: Mapping[str, Any], kind: type[RecordingsConfig], about: str, more: Mapping[str, Any]) -> Suggestion:
    """A small Conformer for the recordings of these keys of `[data]`.

    Raises: DataError, ConfigError as the reader.
    """
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


TOKENIZER_FILE = "tokenizer.json"
_ALL = 100_000  # units that a tokenizer keeps at most


class CtcConfig(Config):
    """Connectionist temporal classification: a unit or nothing at every place."""

    kind: Literal["ctc"] = Field("ctc", description="how a text is written: ctc or attention")


class AttentionOutputConfig(Config):
    """A decoder that writes unit by unit and looks at the places."""

    kind: Literal["attention"] = Field("attention", description="how a text is written: ctc or attention")
    decoder: DecoderConfig = Field(description="what writes the text")
    decoding: DecodingConfig = Field(DecodingConfig(), description="how texts are searched for")
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="share of the target spread over the units")
    ctc_weight: float = Field(
        0.3, ge=0, lt=1, description="share of CTC in the loss while training, which teaches where units are; 0: none"
    )


OutputConfig = Annotated[CtcConfig | AttentionOutputConfig, Field(discriminator="kind")]


class Heard(NamedTuple):
    """Of a batch the summed negative log-likelihood (nats), the units that it is of, and what the model writes."""

    nll: float
    units: int
    texts: list[str]


class Sizes(NamedTuple):
    """What both ways build their models of."""

    encoder: SpeechEncoderConfig
    frames: FramesConfig


class Way(ABC):
    """What the two kinds of output do differently."""

    @abstractmethod
    def encode(self, recording: Recording) -> list[int]:
        """The numbers that a recording is to give."""

    @abstractmethod
    def build(self) -> nn.Module:
        """A new model."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: SpeechBatch) -> Float[Tensor, ""]:
        """Summed over the units of a batch."""

    @abstractmethod
    def heard(self, model: nn.Module, batches: Iterable[SpeechBatch]) -> Iterator[tuple[SpeechBatch, Heard]]:
        """What the model makes of each batch."""

    @abstractmethod
    def predictor(self, model: nn.Module, data: RecordingsConfig) -> Transcriber | SpeechWriter:
        """What applies the model to new recordings."""


class ByCtc(Way):
    """The loss is over all ways to read the text; texts that do not fit in their places are left out of it.

    Args:
        beam: prefixes that are followed; 1: the best path.
    """

    def __init__(self, sizes: Sizes, known: Known, units: Units, beam: int):
        self.sizes, self.known, self.units, self.beam = sizes, known, units, beam

    def encode(self, recording: Recording) -> list[int]:
        return self.units.encode(recording.label or "")

    def build(self) -> FrameLabeller:
        constants = self.known.mean, self.known.deviation
        return build_frame_labeller(self.sizes.encoder, self.sizes.frames, constants, len(self.units))

    def loss(self, model: nn.Module, batch: SpeechBatch) -> Float[Tensor, ""]:
        logits, places = model(batch.frames, batch.lens)
        return ctc_loss(logits, places, batch.targets, batch.target_lens)[0]

    def heard(self, model: nn.Module, batches: Iterable[SpeechBatch]) -> Iterator[tuple[SpeechBatch, Heard]]:
        for batch in batches:
            logits, places = model(batch.frames, batch.lens)
            loss, units = ctc_loss(logits, places, batch.targets, batch.target_lens)
            rows = zip(wide(logits).log_softmax(-1).cpu(), places.tolist(), strict=True)
            yield batch, Heard(float(loss), units, [self.units.read(row[:count], self.beam) for row, count in rows])

    def predictor(self, model: nn.Module, data: RecordingsConfig) -> Transcriber:
        assert isinstance(model, FrameLabeller)
        return Transcriber(model, self.known, self.units, data, self.beam)

    def fits(self, recording: Recording) -> bool:
        """Whether a recording has places enough for its text."""
        places = self.sizes.frames.places(frame_count(len(recording.samples), recording.rate))
        return ctc.fewest_places(self.encode(recording)) <= places


class ByAttention(Way):
    """(1 - w) the cross entropy of each unit and the end, given those before it, plus w the loss of CTC at the places.

    Source: Watanabe et al. 2017, "Hybrid CTC/Attention Architecture for End-to-End Speech Recognition", eq. 37; here
        CTC is for training alone. The blank is the number of padding.
    """

    def __init__(self, sizes: Sizes, known: Known, tokenizer: Tokenizer, config: AttentionOutputConfig):
        self.sizes, self.known, self.tokenizer, self.config = sizes, known, tokenizer, config

    def encode(self, recording: Recording) -> list[int]:
        return [*self.tokenizer.encode(recording.label or ""), self.tokenizer.eos_id]

    def build(self) -> Seq2Seq:
        constants, config = (self.known.mean, self.known.deviation), self.config
        return build_speech_writer(
            self.sizes.encoder,
            config.decoder,
            self.sizes.frames,
            constants,
            self.tokenizer.vocab_size,
            units=config.ctc_weight > 0,
        )

    def loss(self, model: nn.Module, batch: SpeechBatch) -> Float[Tensor, ""]:
        return self._losses(model, batch, self.config.label_smoothing, self.config.ctc_weight)

    def heard(self, model: nn.Module, batches: Iterable[SpeechBatch]) -> Iterator[tuple[SpeechBatch, Heard]]:
        """By greedy search; the likelihood is the decoder's alone."""
        assert isinstance(model, Seq2Seq)
        writing, greedy = Writing(model, self.tokenizer), self.config.decoding.model_copy(update={"method": "greedy"})
        for batch in batches:
            texts = [
                text_of(translations) for translations in writing.found(paired(batch, model, self.tokenizer), greedy)
            ]
            yield batch, Heard(float(self._losses(model, batch, 0.0, 0.0)), batch.num_tokens, texts)

    def predictor(self, model: nn.Module, data: RecordingsConfig) -> SpeechWriter:
        assert isinstance(model, Seq2Seq)
        return SpeechWriter(model, self.known, self.tokenizer, data, self.config.decoding)

    def _losses(self, model: nn.Module, batch: SpeechBatch, smoothing: float, weight: float) -> Tensor:
        assert isinstance(model, Seq2Seq)
        pairs = paired(batch, model, self.tokenizer)
        memory = model.encoder(pairs.src, pairs.src_lens)
        hidden = model.decoder.hidden(pairs.tgt_in, memory, pairs.src_lens)
        rows, targets = real_rows(hidden, pairs.tgt_out, pairs.tgt_lens, pairs.num_tokens)
        written = output_loss(model.decoder.output, rows, targets, smoothing)
        if not weight:
            return written
        return (1 - weight) * written + weight * self._ctc(model, memory, batch, pairs.src_lens)

    def _ctc(self, model: Seq2Seq, memory: Memory, batch: SpeechBatch, places: Tensor) -> Tensor:
        assert isinstance(model.encoder, SpeechReader)
        assert model.encoder.units is not None
        # without the end, of which no place has heard
        lens = batch.target_lens - 1
        inside = torch.arange(batch.targets.shape[1], device=lens.device) < lens[:, None]
        targets = torch.where(inside, batch.targets, -1)
        return ctc_loss(model.encoder.units(memory.states), places, targets, lens)[0]


def ctc_loss(logits: Tensor, places: Tensor, targets: Tensor, lens: Tensor) -> tuple[Tensor, int]:
    """Summed over the texts that can be written, and how many units these have; output 0 is the blank.

    Args:
        targets: padded by -1; with a number that the logits lack, a text is left out.
    """
    repeated = (targets[:, 1:] == targets[:, :-1]) & (targets[:, 1:] >= 0)
    fits = (lens + repeated.sum(1) <= places) & (targets < logits.shape[-1]).all(1)
    chosen = torch.where(fits, lens, 0)
    units = torch.where(fits[:, None], targets.clamp(min=0), 0)
    odds = wide(logits).log_softmax(-1).transpose(0, 1)
    losses = F.ctc_loss(odds, units, places, chosen, blank=ctc.BLANK, reduction="none")
    return torch.where(fits, losses, 0.0).sum(), int(chosen.sum())


def new_tokenizer(texts: list[str], units: Literal["char", "word"]) -> Tokenizer:
    """The units of these texts as tokens."""
    return Tokenizer.train(texts, _tokens(units))


def kept_tokenizer(files: Mapping[str, bytes], units: Literal["char", "word"]) -> Tokenizer:
    """That of a run, made for these units. Raises: CheckpointError where it is missing."""
    return tokenizer_in(files, TOKENIZER_FILE, _tokens(units))


def _tokens(units: Literal["char", "word"]) -> TokenizerConfig:
    return TokenizerConfig(kind=units, vocab_size=_ALL, split_punctuation=False)
