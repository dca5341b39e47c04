"""How far predicted numbers are from the right ones: the scale of training, sums over batches, scores of them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from headwise.predictors.rows import Formula, Rows, Scored, question_of


class Scale(NamedTuple):
    """Mean and standard deviation of the numbers of training: the model knows (number - mean) / deviation."""

    mean: float
    deviation: float

    @classmethod
    def from_json(cls, value: Any) -> "Scale":
        """From what `_asdict` gave, by way of JSON. Raises: ValueError or TypeError if it is something else."""
        scale = cls(**value)
        if not all(isinstance(number, float) and math.isfinite(number) for number in scale) or scale.deviation <= 0:
            raise ValueError(scale)
        return scale


def error_counts(predicted: np.ndarray, gold: np.ndarray) -> dict[str, float]:
    """Sums over standardised numbers, of which `error_scores` makes scores; those of several batches add up."""
    wrong = predicted - gold
    sums = {"absolute": np.abs(wrong).sum(), "squares": (wrong**2).sum(), "gold": gold.sum(), "power": (gold**2).sum()}
    return {"count": float(len(gold))} | {name: float(value) for name, value in sums.items()}


def number_scores(predicted: np.ndarray, gold: np.ndarray, deviation: float, inputs: Sequence[object]) -> Scored:
    """The scores of standardised numbers, as of `error_scores`.

    Args:
        inputs: what identifies the examples, and their numbers as they are in the file.
    """
    wrong = predicted - gold
    units = {"error": np.abs(wrong), "square": wrong**2, "gold": gold, "power": gold**2}
    factors = {"error": deviation, "square": deviation**2, "gold": deviation, "power": deviation**2}
    columns = {name: (factors[name] * values).tolist() for name, values in units.items()} | {"count": [1] * len(gold)}
    formulas = {
        "mae": Formula("mean", ("error",)),
        "rmse": Formula("root", ("square", "count")),
        "r2": Formula("r2", ("square", "gold", "power", "count")),
    }
    rows = Rows(columns, formulas, question_of(inputs))
    return Scored({**error_scores(error_counts(predicted, gold), deviation)}, rows)


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
