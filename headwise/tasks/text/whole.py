"""What the tasks that read whole texts share: files, tokenizer, model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import Field, model_validator
from torch import nn

from headwise.attention import mechanisms
from headwise.config import Config
from headwise.data.sources import Limits, Source, bucketed
from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.errors import DataError
from headwise.models.pooled_encoder import PooledEncoder, build_pooled_encoder
from headwise.models.pooling import SequencePoolingConfig
from headwise.models.token_encoders import AttentionConfig, EncoderConfig
from headwise.tasks.task import Assets, Description, required
from headwise.tasks.text.labelled import (
    Labelled,
    LabelledBatch,
    LabelledConfig,
    TextRows,
    collate_texts,
    encode_texts,
)
from headwise.tasks.text.pooled import Reader
from headwise.tasks.text.start import StartRunConfig, freeze, take_over, tokenizer_of_run
from headwise.tasks.text.vectors import StartConfig, filled

TOKENIZER_FILE = "tokenizer.json"


class TextsConfig(Config):
    """Which texts to read, with which tokens and model."""

    data: LabelledConfig = Field(description="the texts and their labels")
    tokenizer: TokenizerConfig = Field(TokenizerConfig(), description="how a text becomes tokens")
    model: EncoderConfig = Field(description="the encoder: token, window, cnn, rnn or attention")
    pooling: SequencePoolingConfig = Field(
        SequencePoolingConfig(), description="how the states of a text become one vector"
    )
    vectors: StartConfig = Field(StartConfig(), description="pretrained word vectors")
    start: StartRunConfig = Field(StartRunConfig(), description="a trained encoder to start from")
    embedding_std: float = Field(0.1, gt=0, description="standard deviation of the first embeddings")
    token_dropout: float = Field(0.0, ge=0, lt=1, description="share of the tokens that are hidden while training")
    show: list[str] = Field(default=[], description="texts shown with their answers at each validation; if empty, some")
    num_shown: int = Field(4, ge=0, description="how many texts are shown if none are named")

    @model_validator(mode="after")
    def _fits(self) -> "TextsConfig":
        self.pooling.check(self.model)
        if self.start.weights is not None and self.vectors.file is not None:
            raise ValueError("start.weights and vectors.file both give the embeddings: leave one of them out")
        model, places = self.model, self.data.max_len + (self.pooling.kind == "cls")
        if isinstance(model, AttentionConfig) and places > model.max_len and has_table(model):
            raise ValueError(
                f"texts of data.max_len = {self.data.max_len} tokens take {places} places, but the model has a table of"
                f" {model.max_len}: set model.max_len to at least {places}, or data.max_len lower"
            )
        return self


def has_table(model: AttentionConfig) -> bool:
    """Whether the model has weights for each place, so that there are no more places than `max_len`."""
    return model.position == "learned" or mechanisms.mechanism_type(model.mechanism).facts.steps == "own"


@dataclass(frozen=True)
class Texts:
    """The examples of a split, and their tokens and targets."""

    examples: list[Labelled]
    rows: TextRows


def tokenizer_of(files: Mapping[str, bytes], config: TextsConfig) -> Tokenizer:
    """The tokens in the files of a run."""
    return Tokenizer.from_bytes(required(files, TOKENIZER_FILE), TOKENIZER_FILE, config.tokenizer)


def trained_tokenizer(train: Sequence[Labelled], config: TextsConfig) -> Tokenizer:
    """The tokens of the training texts, or those of the run that the encoder starts from."""
    if config.start.weights is not None:
        return tokenizer_of_run(config.start.weights, config.tokenizer)
    return Tokenizer.train([example.text for example in train], config.tokenizer)


def encoded(
    split: str, examples: list[Labelled], targets: Sequence[int] | Sequence[float], tokenizer: Tokenizer, max_len: int
) -> tuple[Texts, list[str]]:
    """The examples with their tokens, and a note where some are cut."""
    rows = encode_texts([example.text for example in examples], tokenizer, max_len, targets)
    told = f"{split}: of {rows.cut:,} of {len(examples):,} texts only the first {max_len} tokens are read"
    return Texts(examples, rows), [told] if rows.cut else []


def split_of(assets: Assets[dict[str, Texts]], split: str) -> Texts | None:
    """The examples of a split; None where there are none, as in a run that is loaded."""
    found = (assets.data or {}).get(split)
    return found if found is not None and found.examples else None


def source_of(found: Texts | None, limits: Limits, *, shuffle: bool) -> Source[LabelledBatch] | None:
    """Batches of texts of similar length."""
    if found is None:
        return None
    return bucketed(found.rows.lengths(), partial(collate_texts, found.rows), limits, shuffle=shuffle)


def built(config: TextsConfig, tokenizer: Tokenizer, outputs: int) -> PooledEncoder:
    """The model of a recipe, with random weights."""
    model = build_pooled_encoder(
        config.model,
        config.pooling,
        tokenizer.vocab_size,
        outputs,
        embedding_std=config.embedding_std,
        token_dropout=config.token_dropout,
    )
    if config.vectors.file is not None and config.vectors.frozen:
        model.embedding.requires_grad_(False)
    if config.start.weights is not None and config.start.frozen:
        freeze(model)
    return model


def started(model: nn.Module, tokenizer: Tokenizer, config: TextsConfig, seed: int) -> list[str]:
    """Puts the recipe's word vectors or trained encoder, if any, into a new model, and tells what it starts from."""
    assert isinstance(model, PooledEncoder)
    if config.start.weights is not None:
        return [take_over(model, config.start.weights, config.model, frozen=config.start.frozen)]
    path = config.vectors.file
    return [] if path is None else [f"{path}: {filled(model.embedding, path, tokenizer, seed)}"]


def reader_of(model: Any, tokenizer: Tokenizer, config: TextsConfig) -> Reader:
    """What applies a model to texts."""
    assert isinstance(model, PooledEncoder)
    return Reader(model, tokenizer, config.data.max_len)


def shown(config: TextsConfig, assets: Assets[dict[str, Texts]]) -> list[str]:
    """The texts that validations show: those named, or the first ones to validate on."""
    found = split_of(assets, "valid") or split_of(assets, "train")
    return config.show or [example.text for example in (found.examples if found else [])[: config.num_shown]]


def description(config: TextsConfig, title: str, size: int, answer: str) -> Description:
    """What the README of a run says."""
    text = (
        f"An encoder of kind {config.model.kind} over {config.tokenizer.kind} tokens with {config.pooling.kind} pooling"
        f" that gives each text {answer}, trained with Headwise on {size:,} texts."
    )
    return Description(title, text, ('predict RUN "a text"', "evaluate RUN --data labelled.csv"))


def refuse_equal(labels: Sequence[object], train: str, what: str) -> None:
    """Raises: DataError where there is nothing to learn, since all labels are equal."""
    if len(set(labels)) == 1:
        raise DataError(f"{train}: every text of the training part has the {what} {labels[0]!r}: nothing to learn")
