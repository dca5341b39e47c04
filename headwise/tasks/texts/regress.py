"""The task of giving whole texts a number, and the predictor that does it."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention.precision import wide
from headwise.config import Config
from headwise.data.inspection import DataKind
from headwise.data.sources import Limits, Source
from headwise.data.suggestions import Suggestion
from headwise.explain.explanation import Explanation
from headwise.models.pooled_encoder import PooledEncoder
from headwise.predictors.baselines import Baseline, named, of_numbers, ridge_regression, sample, tfidf
from headwise.predictors.numbers import Scale, error_counts, error_scores
from headwise.predictors.predictor import Form, Predictor, Unknown, unknown_tokens
from headwise.tasks._files import as_json, from_json
from headwise.tasks.demo import Demo
from headwise.tasks.task import Assets, Description, Given, Metric, Probe, Stats, Task
from headwise.tasks.text import whole
from headwise.tasks.text.labelled import Labelled, LabelledBatch, LabelledConfig, labelled_set, read_texts
from headwise.tasks.text.pooled import Reader, spread
from headwise.tasks.text.report import LABELLED
from headwise.tasks.text.suggestions import suggest_for_labelled
from headwise.tasks.text.whole import TOKENIZER_FILE, Texts, TextsConfig
from headwise.tasks.texts.demo import REGRESS


class Regressor(Predictor[str, float, Labelled]):
    """A model that reads texts and says a number of each, on the scale of the data.

    Args:
        scale: of the numbers of training.
        data: how files are read.
    """

    def __init__(self, reader: Reader, scale: Scale, data: LabelledConfig):
        self.model, self.reader, self.scale, self.data = reader.model, reader, scale, data

    def parse(self, text: str) -> str:
        return self.reader.tokenizer.clean(text)

    def read(self, path: Path) -> Iterator[str]:
        """The texts of a table, its column of numbers left out if there is one, or of the lines of a file."""
        return read_texts(path, self.data, self.reader.tokenizer.config.normalize)

    def predict(self, items: Sequence[str] | str, options: Any = None) -> list[float]:
        """The number of each text, in their order; `options` are none. An empty text has a number too."""
        texts = self.inputs(items)
        found = self.reader.read(texts)[:, 0].double() * self.scale.deviation + self.scale.mean
        numbers: list[float] = found.tolist()
        return numbers

    def write(self, item: str, output: float, form: Form, options: Any = None) -> list[str]:
        """The number; or a line of JSON that can be read again as data."""
        if form == "text":
            return [f"{output:.6g}"]
        return [json.dumps({self.data.text_key: item, self.data.label_key: output}, ensure_ascii=False)]

    def unknown(self, items: Sequence[str]) -> Unknown:
        """Tokens that are not in the vocabulary."""
        return unknown_tokens(self.reader.tokenizer, items)

    def explain(self, item: str, target: str | None = None) -> Explanation:
        """What the pooling and every attention layer look at, token by token; raises as `Reader.explain`."""
        text = self.parse(item)
        return self.reader.explain(text, f"{self.predict([text])[0]:.4g}", target)

    def text_of(self, example: Labelled) -> str:
        return example.text

    def scores_of(self, examples: Sequence[Labelled], options: Any = None) -> dict[str, float | str]:
        """Mean absolute error, root mean square error and R2, on the scale of the data.

        Raises:
            DataError: no texts.
        """
        texts, labels = [example.text for example in examples], [float(example.label or 0.0) for example in examples]
        # standardised, so that no sum of squares drowns in the square of a large mean
        gold, said = (
            (np.array(found) - self.scale.mean) / self.scale.deviation for found in (labels, self.predict(texts))
        )
        return {**error_scores(error_counts(said, gold), self.scale.deviation)}

    def baselines(self, examples: Sequence[Labelled]) -> Iterator[Baseline]:
        gold = [float(example.label or 0.0) for example in examples]
        yield of_numbers("mean of training", [self.scale.mean] * len(gold), gold)


SCALE_FILE = "scale.json"


class RegressConfig(TextsConfig):
    """Which number to tell of a text, with which tokens and model, and how to train it to."""


class Regress(Task[dict[str, Texts]]):
    """Regression of whole texts, each of which has one number.

    The model learns (number - mean) / deviation, mean and standard deviation those of the training part.
    """

    name: ClassVar[str] = "regress"
    kinds: ClassVar[tuple[DataKind, ...]] = (LABELLED,)
    demo: ClassVar[Demo | None] = REGRESS
    unit: ClassVar[str] = "texts"
    config_type: ClassVar[type[Config]] = RegressConfig
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("loss", "low"),
        Metric("mae", "low"),
        Metric("rmse", "low"),
        Metric("r2", "high"),
    )
    config: RegressConfig

    def __init__(self, config: RegressConfig, assets: Assets[dict[str, Texts]]):
        super().__init__(config, assets)
        self.tokenizer, self.scale = whole.tokenizer_of(assets.files, config), _scale(assets.files)

    @classmethod
    def prepare_with(cls, config: RegressConfig, given: Given) -> Assets[dict[str, Texts]]:
        parts = labelled_set(config.data, config.tokenizer, numbers=True).read()
        train = parts.examples["train"]
        if given.files is None:
            whole.refuse_equal([example.label for example in train], config.data.train, "number")
            tokenizer, scale = whole.trained_tokenizer(train, config), Scale(*spread(map(_number, train)))
        else:
            tokenizer, scale = whole.tokenizer_of(given.files, config), _scale(given.files)
        data, notes = {}, list(parts.notes)
        for split, examples in parts:
            targets = [(_number(example) - scale.mean) / scale.deviation for example in examples]
            data[split], cut = whole.encoded(split, examples, targets, tokenizer, config.data.max_len)
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
    def examples(cls, config: RegressConfig, split: str) -> list[Labelled]:
        return labelled_set(config.data, config.tokenizer, numbers=True).examples(split)

    @classmethod
    def baselines(cls, config: RegressConfig, predictor: Regressor, examples: Sequence[Labelled]) -> Iterator[Baseline]:
        """Ridge regression on words and pairs of words."""
        every = cls.examples(config, "train")
        train = sample(every)
        known, features = tfidf([one.text for one in train], [one.text for one in examples])
        predicted = ridge_regression(known, [_number(one) for one in train], features)
        name = named("TF-IDF and ridge regression", len(train), len(every))
        yield of_numbers(name, predicted, [_number(one) for one in examples])

    @classmethod
    def suggest(cls, data: Mapping[str, object]) -> Suggestion:
        return suggest_for_labelled(data, numbers=True)

    def build(self) -> PooledEncoder:
        return whole.built(self.config, self.tokenizer, 1)

    def initialise(self, model: nn.Module, seed: int) -> list[str]:
        return whole.started(model, self.tokenizer, self.config, seed)

    def source(self, split: str, limits: Limits) -> Source[LabelledBatch] | None:
        return whole.source_of(whole.split_of(self.assets, split), limits, shuffle=split == "train")

    def loss(self, model: nn.Module, batch: LabelledBatch) -> Float[Tensor, ""]:
        """Sum of the squared errors of the standardised numbers."""
        return (wide(_said(model, batch)) - batch.targets).square().sum()

    def measure(self, model: nn.Module, batches: Iterable[LabelledBatch]) -> Stats:
        """Sums of errors over these batches."""
        stats: Counter[str] = Counter()
        for batch in batches:
            said = _said(model, batch).double().cpu().numpy()
            stats.update(error_counts(said, batch.targets.double().cpu().numpy()))
        return dict(stats)

    def summarise(self, stats: Stats) -> dict[str, float]:
        return {"loss": stats["squares"] / stats["count"]} | error_scores(stats, self.scale.deviation)

    def samples(self, model: nn.Module) -> list[str]:
        texts, regressor = whole.shown(self.config, self.assets), self.predictor(model)
        return [f"{text} → {number:.4g}" for text, number in zip(texts, regressor.predict(texts), strict=True)]

    def probes(self, predictor: Any) -> list[Probe]:
        return [Probe(text) for text in whole.shown(self.config, self.assets)]

    def predictor(self, model: nn.Module) -> Regressor:
        return Regressor(whole.reader_of(model, self.tokenizer, self.config), self.scale, self.config.data)

    def description(self) -> Description:
        found = whole.split_of(self.assets, "train")
        return whole.description(self.config, "Regressor", len(found.examples) if found else 0, "a number")


def _number(example: Labelled) -> float:
    return float(example.label or 0.0)


def _said(model: nn.Module, batch: LabelledBatch) -> Tensor:
    outputs: Tensor = model(batch.tokens, batch.lens)
    return outputs[:, 0]


def _scale(files: Mapping[str, bytes]) -> Scale:
    return from_json(files, SCALE_FILE, Scale.from_json, "not a mean and a deviation")
