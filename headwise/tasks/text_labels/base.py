"""What the tasks that read whole texts share, and their predictors: configuration, tokens, model, looking."""

import math
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from pydantic import Field, model_validator
from torch import Tensor, nn

from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.attention.precision import wide
from headwise.config import Config, build
from headwise.data.buckets import token_batches
from headwise.data.inspection import DataKind
from headwise.data.sources import Limits, Source, bucketed
from headwise.data.splits import DataSet
from headwise.data.suggestions import Size, Suggestion
from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.errors import ConfigError, DataError
from headwise.explain.explanation import Explanation, Layer
from headwise.explain.places import Tokens
from headwise.models.pooled_encoder import PooledEncoder, build_pooled_encoder
from headwise.models.pooling import AttentionOverSequence, MaxOverSequence, SequencePoolingConfig
from headwise.models.token_encoders import AttentionConfig, EncoderConfig
from headwise.predictors import looking
from headwise.predictors.evaluating import evaluating
from headwise.predictors.predictor import Predictor, Unknown, unknown_tokens
from headwise.processes import divided
from headwise.tasks._files import tokenizer_in
from headwise.tasks.task import Assets, Description, Given, Probe, Task
from headwise.tasks.text.labelled import (
    Labelled,
    LabelledBatch,
    LabelledConfig,
    TextRows,
    collate_texts,
    encode_texts,
    labelled_set,
    read_texts,
)
from headwise.tasks.text.report import LABELLED
from headwise.tasks.text.start import StartRunConfig, freeze, take_over, tokenizer_of_run
from headwise.tasks.text.vectors import StartConfig, filled

O = TypeVar("O")  # noqa: E741

TOKENIZER_FILE = "tokenizer.json"
# tokens that are read together, padding included
PREDICTION_TOKENS = 4096
FRONT = "<cls>"
# of texts, the share that a first recipe reads whole, and its bounds in tokens
_WHOLE, _SHORTEST, _LONGEST = 0.99, 32, 512
# texts that are cut into tokens to see how many they have; texts from which a wider model learns more
_SAMPLE, _MANY = 5_000, 50_000


class TextsConfig(Config):
    """Which texts to read, with which tokens and model."""

    data: LabelledConfig = Field(description="the texts and their labels")
    tokenizer: TokenizerConfig = Field(TokenizerConfig(), description="how a text becomes tokens")
    model: EncoderConfig = Field(description="the encoder: token, window, cnn, rnn or attention")
    pooling: SequencePoolingConfig = Field(SequencePoolingConfig(), description="how states become one vector")
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
        if isinstance(model, AttentionConfig) and places > (model.places() or places):
            raise ValueError(
                f"texts of data.max_len = {self.data.max_len} tokens take {places} places, but the model has a table of"
                f" {model.max_len}: set model.max_len to at least {places}, or data.max_len lower"
            )
        return self


class TextPredictor(Predictor[str, O, Labelled]):
    """A model that gives numbers of whole texts.

    Args:
        data: how files are read, and how many tokens of a text; of a longer one the beginning, with a warning.
    """

    def __init__(self, model: PooledEncoder, tokenizer: Tokenizer, data: LabelledConfig):
        self.model, self.tokenizer, self.data = model, tokenizer, data

    def parse(self, text: str) -> str:
        return self.tokenizer.clean(text)

    def read(self, path: Path) -> Iterator[str]:
        """The texts of a table, its column of answers left out if there is one, or of the lines of a file."""
        return read_texts(path, self.data, self.tokenizer.config.normalize)

    def unknown(self, items: Sequence[str]) -> Unknown:
        """Tokens that are not in the vocabulary."""
        return unknown_tokens(self.tokenizer, items)

    def text_of(self, example: Labelled) -> str:
        return example.text

    @torch.inference_mode()
    def logits(self, texts: Sequence[str]) -> Float[Tensor, "texts outputs"]:
        """What the head gives for each text, in float32 or wider, on the processor."""
        longest = self.data.max_len
        rows = encode_texts(texts, self.tokenizer, longest)
        if rows.cut:
            warnings.warn(
                f"{rows.cut:,} of {len(texts):,} texts have more than {longest:,} tokens;"
                " only their beginnings are read",
                stacklevel=4,
            )
        weight = self.model.head.weight
        logits = torch.zeros(len(texts), weight.shape[0], dtype=weight.dtype)

        def outputs_of(indices: list[int]) -> Tensor:
            batch = collate_texts(rows, indices).to(weight.device)
            outputs: Tensor = self.model(batch.tokens, batch.lens).cpu()
            return outputs

        batches = token_batches(rows.lengths(), max_tokens=max(PREDICTION_TOKENS, longest), shuffle=False)
        for indices, outputs in divided(outputs_of, batches):
            logits[indices] = outputs
        return wide(logits)

    @abstractmethod
    def answer(self, output: O) -> str:
        """An output in a few words."""

    def explain(self, item: str, target: str | None = None) -> Explanation:
        """What the pooling looks at as it makes one vector of a text, and the attention of every layer, token by token.

        A pooling that takes the largest number of every column shows from which tokens it takes how many.

        Raises:
            ConfigError: a target, or an empty text.
            Unsupported: a model without attention whose pooling takes all tokens alike, or always the same one.
        """
        if target is not None:
            raise ConfigError("the answer for a text cannot be given here; leave the target out")
        text = self.parse(item)
        rows = encode_texts([text], self.tokenizer, self.data.max_len)
        batch = collate_texts(rows, [0]).to(self.model.head.weight.device)
        if not int(batch.lens):
            raise ConfigError("the text is empty; there is nothing to look at")
        answer = self.answer(self.predict([text])[0])
        keys = [FRONT] * (self.model.front is not None) + list(self._cut(text))
        token_words, layers = [self._tokens(rows.tokens[0].tolist(), keys)], {}
        if isinstance(self.model.pooling, MaxOverSequence):
            layers["pooling"] = Layer(self._shares(self.model.pooling, batch), [answer], keys, "pooled")
            if not any(isinstance(module, Mechanism) for module in self.model.modules()):
                return Explanation(text, answer, layers, tokens=token_words)
        for name, heads in looking.attended(self.model, batch.tokens, batch.lens).items():
            pooled = isinstance(self.model.pooling, AttentionOverSequence) and name.startswith("pooling.")
            layers[name] = heads.layer([answer] if pooled else keys, keys, "pooled" if pooled else None)
        return Explanation(text, answer, layers, tokens=token_words)

    def _cut(self, text: str) -> Sequence[str]:
        return self.tokenizer.shorten(self.tokenizer.tokens(text), self.data.max_len)

    def _tokens(self, ids: list[int], labels: list[str]) -> Tokens:
        """What the tokens of a text are, with the one in front of it where the model reads one."""
        tokens = looking.tokens_of(self.tokenizer, ids, labels[-len(ids) :])
        if self.model.front is None:
            return tokens
        return Tokens(labels, [-1, *tokens.words], [0, *(place + 1 for place in tokens.special)])

    @torch.inference_mode()
    def _shares(self, pooling: MaxOverSequence, batch: LabelledBatch) -> np.ndarray:
        with evaluating(self.model):
            shares = pooling.shares(*self.model.states(batch.tokens, batch.lens))
        return shares.double().cpu().numpy()[None]


@dataclass(frozen=True)
class Texts:
    """The examples of a split, and their tokens and targets."""

    examples: list[Labelled]
    rows: TextRows


class TextTask(Task[dict[str, Texts]]):
    """A task that gives whole texts a label or a number."""

    kinds: ClassVar[tuple[DataKind, ...]] = (LABELLED,)
    unit: ClassVar[str] = "texts"
    # whether texts have numbers in place of labels
    numbers: ClassVar[bool]
    config: TextsConfig

    def __init__(self, config: TextsConfig, assets: Assets[dict[str, Texts]]):
        super().__init__(config, assets)
        self.tokenizer = tokenizer_in(assets.files, TOKENIZER_FILE, config.tokenizer)

    @property
    @abstractmethod
    def num_outputs(self) -> int:
        """Numbers that the model gives of a text."""

    @classmethod
    def data_set(cls, config: TextsConfig) -> DataSet[Labelled]:
        return labelled_set(config.data, config.tokenizer, numbers=cls.numbers)

    @classmethod
    def examples(cls, config: TextsConfig, split: str) -> list[Labelled]:
        return cls.data_set(config).examples(split)

    @classmethod
    def suggest(cls, data: Mapping[str, Any]) -> Suggestion:
        """A recurrent reader with attention pooling for the texts of these keys of `[data]`."""
        config = build(LabelledConfig, data, "data")
        data_set = labelled_set(config, TokenizerConfig(), numbers=cls.numbers)
        examples = data_set.read_file("train")[0]
        texts = [example.text for example in examples]
        words = {word for text in texts for word in text.split()}
        tokens = TokenizerConfig(kind="bpe", vocab_size=min(8000, 1000 * math.ceil((len(words) + 4) / 1000)))
        # a batch has room for the longest text, also where the user says how long that is
        longest = config.max_len if "max_len" in data else _longest(texts[:: math.ceil(len(texts) / _SAMPLE)], tokens)
        values = {
            "data": {**data_set.shares(data, examples), **data, "max_len": longest},
            "tokenizer": {"kind": tokens.kind, "vocab_size": tokens.vocab_size},
            "pooling": {"kind": "attention"},
            "model": {"kind": "rnn", "cell": "gru", "d_model": 64, "hidden_dim": 64, "num_layers": 1, "dropout": 0.5},
            "training": {
                "learning_rate": 4e-3,
                "schedule": "budget",
                "warmup_share": 0.1,
                "batch_tokens": max(1024, longest),
                # passes after which a model of this size knows the training texts by heart
                "max_epochs": 20 if len(examples) < 1_000 else 8 if len(examples) < 4_000 else 4,
                "monitor": "rmse" if cls.numbers else "accuracy",
            },
        }
        what = "A number for each text" if cls.numbers else "Classes of texts"
        larger = {"model.d_model": 128, "model.hidden_dim": 128, "training.learning_rate": 2e-3}
        sizes = (Size({}, 0), *((Size(larger, 5_000),) if len(examples) >= _MANY else ()))
        return Suggestion(values, f"{what}, fitted to the {len(examples):,} texts", sizes)

    def build(self) -> PooledEncoder:
        config = self.config
        model = build_pooled_encoder(
            config.model,
            config.pooling,
            self.tokenizer.vocab_size,
            self.num_outputs,
            embedding_std=config.embedding_std,
            token_dropout=config.token_dropout,
        )
        if config.vectors.file is not None and config.vectors.frozen:
            model.embedding.requires_grad_(False)
        if config.start.weights is not None and config.start.frozen:
            freeze(model)
        return model

    def initialise(self, model: nn.Module, seed: int) -> list[str]:
        assert isinstance(model, PooledEncoder)
        start, path = self.config.start, self.config.vectors.file
        if start.weights is not None:
            return [take_over(model, start.weights, self.config.model, frozen=start.frozen)]
        return [] if path is None else [f"{path}: {filled(model.embedding, path, self.tokenizer, seed)}"]

    def source(self, split: str, limits: Limits) -> Source[LabelledBatch] | None:
        texts = self.split(split)
        if texts is None:
            return None
        return bucketed(texts.rows.lengths(), partial(collate_texts, texts.rows), limits, shuffle=split == "train")

    def split(self, split: str) -> Texts | None:
        """The examples of a split; None where there are none, as in a run that is loaded."""
        texts = (self.assets.data or {}).get(split)
        return texts if texts is not None and texts.examples else None

    def shown(self) -> list[str]:
        """The texts that validations show: those named, or the first ones to validate on."""
        texts = self.split("valid") or self.split("train")
        examples = texts.examples if texts else []
        return self.config.show or [example.text for example in examples[: self.config.num_shown]]

    def samples(self, model: nn.Module) -> list[str]:
        predictor, texts = self.predictor(model), self.shown()
        return [f"{text} → {self.sample(output)}" for text, output in zip(texts, predictor.predict(texts), strict=True)]

    @abstractmethod
    def sample(self, output: Any) -> str:
        """An output as validations show it."""

    def probes(self, predictor: Any) -> list[Probe]:
        return [Probe(text) for text in self.shown()]

    def described(self, title: str, size: int, answer: str) -> Description:
        """What the README of a run says.

        Args:
            size: texts that were trained on.
            answer: what a text is given.
        """
        config = self.config
        text = (
            f"An encoder of kind {config.model.kind} over {config.tokenizer.kind} tokens with {config.pooling.kind}"
            f" pooling that gives each text {answer}, trained with Headwise on {size:,} texts."
        )
        return Description(title, text, ('predict RUN "a text"', "evaluate RUN --data labelled.csv"))


def tokenizer_for(train: Sequence[Labelled], config: TextsConfig, given: Given) -> Tokenizer:
    """The tokens of the run that goes on, of the run that the encoder starts from, or else of the training texts."""
    if given.files is not None:
        return tokenizer_in(given.files, TOKENIZER_FILE, config.tokenizer)
    if config.start.weights is not None:
        return tokenizer_of_run(config.start.weights, config.tokenizer)
    return Tokenizer.train([example.text for example in train], config.tokenizer)


def encoded(
    split: str, examples: list[Labelled], targets: Sequence[int] | Sequence[float], tokenizer: Tokenizer, max_len: int
) -> tuple[Texts, list[str]]:
    """The examples with their tokens, and a note where some are cut."""
    rows = encode_texts([example.text for example in examples], tokenizer, max_len, targets)
    note = f"{split}: of {rows.cut:,} of {len(examples):,} texts only the first {max_len} tokens are read"
    return Texts(examples, rows), [note] if rows.cut else []


def refuse_equal(labels: Sequence[object], train: str, what: str) -> None:
    """Raises: DataError where there is nothing to learn, since all labels are equal."""
    if len(set(labels)) == 1:
        raise DataError(f"{train}: every text of the training part has the {what} {labels[0]!r}: nothing to learn")


def _longest(texts: Sequence[str], config: TokenizerConfig) -> int:
    """A length in tokens that nearly all texts keep to, a multiple of 16."""
    lengths = [len(row) for row in Tokenizer.train(texts, config).encode_batch(texts)]
    usual = float(np.quantile(lengths, _WHOLE, method="higher"))
    return min(_LONGEST, max(_SHORTEST, 16 * math.ceil(usual / 16)))
