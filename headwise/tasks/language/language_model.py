"""Language modelling: plain text in, a decoder-only model that writes on from any beginning."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from jaxtyping import Float
from pydantic import Field, field_validator
from torch import Tensor, nn

from headwise.config import Config, build
from headwise.data.sources import Limits, Source
from headwise.data.streams import Memory, Stream, Text, TextBatch, windows
from headwise.data.suggestions import Size, Suggestion
from headwise.data.tokenizers import TokenizerConfig
from headwise.decoding.search import DecodingConfig
from headwise.errors import ConfigError
from headwise.models.decoder_only import DecoderOnly, build_decoder
from headwise.models.transformer_config import DecoderConfig
from headwise.predictors.baselines import Baseline
from headwise.predictors.classes import summed
from headwise.tasks.demo import Demo
from headwise.tasks.language.continuer import Continuer, continuing, likelihood, likelihood_scores, scored, text_loss
from headwise.tasks.language.demo import LANGUAGE_MODEL
from headwise.tasks.language.ngram import COUNTED, NGrams
from headwise.tasks.language.options import ContinuationOptions
from headwise.tasks.task import Assets, Description, Given, Metric, Probe, Stats
from headwise.tasks.text import running
from headwise.tasks.text.plain import TextConfig, suggested_portion, unknown_tokens
from headwise.tasks.text.running import TOKENIZER_FILE

_LARGER = {"training.max_epochs": 10, "model.d_model": 256, "model.d_ff": 1024, "training.learning_rate": 2e-3}
_SIZES = (
    Size({"training.max_epochs": 10}, 0),
    Size(_LARGER, 12_000),
    Size({**_LARGER, "model.num_layers": 6, "training.batch_tokens": 4096}, 40_000),
)


class LanguageModelConfig(Config):
    """Which text to learn, with which tokens and model."""

    data: TextConfig = Field(description="the text")
    tokenizer: TokenizerConfig = Field(TokenizerConfig(spaces="kept"), description="how the text becomes tokens")
    model: DecoderConfig = Field(description="the network")
    length: int = Field(256, ge=1, description="length of a training window, in tokens")
    ngram: int = Field(5, ge=0, le=9, description="tokens that the n-gram model beside the scores looks at; 0: none")
    decoding: DecodingConfig = Field(DecodingConfig(method="sample"), description="how a prompt is continued")
    show: list[str] = Field(default=[""], description="prompts that are continued at each validation")
    show_len: int = Field(80, ge=1, description="length of the continuations shown, in tokens")

    @field_validator("tokenizer", mode="before")
    @classmethod
    def _keeps_spaces(cls, value: Any) -> Any:
        return {"spaces": "kept"} | value if isinstance(value, dict) else value

    def model_post_init(self, context: object) -> None:
        if self.tokenizer.spaces != "kept":
            raise ConfigError('a language model writes spaces and line ends: set tokenizer.spaces to "kept"')
        continuing(self.decoding)
        places = self.model.places()
        if places is not None and self.length > places:
            raise ConfigError(f"length ({self.length}) is above the {places} places of the model; raise model.max_len")


class LanguageModel(running.RunningText):
    """Writing on from the tokens before, trained on plain text.

    With `model.memory_len` the rows of a batch go on from those before, and what the layers remember is in the `Carry`
    of the batches and nowhere else.
    """

    name: ClassVar[str] = "language-model"
    demo: ClassVar[Demo | None] = LANGUAGE_MODEL
    config_type: ClassVar[type[Config]] = LanguageModelConfig
    options = (ContinuationOptions,)
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("loss", "low"),
        Metric("perplexity", "low"),
        Metric("bits_per_char", "low"),
    )
    config: LanguageModelConfig

    @classmethod
    def prepare_with(cls, config: LanguageModelConfig, given: Given) -> Assets[dict[str, Text]]:
        read = running.read(config.data, config.tokenizer, given, config.length)
        notes = list(read.notes)
        notes += _counted(read.data, read.tokenizer.vocab_size, config.ngram)
        for part, text in read.data.items():
            if lost := unknown_tokens(text, read.tokenizer):
                notes.append(f"{part}: {lost:,} tokens are unknown; bits_per_char takes them for cheaper than they are")
        return Assets({TOKENIZER_FILE: read.tokenizer.to_bytes()}, read.data, read.digests, tuple(notes))

    @classmethod
    def baselines(
        cls, config: LanguageModelConfig, predictor: Continuer, examples: Sequence[str]
    ) -> Iterator[Baseline]:
        """An n-gram model of the training tokens."""
        train = running.trained_on(config.data, predictor.tokenizer)
        if not config.ngram or not len(train):
            return
        counts = NGrams(train.tokens, config.ngram, predictor.tokenizer.vocab_size)
        yield Baseline(f"{config.ngram}-gram model", predictor.scores(examples, counts.nll))

    @classmethod
    def suggest(cls, data: Mapping[str, Any]) -> Suggestion:
        """A decoder-only Transformer for the text of these keys of `[data]`."""
        fractions, train = suggested_portion(build(TextConfig, data, "data"), data)
        values = {
            "length": 128 if train.chars > 20_000 else 32,
            "data": {**fractions, **data},
            "tokenizer": {
                "kind": "bpe",
                "vocab_size": 1024 if train.chars < 5e6 else 4096 if train.chars < 5e7 else 8192,
            },
            "model": {
                "d_model": 128,
                "d_ff": 512,
                "num_heads": 4,
                "num_layers": 4,
                "activation": "gelu",
                "position": "rotary",
                "dropout": 0.1,
                "attention_dropout": 0.0,
                "activation_dropout": 0.0,
            },
            "training": {
                "learning_rate": 4e-3,
                "weight_decay": 0.1,
                "schedule": "budget",
                "warmup_share": 0.05,
                "batch_tokens": 2048,
                "max_epochs": 8,
                "monitor": "bits_per_char",
            },
        }
        return Suggestion(values, f"A language model, fitted to a text of {train.chars:,} characters", _SIZES)

    def build(self) -> DecoderOnly:
        return build_decoder(self.config.model, self.tokenizer.vocab_size)

    def source(self, split: str, limits: Limits) -> Source[TextBatch] | None:
        text = (self.assets.data or {}).get(split)
        if text is None:
            return None
        length, memory = self.config.length, self.config.model.memory_len > 0
        text, rows = running.limited(text, self.tokenizer, length, limits)
        if split != "train":
            return scored(text, length, rows, memory=memory)
        if memory:
            model = self.config.model
            carried = Memory(model.num_layers, model.memory_len, model.d_model)
            return Stream(text, length, min(rows, len(text)), carried)
        return windows(text, length, rows, seed=limits.seed)

    def loss(self, model: nn.Module, batch: TextBatch) -> Float[Tensor, ""]:
        assert isinstance(model, DecoderOnly)
        return text_loss(model, batch)

    def measure(self, model: nn.Module, batches: Iterable[TextBatch]) -> Stats:
        assert isinstance(model, DecoderOnly)
        return summed(likelihood(model, batch) for batch in batches)

    def summarise(self, stats: Stats) -> dict[str, float]:
        return likelihood_scores(stats)

    def samples(self, model: nn.Module) -> list[str]:
        decoding = self.config.decoding
        max_len = min(self.config.show_len, decoding.max_len)
        shorter = decoding.model_copy(update={"max_len": max_len, "min_len": min(decoding.min_len, max_len)})
        continuations = self.predictor(model).predict(self.config.show, shorter)
        shown = zip(self.config.show, continuations, strict=True)
        return [f"{prompt}  →  {written[0].text}".replace("\n", " ⏎ ") for prompt, written in shown]

    def probe(self, predictor: Any, text: str) -> Probe:
        # the prompt alone: what the model would write changes from step to step
        return Probe(predictor.parse(text), "")

    def probes(self, predictor: Any) -> list[Probe]:
        shown = [text for text in self.config.show if text.strip()]
        beginning = running.beginning(self.assets.data, self.tokenizer, self.config.length)
        return [self.probe(predictor, text) for text in shown or [beginning] if text]

    def predictor(self, model: nn.Module) -> Continuer:
        assert isinstance(model, DecoderOnly)
        config = self.config
        return Continuer(model, self.tokenizer, config.decoding, config.length, config.model.places())

    def description(self) -> Description:
        commands = ('predict RUN "the beginning of a text"', "evaluate RUN --data text.txt")
        return self.described("Language model", "A decoder-only model", commands)


def _counted(data: Mapping[str, Text], vocab_size: int, order: int) -> list[str]:
    """What an n-gram model of the training tokens says of the other parts."""
    held_out = {part: text for part, text in data.items() if part != "train"}
    if not order or not held_out:
        return []
    counts, notes = NGrams(data["train"].tokens, order, vocab_size), []
    for part, text in held_out.items():
        scores = likelihood_scores({"nll": counts.nll(text), "tokens": float(len(text)), "chars": float(text.chars)})
        notes.append(
            f"{part}: an n-gram model of order {order} (interpolated Kneser-Ney) has a perplexity of"
            f" {scores['perplexity']:.4g}, {scores['bits_per_char']:.4g} bits per character"
        )
    if len(data["train"]) > COUNTED:
        notes.append(f"the n-gram model counts the first {COUNTED:,} tokens of the text")
    return notes
