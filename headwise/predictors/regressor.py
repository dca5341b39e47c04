"""A trained regressor: gives each text a number, and scores itself."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headwise.data.labelled import Labelled, LabelledConfig, read_texts
from headwise.errors import DataError
from headwise.explain.explanation import Explanation
from headwise.predictors.baselines import Baseline, of_numbers
from headwise.predictors.predictor import Form, Predictor, Unknown, unknown_tokens
from headwise.predictors.texts import Reader


class Scale(NamedTuple):
    """Mean and standard deviation of the numbers of training: the model knows (number - mean) / deviation."""

    mean: float
    deviation: float

    @classmethod
    def from_json(cls, value: Any) -> "Scale":
        """From what `_asdict` gave, by way of JSON. Raises: ValueError or TypeError if it is something else."""
        made = cls(**value)
        if not all(isinstance(each, float) and math.isfinite(each) for each in made) or made.deviation <= 0:
            raise ValueError(made)
        return made


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


def error_counts(said: np.ndarray, gold: np.ndarray) -> dict[str, float]:
    """Sums over standardised numbers, of which `error_scores` makes scores; those of several batches add up."""
    wrong = said - gold
    sums = {"absolute": np.abs(wrong).sum(), "squares": (wrong**2).sum(), "gold": gold.sum(), "power": (gold**2).sum()}
    return {"count": float(len(gold))} | {name: float(value) for name, value in sums.items()}


def error_scores(counts: Mapping[str, float], deviation: float) -> dict[str, float]:
    """Mean absolute error, root mean square error, and R2: the share of the variance of the right numbers explained.

    R2 = 1 - sum (said - gold)^2 / sum (gold - mean of gold)^2, NaN where all right numbers are equal.

    Args:
        deviation: the unit of the standardised numbers, which errors are multiplied by.

    >>> found = error_scores(error_counts(np.array([1.0, 2.0]), np.array([1.0, 4.0])), 10.0)
    >>> found["mae"], round(found["rmse"], 3), round(found["r2"], 3)
    (10.0, 14.142, 0.111)
    """
    count = counts["count"]
    variance = counts["power"] - counts["gold"] ** 2 / count
    # what rounding leaves of equal numbers is no variance
    varies = variance > 1e-9 * counts["power"]
    return {
        "mae": deviation * counts["absolute"] / count,
        "rmse": deviation * math.sqrt(counts["squares"] / count),
        "r2": 1.0 - counts["squares"] / variance if varies else math.nan,
    }
