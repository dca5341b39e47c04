"""Transcription: a recording in, the text that is said in it out; by CTC, or by a decoder with attention."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from headwise import metrics
from headwise.config import Config
from headwise.data.suggestions import Suggestion
from headwise.errors import ConfigError, DataError
from headwise.predictors.classes import mean
from headwise.tasks.speech import base
from headwise.tasks.speech.base import (
    TOKENIZER_FILE,
    AttentionOutputConfig,
    ByAttention,
    ByCtc,
    CtcConfig,
    OutputConfig,
    Sizes,
    Way,
    kept_tokenizer,
    new_tokenizer,
)
from headwise.tasks.speech.encoders import SpeechEncoderConfig
from headwise.tasks.speech.listening import Known
from headwise.tasks.speech.recordings import Recording
from headwise.tasks.speech.speech_writer import SpeechWriter
from headwise.tasks.speech.transcriber import Transcriber, Units
from headwise.tasks.speech.utterances import JoinedConfig, SpeechBatch, load_recordings
from headwise.tasks.task import Assets, Description, Metric, Stats
from headwise.tasks.text.options import SearchOptions

_GREEDY = (
    "validation writes by greedy search, which is quick; predict and evaluate write as output.decoding.method says"
)


class TranscribeConfig(base.SpeechConfig):
    """Which recordings to write down, in which units, and with which model."""

    data: JoinedConfig = Field(description="the recordings; data.label_key names their texts")
    model: SpeechEncoderConfig = Field(description=f"{base.ENCODERS} or token (each alone)")
    units: Literal["char", "word"] = Field("char", description="what the model writes: characters, or whole words")
    output: OutputConfig = Field(CtcConfig(), description="how it writes them: by ctc, or by a decoder with attention")
    beam: int = Field(
        1, ge=1, le=1000, description="of CTC: prefixes that are followed to find the text; 1: the best path"
    )

    def model_post_init(self, context: object) -> None:
        if self.output.kind == "attention" and self.beam != 1:
            raise ConfigError(
                f"beam ({self.beam}) is for output.kind ctc; set output.decoding.beam_size to {self.beam} instead"
            )


class Transcribe(base.SpeechTask):
    """Writing down what is said; `training.batch_tokens` counts frames of 10 ms, losses are divided by units."""

    name: ClassVar[str] = "transcribe"
    config_type: ClassVar[type[Config]] = TranscribeConfig
    options = (SearchOptions,)
    metrics: ClassVar[tuple[Metric, ...]] = (Metric("loss", "low"), Metric("wer", "low"), Metric("cer", "low"))
    config: TranscribeConfig

    def __init__(self, config: TranscribeConfig, assets: Assets[Mapping[str, list[Recording]]]):
        super().__init__(config, assets)
        self.way = _way(config, self.known, assets)

    @classmethod
    def prepare(cls, config: TranscribeConfig) -> Assets[Mapping[str, list[Recording]]]:
        loaded, words = load_recordings(config.data), config.units == "word"
        texts = [recording.label or "" for recording in loaded.parts["train"]]
        names = {unit for text in texts for unit in Units([], words=words).split(text)}
        if config.data.concatenate is not None and not words:
            names.add(" ")
        if not names:
            raise DataError(f"{config.data.train}: every text is empty: there is nothing to learn")
        units = Units(sorted(names), words=words)
        notes = []
        for part, recordings in loaded.parts.items():
            lost = "they are not in the loss" if config.output.kind == "ctc" else "they cannot be written"
            if strange := sum(len(units) in units.encode(recording.label or "") for recording in recordings):
                notes.append(f"{part}: {strange:,} texts have {config.units}s that training lacks; {lost}")
        assets = base.made_assets(config, loaded, units.names, notes=tuple(notes))
        if config.output.kind == "attention":
            # what stands between two texts is a unit too
            joined = [" ".join(texts[:2])] if config.data.concatenate is not None else []
            tokens = new_tokenizer(texts + joined, config.units).to_bytes()
            assets = replace(assets, files={**assets.files, TOKENIZER_FILE: tokens})
            if (method := config.output.decoding.method) != "greedy":
                assets = replace(assets, notes=(*assets.notes, f"{_GREEDY} ({method})"))
        way = _way(config, base.known_of(assets, config.frames.bands), assets)
        return replace(assets, notes=assets.notes + tuple(_too_long(config, way, loaded.parts)))

    @classmethod
    def suggest(cls, data: Mapping[str, Any]) -> Suggestion:
        return base.suggest(data, JoinedConfig, "Transcription", {"units": "char"})

    def build(self) -> nn.Module:
        return self.way.build()

    def encode(self, recording: Recording) -> list[int]:
        return self.way.encode(recording)

    def loss(self, model: nn.Module, batch: SpeechBatch) -> Float[Tensor, ""]:
        """By CTC, of texts that fit in their recordings and whose units training has; others give nothing."""
        return self.way.loss(model, batch)

    def measure(self, model: nn.Module, batches: Iterable[SpeechBatch]) -> Stats:
        """Log-likelihood of the texts, edits of words and characters, and how many of each there are."""
        names = ("nll", "units", "word_edits", "words", "char_edits", "chars")
        stats = dict.fromkeys(names, 0.0)
        for batch, heard in self.way.heard(model, batches):
            stats["nll"], stats["units"] = stats["nll"] + heard.nll, stats["units"] + heard.units
            for text, gold in zip(heard.texts, batch.labels, strict=True):
                stats["word_edits"] += metrics.edit_distance(text.split(), gold.split())
                stats["char_edits"] += metrics.edit_distance(text, gold)
                stats["words"], stats["chars"] = stats["words"] + len(gold.split()), stats["chars"] + len(gold)
        return stats

    def summarise(self, stats: Stats) -> dict[str, float]:
        """Nats a unit; errors in percent."""
        shares = {"loss": ("nll", "units"), "wer": ("word_edits", "words"), "cer": ("char_edits", "chars")}
        means = {name: mean(stats.get(top, 0.0), stats.get(count, 0.0)) for name, (top, count) in shares.items()}
        return {name: value * (1 if name == "loss" else 100) for name, value in means.items()}

    def sample(self, output: str) -> str:
        return output

    def predictor(self, model: nn.Module) -> Transcriber | SpeechWriter:
        return self.way.predictor(model, self.config.data)

    def description(self) -> Description:
        return self.described("Transcriber", f"writes them down in {len(self.known.outputs)} {self.config.units}s")


def _way(config: TranscribeConfig, metadata: Known, assets: Assets[Any]) -> Way:
    sizes = Sizes(config.model, config.frames)
    if isinstance(config.output, AttentionOutputConfig):
        return ByAttention(sizes, metadata, kept_tokenizer(assets.files, config.units), config.output)
    return ByCtc(sizes, metadata, Units(metadata.outputs, words=config.units == "word"), config.beam)


def _too_long(config: TranscribeConfig, way: Way, parts: Mapping[str, list[Recording]]) -> Iterator[str]:
    """Notes on texts that CTC cannot write. Raises: ConfigError for texts longer than a decoder's table."""
    if isinstance(way, ByCtc) and config.data.concatenate is None:
        for part, recordings in parts.items():
            if short := sum(not way.fits(recording) for recording in recordings):
                yield f"{part}: {short:,} recordings are too short for their texts; they are not in the loss"
    if isinstance(way, ByAttention) and (places := way.config.decoder.places()) is not None:
        most = (config.data.concatenate or (1, 1))[1]
        # with what stands between the texts of a string
        longest = most * max(len(way.encode(recording)) for split in parts.values() for recording in split)
        if (needed := max(longest, way.config.decoding.max_len + 1)) > places:
            raise ConfigError(
                f"texts of up to {needed} units need as many places, but the decoder has a table of {places}: set"
                f" output.decoder.max_len to at least {needed}, or output.decoding.max_len lower"
            )
