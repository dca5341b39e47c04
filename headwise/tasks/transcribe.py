"""Transcription: a recording in, the text that is said in it out; connectionist temporal classification (CTC)."""

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from headwise import metrics
from headwise.attention.precision import wide
from headwise.config import Config
from headwise.data.log_mel import frame_count
from headwise.data.recordings import Recording
from headwise.data.sources import Limits, Source
from headwise.data.strings import JoinedConfig
from headwise.data.suggestions import Suggestion
from headwise.data.utterances import SpeechBatch, load_recordings
from headwise.decoding import ctc
from headwise.errors import DataError
from headwise.models.conformer import SpeechEncoderConfig
from headwise.models.speech_models import FrameLabeller, build_frame_labeller
from headwise.predictors.classes import mean
from headwise.predictors.transcriber import Transcriber, Units
from headwise.tasks import _speech
from headwise.tasks.task import Assets, Metric, Stats, Task


class TranscribeConfig(_speech.SpeechConfig):
    """Which recordings to write down, in which units, and with which model."""

    data: JoinedConfig = Field(description="the recordings; data.label_key names their texts")
    model: SpeechEncoderConfig = Field(description=f"{_speech.ENCODERS} or token (each alone)")
    units: Literal["char", "word"] = Field("char", description="what the model writes: characters, or whole words")
    beam: int = Field(1, ge=1, le=1000, description="prefixes that are followed to find the text; 1: the best path")


class Transcribe(Task[Mapping[str, list[Recording]]]):
    """Writing down what is said; `training.batch_tokens` counts frames of 10 ms, losses are divided by units."""

    name: ClassVar[str] = "transcribe"
    config_type: ClassVar[type[Config]] = TranscribeConfig
    metrics: ClassVar[tuple[Metric, ...]] = (Metric("loss", "low"), Metric("wer", "low"), Metric("cer", "low"))
    config: TranscribeConfig

    def __init__(self, config: TranscribeConfig, assets: Assets[Mapping[str, list[Recording]]]):
        super().__init__(config, assets)
        self.known = _speech.known_of(assets, config.frames.bands)
        self.units = Units(self.known.outputs, words=config.units == "word")

    @classmethod
    def prepare(cls, config: TranscribeConfig) -> Assets[Mapping[str, list[Recording]]]:
        loaded = load_recordings(config.data)
        splitter = Units([], words=config.units == "word")
        found = {unit for one in loaded.parts["train"] for unit in splitter.split(one.label or "")}
        if config.data.concatenate is not None and config.units == "char":
            found.add(" ")
        if not found:
            raise DataError(f"{config.data.train}: every text is empty: there is nothing to learn")
        units = Units(sorted(found), words=splitter.words)
        notes = []
        for part, recordings in loaded.parts.items():
            codes = [units.encode(one.label or "") for one in recordings]
            if strange := sum(len(units) in code for code in codes):
                notes.append(
                    f"{part}: {strange:,} texts have {config.units}s that training lacks; they are not in the loss"
                )
            short = sum(not _fits(one, code, config) for one, code in zip(recordings, codes, strict=True))
            if short and config.data.concatenate is None:
                notes.append(f"{part}: {short:,} recordings are too short for their texts; they are not in the loss")
        return _speech.made_assets(config, loaded, units.names, notes=tuple(notes))

    @classmethod
    def examples(cls, config: TranscribeConfig, split: str) -> list[Recording]:
        return _speech.joined_examples(config.data, split)

    @classmethod
    def suggest(cls, data: Mapping[str, Any]) -> Suggestion:
        return _speech.suggest(data, JoinedConfig, "Transcription", {"units": "char"})

    def fewest_tensors(self) -> int:
        return self.config.model.fewest_tensors()

    def build(self) -> FrameLabeller:
        constants = self.known.mean, self.known.deviation
        return build_frame_labeller(self.config.model, self.config.frames, constants, len(self.units))

    def source(self, split: str, limits: Limits) -> Source[SpeechBatch] | None:
        train = split == "train"
        return _speech.source_of(
            (self.assets.data or {}).get(split),
            lambda one: self.units.encode(one.label or ""),
            lambda count: self.config.data.strings(count, held_out=not train),
            self.config.frames.bands,
            limits,
            shuffle=train,
        )

    def loss(self, model: nn.Module, batch: SpeechBatch) -> Float[Tensor, ""]:
        """Of texts that fit in their recordings and whose units training has; others give nothing."""
        logits, places = model(batch.frames, batch.lens)
        return self._loss(logits, places, batch)[0]

    def measure(self, model: nn.Module, batches: Iterable[SpeechBatch]) -> Stats:
        """Log-likelihood of the texts, edits of words and characters, and how many of each there are."""
        names = ("nll", "units", "word_edits", "words", "char_edits", "chars")
        stats = dict.fromkeys(names, 0.0)
        assert isinstance(model, FrameLabeller)
        for batch in batches:
            logits, places = model(batch.frames, batch.lens)
            loss, units = self._loss(logits, places, batch)
            found = wide(logits).log_softmax(-1).cpu()
            said = [
                self.units.read(row[:count], self.config.beam)
                for row, count in zip(found, places.tolist(), strict=True)
            ]
            stats["nll"], stats["units"] = stats["nll"] + float(loss), stats["units"] + units
            for text, gold in zip(said, batch.labels, strict=True):
                stats["word_edits"] += metrics.edit_distance(text.split(), gold.split())
                stats["char_edits"] += metrics.edit_distance(text, gold)
                stats["words"], stats["chars"] = stats["words"] + len(gold.split()), stats["chars"] + len(gold)
        return stats

    def summarise(self, stats: Stats) -> dict[str, float]:
        """Nats a unit; errors in percent."""
        shares = {"loss": ("nll", "units"), "wer": ("word_edits", "words"), "cer": ("char_edits", "chars")}
        found = {name: mean(stats.get(top, 0.0), stats.get(count, 0.0)) for name, (top, count) in shares.items()}
        return {name: value * (1 if name == "loss" else 100) for name, value in found.items()}

    def samples(self, model: nn.Module) -> list[str]:
        chosen = _speech.shown(self.assets.data, self.config.num_shown)
        said = self.predictor(model).predict(chosen)
        return [f"{PurePath(one.name).name} ({one.label}) → {text}" for one, text in zip(chosen, said, strict=True)]

    def predictor(self, model: nn.Module) -> Transcriber:
        assert isinstance(model, FrameLabeller)
        return Transcriber(model, self.known, self.units, self.config.data, self.config.beam)

    def card(self, metrics: Mapping[str, float]) -> str:
        answer = f"writes them down in {len(self.known.outputs)} {self.config.units}s"
        return _speech.card(self.config, self.config.data, self.assets, "Transcriber", answer, metrics)

    def _loss(self, logits: Tensor, places: Tensor, batch: SpeechBatch) -> tuple[Tensor, int]:
        """Summed over the texts that can be written, and how many units these have."""
        repeated = (batch.targets[:, 1:] == batch.targets[:, :-1]) & (batch.targets[:, 1:] >= 0)
        fits = (batch.target_lens + repeated.sum(1) <= places) & (batch.targets < len(self.units)).all(1)
        lens = torch.where(fits, batch.target_lens, 0)
        targets = torch.where(fits[:, None], batch.targets.clamp(min=0), 0)
        odds = wide(logits).log_softmax(-1).transpose(0, 1)
        each = F.ctc_loss(odds, targets, places, lens, blank=ctc.BLANK, reduction="none")
        return torch.where(fits, each, 0.0).sum(), int(lens.sum())


def _fits(one: Recording, code: list[int], config: TranscribeConfig) -> bool:
    return ctc.fewest_places(code) <= config.frames.places(frame_count(len(one.samples), one.rate))
