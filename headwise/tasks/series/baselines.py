"""Forecasts without a model (last value, season before, a linear rule in closed form), and the errors of any."""

import io
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from headwise.errors import DataError
from headwise.tasks.series.data import Scaling, WindowTable

# numbers of a history that the linear rule reads at most, the latest ones
MAX_FEATURES = 768
# windows that are read together
_PORTION = 2048
# a pivot below this share of its diagonal is rounding, and the windows do not determine the rule
_SINGULAR = 1e-9
_RIDGE = 1e-8
# orders of an autoregression that are tried, and deviations from the mean that it forecasts at most
_ORDERS, _FARTHEST = 24, 1e3

Forecasts = Float64[np.ndarray, "windows horizon targets"]
History = Float64[np.ndarray, "windows length columns"]
Windows = Float64[np.ndarray, "windows places columns"]


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear rule from the latest steps of a history to all targets; the last row is the constant."""

    weights: Float64[np.ndarray, "features targets"]

    def __call__(self, history: History, horizon: int) -> Forecasts:
        """What the rule says of histories of standardised numbers."""
        features = _features(history, self.steps(history.shape[-1]))
        forecasts: np.ndarray = (features @ self.weights).reshape(len(history), horizon, -1)
        return forecasts

    def steps(self, columns: int) -> int:
        return (len(self.weights) - 1) // columns

    def to_bytes(self) -> bytes:
        stream = io.BytesIO()
        np.lib.format.write_array(stream, self.weights.astype(np.float32), allow_pickle=False)
        return stream.getvalue()

    @classmethod
    def of(cls, content: bytes, columns: int, length: int, num_outputs: int) -> "Linear":
        """What `to_bytes` wrote, for histories of this length and so many outputs. Raises: DataError for else."""
        try:
            weights = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
        except (ValueError, OSError, EOFError, MemoryError):
            raise DataError("not the weights of a linear rule") from None
        steps = _steps(length, columns)
        if not (
            isinstance(weights, np.ndarray)
            and weights.dtype == np.float32
            and weights.shape == (1 + steps * columns, num_outputs)
            and np.isfinite(weights).all()
        ):
            raise DataError("not the weights of a linear rule")
        return cls(weights.astype(np.float64))


@dataclass(frozen=True)
class Baselines:
    """What a forecast is compared with; everything is standardised.

    Args:
        season: steps of a season, None: there is none.
        target_columns: the places of the targets among the columns.
    """

    linear: Linear
    season: int | None
    target_columns: list[int]
    horizon: int

    def by_name(self) -> Mapping[str, Callable[[History], Forecasts]]:
        """Each by its name: a function of histories."""
        baselines: dict[str, Callable[[History], Forecasts]] = {"last value": self._last}
        if self.season is not None:
            baselines["season"] = self._seasonal
        return {**baselines, "linear": lambda history: self.linear(history, self.horizon)}

    def _last(self, history: History) -> Forecasts:
        return np.repeat(history[:, -1:, self.target_columns], self.horizon, axis=1)

    def _seasonal(self, history: History) -> Forecasts:
        assert self.season is not None
        # the same place of the latest season that is known as a whole or in part
        places = [-self.season + step % self.season for step in range(self.horizon)]
        return history[:, places][:, :, self.target_columns]


@dataclass(frozen=True)
class Autoregression:
    """AR(p) of each target by itself: its next number from its latest `order` ones, step by step.

    Args:
        weights: of the latest numbers, the latest one last, and of a constant, for each target.
    """

    order: int
    weights: Float64[np.ndarray, "targets lags_and_constant"]
    target_columns: list[int]
    horizon: int

    def __call__(self, history: History) -> Forecasts:
        """Forecasts of histories of standardised numbers."""
        steps = history[:, -self.order :][:, :, self.target_columns]
        for _ in range(self.horizon):
            latest = np.einsum("wlt,tl->wt", steps[:, -self.order :], self.weights[:, :-1]) + self.weights[:, -1]
            # an order whose rule is unstable must not end in infinity
            steps = np.concatenate((steps, np.clip(latest, -_FARTHEST, _FARTHEST)[:, None]), axis=1)
        return steps[:, self.order :]

    @classmethod
    def fitted(cls, windows: Windows, length: int, columns: list[int], horizon: int) -> "Autoregression":
        """Least squares over the first step after each history; the order by Akaike's criterion.

        Source: Akaike 1969, Ann. Inst. Stat. Math. 21.
        """
        candidates = []
        for order in range(1, min(length, _ORDERS) + 1):
            weights, criterion = np.zeros((len(columns), order + 1)), 0.0
            for number, column in enumerate(columns):
                weights[number], squares = _autoregressed(windows[:, : length + 1, column], order)
                criterion += len(windows) * math.log(max(squares / len(windows), 1e-30)) + 2 * (order + 1)
            candidates.append((criterion, cls(order, weights, columns, horizon)))
        return min(candidates, key=lambda pair: pair[0])[1]


def _autoregressed(
    rows: Float64[np.ndarray, "windows length"], order: int
) -> tuple[Float64[np.ndarray, "lags_and_constant"], float]:
    """The weights of the latest numbers and of a constant, and the sum of squared errors."""
    from sklearn.linear_model import LinearRegression

    lags, target = rows[:, -order - 1 : -1], rows[:, -1]
    model = LinearRegression().fit(lags, target)
    return np.append(model.coef_, model.intercept_), float(np.square(model.predict(lags) - target).sum())


def fitted(table: WindowTable, scaling: Scaling, length: int) -> tuple[Linear, bool]:
    """Least squares over all windows of training, and whether they do not determine it, so that it is held to zero.

    Numbers are rounded to a power of two such that every sum is exact: the rule is the same on any number of threads.
    """
    steps = _steps(length, len(scaling.columns))
    scale = _exact(table)
    gram = moments = np.zeros(())
    for rows in portions(table):
        rounded = np.round(rows * scale) / scale
        features = _features(rounded[:, :length], steps)
        targets = rounded[:, length:][:, :, scaling.target_columns].reshape(len(rows), -1)
        gram, moments = gram + features.T @ features, moments + features.T @ targets
    try:
        return Linear(_solved(gram, moments)), False
    except np.linalg.LinAlgError:
        ridge = gram + np.diag(np.full(len(gram), _RIDGE * len(table)))
        return Linear(_solved(ridge, moments)), True


def portions(table: WindowTable) -> Iterator[Float64[np.ndarray, "windows places columns"]]:
    for start in range(0, len(table), _PORTION):
        yield table.rows(range(start, min(start + _PORTION, len(table)))).double().numpy()


def error_sums(forecasts: Forecasts, targets: Forecasts, scaling: Scaling) -> dict[str, float]:
    """Sums of errors of standardised forecasts, of which `error_scores` makes scores; those of batches add up."""
    wrong = forecasts - targets
    absolute = np.abs(wrong).sum(axis=(0, 1)) * scaling.units
    sums = {f"absolute {name}": float(value) for name, value in zip(scaling.targets, absolute, strict=True)}
    return {"steps": float(wrong.shape[0] * wrong.shape[1]), "squares": float(np.square(wrong).sum()), **sums}


def error_scores(sums: Mapping[str, float], scaling: Scaling) -> dict[str, float]:
    """MSE of standardised numbers; MAE in the units of the file, of several targets their mean and each; NaN of none.

    >>> scaling = Scaling(("a",), ("a",), (0.0,), (10.0,))
    >>> error_scores(error_sums(np.zeros((1, 2, 1)), np.array([[[1.0], [3.0]]]), scaling), scaling)
    {'mse': 5.0, 'mae': 20.0}
    """
    count = sums.get("steps", 0.0) or math.nan
    maes = {f"mae_{name}": sums.get(f"absolute {name}", 0.0) / count for name in scaling.targets}
    mse = sums.get("squares", 0.0) / (count * len(scaling.targets))
    mae = math.fsum(maes.values()) / len(maes)
    return {"mse": mse, "mae": mae, **(maes if len(maes) > 1 else {})}


def _steps(length: int, columns: int) -> int:
    return max(1, min(length, MAX_FEATURES // columns))


def _exact(table: WindowTable) -> float:
    """The power of two to which numbers are rounded, so that sums of their products keep within 53 bits."""
    largest = max(1.0, float(table.steps.abs().max())) if len(table.steps) else 1.0
    bits = math.floor((52 - math.log2(max(1, len(table))) - 2 * math.log2(largest)) / 2)
    return 2.0 ** min(24, bits)


def _features(history: History, steps: int) -> Float64[np.ndarray, "windows features"]:
    flat = history[:, -steps:].reshape(len(history), -1)
    return np.concatenate((flat, np.ones((len(flat), 1))), axis=1)


def _solved(gram: np.ndarray, moments: np.ndarray) -> Float64[np.ndarray, "features targets"]:
    """gram x = moments by Cholesky's method, on one thread, since sums of several depend on their number.

    Raises: LinAlgError where gram is singular.
    """
    from scipy.linalg import LinAlgError, cho_solve, cholesky
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):
        lower = cholesky(gram, lower=True)
        if (lower.diagonal() ** 2 <= _SINGULAR * gram.diagonal()).any():
            raise LinAlgError("singular")
        return np.asarray(cho_solve((lower, True), moments.astype(np.float64)))
