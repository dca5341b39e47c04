"""Transcription: a recording in, the text that is said in it out; by CTC, or by a decoder with attention."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from headwise import metrics
from headwise.attention.precision import wide
from headwise.config import Config
from headwise.data.suggestions import Suggestion
from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.decoding import ctc
from headwise.decoding.search import DecodingConfig
from headwise.errors import ConfigError, DataError
from headwise.layers.loss import output_loss, real_rows
from headwise.models.protocols import Memory, Seq2Seq
from headwise.models.transformer_config import DecoderConfig
from headwise.predictors.classes import mean
from headwise.tasks._files import tokenizer_in
from headwise.tasks.speech import base
from headwise.tasks.speech.encoders import SpeechEncoderConfig
from headwise.tasks.speech.listening import Known
from headwise.tasks.speech.models import FrameLabeller, SpeechReader, build_frame_labeller, build_speech_writer
from headwise.tasks.speech.recordings import Recording
from headwise.tasks.speech.transcriber import SpeechWriter, Transcriber, Units, paired
from headwise.tasks.speech.utterances import JoinedConfig, SpeechBatch, load_recordings
from headwise.tasks.task import Assets, Description, Metric, Stats
from headwise.tasks.text.options import ScoringOptions, SearchOptions
from headwise.tasks.text.writer import Writing, text_of

TOKENIZER_FILE = "tokenizer.json"
_ALL = 100_000  # units that a tokenizer keeps at most
_GREEDY = (
    "validation writes by greedy search, which is quick; predict and evaluate write as output.decoding.method says"
)


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
    """Of a batch the summed negative log-likelihood (nats), its units, what the model writes, and the true texts."""

    nll: float
    units: int
    texts: list[str]
    gold: list[str]


class ByCtc:
    """The loss is over all ways to read the text; texts that do not fit in their places are left out of it."""

    def __init__(self, config: "TranscribeConfig", known: Known):
        self.config, self.known = config, known
        self.units = Units(known.outputs, words=config.units == "word")

    def encode(self, recording: Recording) -> list[int]:
        return self.units.encode(recording.label or "")

    def build(self) -> FrameLabeller:
        constants = self.known.mean, self.known.deviation
        return build_frame_labeller(self.config.model, self.config.frames, constants, len(self.units))

    def loss(self, model: nn.Module, batch: SpeechBatch) -> Float[Tensor, ""]:
        logits, places = model(batch.frames, batch.lens)
        return ctc_loss(logits, places, batch.targets, batch.target_lens)[0]

    def heard(self, model: nn.Module, batches: Iterable[SpeechBatch]) -> Iterator[Heard]:
        for batch in batches:
            logits, places = model(batch.frames, batch.lens)
            loss, units = ctc_loss(logits, places, batch.targets, batch.target_lens)
            rows = zip(wide(logits).log_softmax(-1).cpu(), places.tolist(), strict=True)
            texts = [self.units.read(row[:count], self.config.beam) for row, count in rows]
            yield Heard(float(loss), units, texts, batch.labels)

    def predictor(self, model: nn.Module) -> Transcriber:
        assert isinstance(model, FrameLabeller)
        return Transcriber(model, self.known, self.units, self.config.data, self.config.beam)

    def fits(self, recording: Recording) -> bool:
        """Whether a recording has places enough for its text."""
        return ctc.fewest_places(self.encode(recording)) <= self.config.frames.places(recording.frames)


class ByAttention:
    """(1 - w) the cross entropy of each unit and the end, given those before it, plus w the loss of CTC at the places.

    Source: Watanabe et al. 2017, "Hybrid CTC/Attention Architecture for End-to-End Speech Recognition", eq. 37; here
        CTC is for training alone. The blank is the number of padding.
    """

    def __init__(self, config: "TranscribeConfig", known: Known, tokenizer: Tokenizer, output: AttentionOutputConfig):
        self.config, self.known, self.tokenizer, self.output = config, known, tokenizer, output

    def encode(self, recording: Recording) -> list[int]:
        return [*self.tokenizer.encode(recording.label or ""), self.tokenizer.eos_id]

    def build(self) -> Seq2Seq:
        return build_speech_writer(
            self.config.model,
            self.output.decoder,
            self.config.frames,
            (self.known.mean, self.known.deviation),
            self.tokenizer.vocab_size,
            units=self.output.ctc_weight > 0,
        )

    def loss(self, model: nn.Module, batch: SpeechBatch) -> Float[Tensor, ""]:
        return self._losses(model, batch, self.output.label_smoothing, self.output.ctc_weight)

    def heard(self, model: nn.Module, batches: Iterable[SpeechBatch]) -> Iterator[Heard]:
        """By greedy search; the likelihood is the decoder's alone."""
        assert isinstance(model, Seq2Seq)
        writing, greedy = Writing(model, self.tokenizer), self.output.decoding.model_copy(update={"method": "greedy"})
        for batch in batches:
            texts = [text_of(outputs) for outputs in writing.search(paired(batch, model, self.tokenizer), greedy)]
            yield Heard(float(self._losses(model, batch, 0.0, 0.0)), batch.num_tokens, texts, batch.labels)

    def predictor(self, model: nn.Module) -> SpeechWriter:
        assert isinstance(model, Seq2Seq)
        return SpeechWriter(model, self.known, self.tokenizer, self.config.data, self.output.decoding)

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


class TranscribeConfig(base.SpeechConfig):
    """Which recordings to write down, in which units, and with which model."""

    data: JoinedConfig = Field(description="the recordings; data.label_key names their texts")
    model: SpeechEncoderConfig = Field(description=f"{base.ENCODERS} or token (each alone)")
    units: Literal["char", "word"] = Field("char", description="what the model writes: characters, or whole words")
    output: OutputConfig = Field(CtcConfig(), description="how it writes them: by ctc, or by a decoder with attention")
    beam: int = Field(1, ge=1, le=1000, description="of CTC: prefixes that are followed; 1: the best path")

    def model_post_init(self, context: object) -> None:
        if self.output.kind == "attention" and self.beam != 1:
            raise ConfigError(
                f"beam ({self.beam}) is for output.kind ctc; set output.decoding.beam_size to {self.beam} instead"
            )


class Transcribe(base.SpeechTask):
    """Writing down what is said; `training.batch_tokens` counts frames of 10 ms, losses are divided by units."""

    name: ClassVar[str] = "transcribe"
    config_type: ClassVar[type[Config]] = TranscribeConfig
    options = (SearchOptions, ScoringOptions)
    metrics = (Metric("loss", "low"), Metric("wer", "low"), Metric("cer", "low"))
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
            tokens = Tokenizer.train(texts + joined, _unit_tokens(config.units)).to_bytes()
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
        for heard in self.way.heard(model, batches):
            stats["nll"], stats["units"] = stats["nll"] + heard.nll, stats["units"] + heard.units
            for text, gold in zip(heard.texts, heard.gold, strict=True):
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
        return self.way.predictor(model)

    def description(self) -> Description:
        return self.described("Transcriber", f"writes them down in {len(self.known.outputs)} {self.config.units}s")


def _unit_tokens(units: Literal["char", "word"]) -> TokenizerConfig:
    return TokenizerConfig(kind=units, vocab_size=_ALL, split_punctuation=False)


def _way(config: TranscribeConfig, known: Known, assets: Assets[Any]) -> ByCtc | ByAttention:
    if isinstance(config.output, AttentionOutputConfig):
        tokenizer = tokenizer_in(assets.files, TOKENIZER_FILE, _unit_tokens(config.units))
        return ByAttention(config, known, tokenizer, config.output)
    return ByCtc(config, known)


def _too_long(
    config: TranscribeConfig, way: ByCtc | ByAttention, parts: Mapping[str, list[Recording]]
) -> Iterator[str]:
    """Notes on texts that CTC cannot write. Raises: ConfigError for texts longer than a decoder's table."""
    if isinstance(way, ByCtc) and config.data.concatenate is None:
        for part, recordings in parts.items():
            if short := sum(not way.fits(recording) for recording in recordings):
                yield f"{part}: {short:,} recordings are too short for their texts; they are not in the loss"
    if isinstance(way, ByAttention) and (places := way.output.decoder.places()) is not None:
        most = (config.data.concatenate or (1, 1))[1]
        # with what stands between the texts of a string
        longest = most * max(len(way.encode(recording)) for split in parts.values() for recording in split)
        if (needed := max(longest, way.output.decoding.max_len + 1)) > places:
            raise ConfigError(
                f"texts of up to {needed} units need as many places, but the decoder has a table of {places}: set"
                f" output.decoder.max_len to at least {needed}, or output.decoding.max_len lower"
            )
