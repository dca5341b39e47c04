"""A trained regressor: gives each text a number, and scores itself."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headwise.data.labelled import Labelled, LabelledConfig, read_texts
from headwise.errors import DataError
from headwise.explain.explanation import Explanation
from headwise.predictors.baselines import Baseline, of_numbers
from headwise.predictors.numbers import Scale, error_counts, error_scores
from headwise.predictors.predictor import Form, Predictor, Unknown, unknown_tokens
from headwise.predictors.texts import Reader


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
        texts = [items] if isinstance(items, str) else items
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

    def evaluate(self, examples: Sequence[Labelled], *, options: Any = None) -> dict[str, float | str]:
        """Mean absolute error, root mean square error and R2, on the scale of the data.

        Raises:
            DataError: no texts.
        """
        if not examples:
            raise DataError("there is nothing to score: no texts")
        texts, labels = [example.text for example in examples], [float(example.label or 0.0) for example in examples]
        # standardised, so that no sum of squares drowns in the square of a large mean
        gold, said = (
            (np.array(found) - self.scale.mean) / self.scale.deviation for found in (labels, self.predict(texts))
        )
        return {**error_scores(error_counts(said, gold), self.scale.deviation)}

    def baselines(self, examples: Sequence[Labelled]) -> Iterator[Baseline]:
        gold = [float(example.label or 0.0) for example in examples]
        yield of_numbers("mean of training", [self.scale.mean] * len(gold), gold)
