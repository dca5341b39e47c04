"""Masked language modelling: plain text in, an encoder that tells masked words from those on both sides."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from headwise.config import Config
from headwise.data.sources import Limits, Source
from headwise.data.streams import Text
from headwise.data.suggestions import Suggestion
from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.errors import ConfigError, DataError
from headwise.models.token_encoders import AttentionConfig, EncoderConfig
from headwise.predictors.baselines import Baseline
from headwise.predictors.classes import summed
from headwise.tasks.demo import Demo
from headwise.tasks.language.demo import MASKED_LM
from headwise.tasks.language.filler import MASK, Filler, likelihood, masked_loss
from headwise.tasks.language.language_model import LanguageModel
from headwise.tasks.language.masked import (
    MaskedBatch,
    MaskedEncoder,
    Masking,
    MaskingConfig,
    build_masked_encoder,
    masked_windows,
)
from headwise.tasks.options import BestOptions
from headwise.tasks.task import Assets, Description, Given, Metric, Probe, Stats
from headwise.tasks.text import running
from headwise.tasks.text.plain import SPECIALS, TextConfig, word_counts
from headwise.tasks.text.running import TOKENIZER_FILE
from headwise.tasks.text.writer import likelihood_scores


class MaskedLMConfig(Config):
    """Which text to learn, with which tokens and model, and what is masked."""

    data: TextConfig = Field(description="the text")
    tokenizer: TokenizerConfig = Field(TokenizerConfig(), description="how the text becomes tokens")
    model: EncoderConfig = Field(description="the encoder: token, window, cnn, rnn or attention")
    masking: MaskingConfig = Field(MaskingConfig(), description="which tokens have to be told, and what is put there")
    length: int = Field(128, ge=1, description="length of a window, in tokens")
    tie_output: bool = Field(True, description="the matrix before the vocabulary is that of the embeddings")
    embedding_std: float = Field(0.05, gt=0, description="standard deviation of the first embeddings")
    show: list[str] = Field(default=[], description=f"texts with {MASK} that are filled at each validation")

    def model_post_init(self, context: object) -> None:
        model = self.model
        if isinstance(model, AttentionConfig) and self.length > model.max_len and model.has_table():
            raise ConfigError(
                f"length ({self.length}) is above the {model.max_len} places of the model; raise model.max_len"
            )
        if wrong := [text for text in self.show if MASK not in text]:
            raise ConfigError(f"show: '{wrong[0][:40]}' has nothing to tell; write {MASK} in place of a word")


class MaskedLM(running.RunningText):
    """Telling masked tokens from those on both sides, trained on plain text.

    Source: Devlin et al. 2019, arXiv 1810.04805, task 1 of section 3.1; there is no second task.
    """

    name: ClassVar[str] = "masked-lm"
    demo: ClassVar[Demo | None] = MASKED_LM
    config_type: ClassVar[type[Config]] = MaskedLMConfig
    options = (BestOptions,)
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("loss", "low"),
        Metric("perplexity", "low"),
        Metric("accuracy", "high"),
    )
    config: MaskedLMConfig

    @classmethod
    def prepare_with(cls, config: MaskedLMConfig, given: Given) -> Assets[dict[str, Text]]:
        read = running.read(config.data, config.tokenizer, given, config.length)
        if (
            read.tokenizer.vocab_size <= SPECIALS
            or not word_counts(read.data["train"], read.tokenizer.vocab_size).any()
        ):
            raise DataError(f"{config.data.train}: no token of the training part is known, so there is none to mask")
        notes = [*read.notes, *_baselines(read.data, read.tokenizer)]
        return Assets({TOKENIZER_FILE: read.tokenizer.to_bytes()}, read.data, read.digests, tuple(notes))

    @classmethod
    def baselines(cls, config: MaskedLMConfig, predictor: Filler, examples: Sequence[str]) -> Iterator[Baseline]:
        """The frequencies of tokens in training, on the same masked tokens: see `_knowing_nothing`."""
        size = predictor.tokenizer.vocab_size
        train = word_counts(running.trained_on(config.data, predictor.tokenizer), size)
        target_counts = np.zeros(size, dtype=np.int64)
        for batch in predictor.masked(examples):
            target_counts += np.bincount(batch.targets.numpy(), minlength=size)
        if not (train.any() and target_counts.any()):
            return
        right, perplexity = _knowing_nothing(train, target_counts)
        scores = {"accuracy": right, "perplexity": perplexity, "loss": math.log(perplexity)}
        yield Baseline("frequencies of tokens", scores, int(target_counts.sum()))

    @classmethod
    def suggest(cls, data: Mapping[str, Any]) -> Suggestion:
        """An encoder of attention, with the sizes of a language model of this text."""
        values = LanguageModel.suggest(data).values
        model = {name: value for name, value in values["model"].items() if name != "num_layers"}
        training = {**values["training"], "learning_rate": 1e-3, "max_epochs": 20, "monitor": "loss"}
        model = {"kind": "attention", **model, "encoder_layers": 4}
        return Suggestion(values | {"model": model, "training": training}, "A masked language model of plain text")

    def build(self) -> MaskedEncoder:
        config = self.config
        return build_masked_encoder(
            config.model,
            self.tokenizer.vocab_size,
            embedding_std=config.embedding_std,
            tie_output=config.tie_output,
        )

    def source(self, split: str, limits: Limits) -> Source[MaskedBatch] | None:
        text = (self.assets.data or {}).get(split)
        if text is None:
            return None
        text, rows = running.limited(text, self.tokenizer, self.config.length, limits)
        train = split == "train"
        return masked_windows(text, self.config.length, rows, self._masking(limits.seed if train else 0), shuffle=train)

    def loss(self, model: nn.Module, batch: MaskedBatch) -> Float[Tensor, ""]:
        assert isinstance(model, MaskedEncoder)
        return masked_loss(model, batch)

    def measure(self, model: nn.Module, batches: Iterable[MaskedBatch]) -> Stats:
        assert isinstance(model, MaskedEncoder)
        return summed(likelihood(model, batch) for batch in batches)

    def summarise(self, stats: Stats) -> dict[str, float]:
        return likelihood_scores(stats)

    def samples(self, model: nn.Module) -> list[str]:
        filler = self.predictor(model)
        pairs = zip(self.config.show, filler.predict(self.config.show), strict=True)
        return [f"{text} → {filler.write(text, filled, 'text')[0]}" for text, filled in pairs]

    def probes(self, predictor: Any) -> list[Probe]:
        words = running.beginning(self.assets.data, self.tokenizer, self.config.length).split()
        middle = len(words) // 2
        masked = " ".join([*words[:middle], MASK, *words[middle + 1 :]])
        return [Probe(text) for text in self.config.show or [masked]]

    def predictor(self, model: nn.Module) -> Filler:
        assert isinstance(model, MaskedEncoder)
        return Filler(model, self.tokenizer, self._masking(0), self.config.length)

    def description(self) -> Description:
        commands = (f'predict RUN "a text with {MASK} in it"', "evaluate RUN --data text.txt")
        more = (
            " A classifier or regressor of texts starts from it\nwith the same `[tokenizer]` and `[model]`, and"
            ' `[start] weights = "RUN/model.safetensors"`.'
        )
        return self.described("Masked language model", f"An encoder of kind {self.config.model.kind}", commands, more)

    def _masking(self, seed: int) -> Masking:
        return Masking(self.config.masking, self.tokenizer.vocab_size, seed)


def _baselines(data: Mapping[str, Text], tokenizer: Tokenizer) -> list[str]:
    """What knowing nothing of the context is worth, over all tokens of a part that may be masked."""
    train = word_counts(data["train"], tokenizer.vocab_size)
    notes = []
    for part, text in data.items():
        counts = word_counts(text, len(train))
        if part == "train" or not counts.any():
            continue
        right, perplexity = _knowing_nothing(train, counts)
        notes.append(
            f"{part}: always saying '{tokenizer.shown(int(train.argmax()))}' is right for {right:.1%} of the tokens;"
            f" their frequencies in training have a perplexity of {perplexity:.4g}"
        )
    return notes


def _knowing_nothing(train: np.ndarray, target_counts: np.ndarray) -> tuple[float, float]:
    """Of tokens asked for: the share of training's most frequent one, and the perplexity of its frequencies plus one.

    Args:
        train, asked: how often each token of the vocabulary occurs.
    """
    shares = (train[SPECIALS:] + 1) / (train.sum() + len(train) - SPECIALS)
    perplexity = np.exp(-(target_counts[SPECIALS:] * np.log(shares)).sum() / target_counts.sum())
    return float(target_counts[train.argmax()] / target_counts.sum()), float(perplexity)
