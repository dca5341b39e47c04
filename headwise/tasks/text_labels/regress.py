"""The task of giving whole texts a number, and the predictor that does it."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention.precision import wide
from headwise.config import Config
from headwise.data.tokenizers import Tokenizer
from headwise.models.pooled_encoder import PooledEncoder
from headwise.predictors.baselines import Baseline, named, of_numbers, ridge_regression, sample, tfidf
from headwise.predictors.classes import summed
from headwise.predictors.numbers import Scale, error_counts, error_scores, number_scores
from headwise.predictors.predictor import Form
from headwise.predictors.rows import Scored
from headwise.tasks._files import as_json, from_json
from headwise.tasks.demo import Demo
from headwise.tasks.task import Assets, Description, Given, Metric, Stats
from headwise.tasks.text.labelled import Labelled, LabelledBatch, LabelledConfig
from headwise.tasks.text_labels.base import (
    TOKENIZER_FILE,
    TextPredictor,
    Texts,
    TextsConfig,
    TextTask,
    encoded,
    refuse_equal,
    tokenizer_for,
)
from headwise.tasks.text_labels.demo import REGRESS


class Regressor(TextPredictor[float]):
    """A model that reads texts and says a number of each, on the scale of the data.

    Args:
        scale: of the numbers of training.
        data: how files are read.
    """

    def __init__(self, model: PooledEncoder, tokenizer: Tokenizer, data: LabelledConfig, scale: Scale):
        super().__init__(model, tokenizer, data)
        self.scale = scale

    def predict(self, items: Sequence[str] | str, options: Any = None) -> list[float]:
        """The number of each text, in their order; `options` are none. An empty text has a number too."""
        texts = self.inputs(items)
        values = self.logits(texts)[:, 0].double() * self.scale.deviation + self.scale.mean
        numbers: list[float] = values.tolist()
        return numbers

    def write(self, item: str, output: float, form: Form, options: Any = None) -> list[str]:
        """The number; or a line of JSON that can be read again as data."""
        if form == "text":
            return [f"{output:.6g}"]
        return [json.dumps({self.data.text_key: item, self.data.label_key: output}, ensure_ascii=False)]

    def answer(self, output: float) -> str:
        return f"{output:.4g}"

    def scored(self, examples: Sequence[Labelled], options: Any = None) -> Scored:
        """Mean absolute error, root mean square error and R2, on the scale of the data. Raises: DataError: no texts."""
        texts, labels = [example.text for example in examples], [_number(example) for example in examples]
        # standardised, so that no sum of squares drowns in the square of a large mean
        gold, predicted = (
            (np.array(values) - self.scale.mean) / self.scale.deviation for values in (labels, self.predict(texts))
        )
        return number_scores(predicted, gold, self.scale.deviation, [*zip(texts, labels, strict=True)])

    def baselines(self, examples: Sequence[Labelled]) -> Iterator[Baseline]:
        gold = [_number(example) for example in examples]
        yield of_numbers("mean of training", [self.scale.mean] * len(gold), gold)


SCALE_FILE = "scale.json"


class RegressConfig(TextsConfig):
    """Which number to tell of a text, with which tokens and model, and how to train it to."""


class Regress(TextTask):
    """Regression of whole texts, each of which has one number.

    The model learns (number - mean) / deviation, mean and standard deviation those of the training part.
    """

    name: ClassVar[str] = "regress"
    demo: ClassVar[Demo | None] = REGRESS
    numbers: ClassVar[bool] = True
    config_type: ClassVar[type[Config]] = RegressConfig
    metrics = (Metric("loss", "low"), Metric("mae", "low"), Metric("rmse", "low"), Metric("r2", "high"))
    config: RegressConfig

    def __init__(self, config: RegressConfig, assets: Assets[dict[str, Texts]]):
        super().__init__(config, assets)
        self.scale = _scale(assets.files)

    @classmethod
    def prepare_with(cls, config: RegressConfig, given: Given) -> Assets[dict[str, Texts]]:
        parts = cls.data_set(config).read()
        train = parts.examples["train"]
        if given.files is None or SCALE_FILE not in given.files:
            refuse_equal([example.label for example in train], config.data.train, "number")
            numbers = np.array([_number(example) for example in train], np.float64)
            scale = Scale(float(numbers.mean()), float(numbers.std()))
        else:
            scale = _scale(given.files)
        tokenizer = tokenizer_for(train, config, given)
        data, notes = {}, list(parts.notes)
        for split, examples in parts:
            targets = [(_number(example) - scale.mean) / scale.deviation for example in examples]
            data[split], cut = encoded(split, examples, targets, tokenizer, config.data.max_len)
            notes += cut
            if split != "train" and targets:
                # the mean is 0 on the scale of the targets
                apart = scale.deviation * math.sqrt(sum(target**2 for target in targets) / len(targets))
                notes.append(
                    f"{split}: always saying {scale.mean:.4g}, the mean of training, has an RMSE of {apart:.4g}"
                )
        files = {TOKENIZER_FILE: tokenizer.to_bytes(), SCALE_FILE: as_json(scale._asdict())}
        return Assets(files, data, parts.digests, tuple(notes))

    @classmethod
    def baselines(cls, config: RegressConfig, predictor: Regressor, examples: Sequence[Labelled]) -> Iterator[Baseline]:
        """Ridge regression on words and pairs of words."""
        every = cls.examples(config, "train")
        train = sample(every)
        train_features, features = tfidf([example.text for example in train], [example.text for example in examples])
        predicted = ridge_regression(train_features, [_number(example) for example in train], features)
        name = named("TF-IDF and ridge regression", len(train), len(every))
        yield of_numbers(name, predicted, [_number(example) for example in examples])

    @property
    def num_outputs(self) -> int:
        return 1

    def loss(self, model: nn.Module, batch: LabelledBatch) -> Float[Tensor, ""]:
        """Sum of the squared errors of the standardised numbers."""
        return (wide(_predicted(model, batch)) - batch.targets).square().sum()

    def measure(self, model: nn.Module, batches: Iterable[LabelledBatch]) -> Stats:
        return summed(
            error_counts(_predicted(model, batch).double().cpu().numpy(), batch.targets.double().cpu().numpy())
            for batch in batches
        )

    def summarise(self, stats: Stats) -> dict[str, float]:
        return {"loss": stats["squares"] / stats["count"]} | error_scores(stats, self.scale.deviation)

    def sample(self, output: float) -> str:
        return f"{output:.4g}"

    def predictor(self, model: nn.Module) -> Regressor:
        assert isinstance(model, PooledEncoder)
        return Regressor(model, self.tokenizer, self.config.data, self.scale)

    def description(self) -> Description:
        train = self.split("train")
        return self.described("Regressor", len(train.examples) if train else 0, "a number")


def _number(example: Labelled) -> float:
    return float(example.label or 0.0)


def _predicted(model: nn.Module, batch: LabelledBatch) -> Tensor:
    outputs: Tensor = model(batch.tokens, batch.lens)
    return outputs[:, 0]


def _scale(files: Mapping[str, bytes]) -> Scale:
    return from_json(files, SCALE_FILE, Scale.from_json, "not a mean and a deviation")
