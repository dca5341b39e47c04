"""A trained forecaster: what it predicts of given histories, and where it looks."""

import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor, cat, inference_mode, nn

from headwise.attention.precision import wide
from headwise.data.bad_lines import BadLine
from headwise.data.tables import number_of
from headwise.errors import ConfigError, DataError
from headwise.explain.explanation import Explanation, Layer
from headwise.explain.places import OnSeries
from headwise.labels import visible
from headwise.models.pooling import AttentionOverSequence, FirstOfSequence, LastOfSequence, MaxOverSequence
from headwise.predictors import looking
from headwise.predictors.baselines import Baseline
from headwise.predictors.evaluating import evaluating
from headwise.predictors.predictor import Form, Predictor
from headwise.predictors.rows import Formula, Rows, Scored, question_of
from headwise.processes import divided
from headwise.tasks.series.baselines import Baselines, Forecasts, History, error_scores, error_sums
from headwise.tasks.series.data import Scaling, Series, SeriesConfig, Window, read_series
from headwise.tasks.series.look import SeriesMap
from headwise.tasks.series.model import Forecaster, PooledForecaster, StepwiseForecaster, whole

FRONT = "<cls>"


def looked_at(model: Forecaster, history: Float[Tensor, "one length columns"]) -> dict[str, Layer]:
    """The attention of every layer while a forecast is made of one history, and what its pooling takes.

    A pooling that takes the largest number of every column shows from which steps it takes how many.

    Raises: Unsupported for a model without attention whose pooling takes all steps alike, or always the same one.
    """
    if isinstance(model, StepwiseForecaster):
        return _stepped(model, history)
    assert isinstance(model, PooledForecaster)
    keys = [FRONT] * (model.front is not None) + _labels(history.shape[1])
    layers = {}
    if isinstance(model.pooling, MaxOverSequence):
        with evaluating(model), inference_mode():
            states = model.states(history)
            shares = model.pooling.shares(states, whole(states)).double().cpu().numpy()[None]
        layers["pooling"] = Layer(shares, ["forecast"], keys, "pooled")
        if not looking.has_attention(model):
            return layers
    for name, attention in looking.attended(model, history).items():
        pooled = isinstance(model.pooling, AttentionOverSequence) and name.startswith("pooling.")
        rows = ["forecast"] if pooled else keys
        layers[name] = attention.layer(rows, keys, "pooled" if pooled else None)
    return layers


def read_place(model: Forecaster) -> int | None:
    """The place from whose vector all of the forecast is made; None where it is made from several."""
    pooling = model.pooling if isinstance(model, PooledForecaster) else None
    if isinstance(pooling, FirstOfSequence):
        return 0
    return -1 if isinstance(pooling, LastOfSequence) and not pooling.backward else None


def _stepped(model: StepwiseForecaster, history: Tensor) -> dict[str, Layer]:
    """What the places of the forecast attend to, in one pass over the history and the forecast."""
    length = history.shape[1]
    with evaluating(model), inference_mode():
        read = cat((history, model.roll_out(history)[:, :-1]), 1)
    ahead = [f"+{step}" for step in range(1, model.horizon + 1)]
    keys = [*_labels(length), *ahead[:-1]]
    return {
        name.removeprefix("decoder."): attention.layer(ahead, keys, "cross", rows=np.eye(len(keys))[length - 1 :])
        for name, attention in looking.attended(_Following(model), read).items()
    }


def _labels(length: int) -> list[str]:
    """How many steps before the forecast each one is: the last one is 0."""
    return [str(step) for step in range(1 - length, 1)]


class _Following(nn.Module):
    """A stack that is asked what follows each step."""

    def __init__(self, model: StepwiseForecaster):
        super().__init__()
        self.decoder, self._predict_next = model.decoder, model.predict_next

    def forward(self, steps: Tensor) -> Tensor:
        return self._predict_next(steps)


# of one forecast
MAX_STEPS = 100_000
# histories that are read together
_PORTION = 256


class SeriesForecaster(Predictor[Series, np.ndarray, Window]):
    """A model with the scale of the numbers it was trained on; a forecast has a row for each step, in their units.

    Args:
        simple: forecasts without a model, which are its baselines.
    """

    # or numbers, but a name is taken for a file wherever there is one
    option = "steps"
    reads = "file"
    given = "series"

    def __init__(self, model: Forecaster, scaling: Scaling, simple: Baselines, length: int, data: SeriesConfig):
        self.model, self.scaling, self.simple = model, scaling, simple
        self.length, self.data = length, data

    def parse(self, text: str) -> Series:
        """A series from a file, as FILE, or FILE#NAME where it holds several; or from numbers.

        Numbers stand between blanks or commas, the rows of several columns between semicolons: `1 2; 3 4`.

        Raises:
            ConfigError: what is neither, or a name that no series of the file has.
            DataError: the file cannot be read.
        """
        path, _, name = (text, "", "") if os.path.isfile(text) else text.partition("#")
        if not os.path.isfile(path):
            return self._numbers(text)
        by_name = {series.name: series for series in self.read(Path(path))}
        if name in by_name or (len(by_name) == 1 and not name):
            return by_name[name] if name in by_name else next(iter(by_name.values()))
        if list(by_name) == [""]:
            raise ConfigError(f"{path} holds one series, which has no name; leave #{visible(name[:30])} out")
        named = ", ".join(visible(key[:30]) for key in list(by_name)[:10])
        raise ConfigError(f"{path} holds {len(by_name):,} series; say which one, as {path}#NAME: {named}")

    def read(self, path: Path) -> Iterator[Series]:
        """The series of a table with the columns of training. Raises: DataError naming file and line."""
        return iter(read_series(path, self.data, self.scaling.columns))

    def options(self, given: Mapping[str, Any]) -> int | None:
        """The number of steps. Raises: ConfigError for other options, or steps that cannot be forecast."""
        steps: int | None = super().options(given)
        if steps is not None:
            self._check_steps(steps)
        return steps

    @torch.inference_mode()
    def predict(self, items: Sequence[Series | str] | Series | str, options: int | None = None) -> list[np.ndarray]:
        """The rows after each series, (steps, targets), in the units of the file.

        Args:
            options: how many steps; None: the horizon. Beyond the horizon the model reads its own forecast.

        Raises: DataError: a series that is shorter than a history.
        """
        inputs = self.inputs(items)
        steps = self.model.horizon if options is None else options
        self._check_steps(steps)
        latest = [self._latest(series) for series in inputs]
        history = np.stack(latest) if latest else np.zeros((0, self.length, len(self.scaling.columns)))
        forecasts = np.zeros((len(inputs), steps, len(self.scaling.targets)))
        for begin in range(0, steps, self.model.horizon):
            block = self._shared(history)
            forecasts[:, begin : begin + self.model.horizon] = block[:, : steps - begin]
            if begin + self.model.horizon < steps:
                # the targets are all columns, in another order perhaps
                rows = np.empty((*block.shape[:2], history.shape[2]))
                rows[..., self.scaling.target_columns] = block
                history = np.concatenate((history, rows), axis=1)[:, -self.length :]
        return list(self.scaling.restored(forecasts))

    def write(self, item: Series, output: np.ndarray, form: Form, options: Any = None) -> list[str]:
        """A line for each step: the name of the series if it has one, the time, the numbers; or one line of JSON."""
        times = item.next_times(len(output))
        if form == "json":
            fields = {"series": item.name} if item.name else {}
            rows = dict(zip(self.scaling.targets, output.T.tolist(), strict=True))
            return [json.dumps({**fields, "time": times, "forecast": rows}, ensure_ascii=False)]
        named = [visible(item.name)] if item.name else []
        return [
            "\t".join([*named, str(time), *(f"{number:.6g}" for number in row)])
            for time, row in zip(times, output.tolist(), strict=True)
        ]

    def scored(self, examples: Sequence[Window], options: Any = None) -> Scored:
        """MSE of standardised numbers and MAE in the units of the file, of each target too.

        Raises: DataError: no windows, or one without a whole history or horizon.
        """
        total, sums = self._sums(examples, self._forecast)
        targets = len(self.scaling.targets)
        columns = {
            "squares": [window["squares"] for window in sums],
            "numbers": [window["steps"] * targets for window in sums],
            "absolute": [math.fsum(window[f"absolute {name}"] for name in self.scaling.targets) for window in sums],
        }
        formulas = {"mse": Formula("mean", ("squares", "numbers")), "mae": Formula("mean", ("absolute", "numbers"))}
        # windows overlap: those of one stretch of a series are drawn together
        stretch = self.length + self.model.horizon
        stretches = [(window.series.called, window.place // stretch) for window in examples]
        number = {name: place for place, name in enumerate(dict.fromkeys(stretches))}
        rows = Rows(
            columns,
            formulas,
            question_of([(window.series.called, window.place) for window in examples]),
            "stretches of the series",
            [number[name] for name in stretches],
        )
        return Scored({**error_scores(total, self.scaling)}, rows)

    def baselines(self, examples: Sequence[Window]) -> Iterator[Baseline]:
        for name, forecast in self.simple.by_name().items():
            yield Baseline(name, self.scores(examples, forecast))

    def scores(self, examples: Sequence[Window], forecast: Callable[[History], Forecasts]) -> dict[str, float]:
        """The scores of a function from standardised histories to standardised forecasts; raises as `evaluate`."""
        return error_scores(self._sums(examples, forecast)[0], self.scaling)

    def _sums(
        self, examples: Sequence[Window], forecast: Callable[[History], Forecasts]
    ) -> tuple[Mapping[str, float], list[dict[str, float]]]:
        """The sums of errors over all windows, and those of each."""
        sums: Counter[str] = Counter()
        each: list[dict[str, float]] = []
        scaled: dict[int, np.ndarray] = {}

        def counted(start: int) -> tuple[dict[str, float], list[dict[str, float]]]:
            rows = self.standardised(examples[start : start + _PORTION], scaled)
            forecasts, targets = forecast(rows[:, : self.length]), self.targets(rows)
            pairs = zip(forecasts[:, None], targets[:, None], strict=True)
            return error_sums(forecasts, targets, self.scaling), [error_sums(*pair, self.scaling) for pair in pairs]

        for _, (portion, windows) in divided(counted, range(0, len(examples), _PORTION)):
            sums.update(portion)
            each += windows
        return sums, each

    def standardised(
        self, examples: Sequence[Window], scaled: dict[int, np.ndarray] | None = None
    ) -> Float64[np.ndarray, "windows places columns"]:
        """Windows, histories and horizons, as the model reads them; raises as `evaluate`.

        Args:
            scaled: whole series by their identity, kept for the next call.
        """
        cache = {} if scaled is None else scaled
        return np.stack([self._window(window, cache) for window in examples])

    def targets(self, rows: Float64[np.ndarray, "windows places columns"]) -> Forecasts:
        return rows[:, self.length :][:, :, self.scaling.target_columns]

    def input_of(self, example: Window) -> Series:
        """The steps that a forecast is made of, and those that it tells, which are held back."""
        series, rows = example.series, slice(max(0, example.place - self.length), example.place + self.model.horizon)
        times = None if series.times is None else series.times[rows]
        name = f"{series.called} at step {example.place:,}"
        return replace(series, name=name, values=series.values[rows], times=times)

    def explain(self, item: Series | str, target: str | None = None) -> Explanation:
        """Which steps of the history the forecast attends to.

        The last steps of a series that is long enough are held back, and drawn beside the forecast as the truth.

        Raises:
            ConfigError: a target.
            Unsupported: a model without attention whose pooling takes all steps alike, or always the same one.
        """
        if target is not None:
            raise ConfigError("the forecast of a series cannot be given here; leave the target out")
        item, horizon = self.inputs(item)[0], self.model.horizon
        end = len(item) - horizon if len(item) >= self.length + horizon else len(item)
        history = self._latest(item, end)[None]
        forecast = self._forecast(history)
        layers = looked_at(self.model, torch.from_numpy(history).to(next(self.model.parameters())))
        ahead = self.scaling.restored(forecast)[0]
        past = self.scaling.restored(history[..., self.scaling.target_columns])[0]
        truth = item.of(self.scaling.targets)[end:] if end < len(item) else None
        source = f"{item.called}, steps {end - self.length + 1:,} to {end:,}"
        pairs = zip(self.scaling.targets, ahead[0], strict=True)
        output = "next: " + ", ".join(f"{name} {number:.4g}" for name, number in pairs)
        picture = SeriesMap(self.scaling.targets, past, ahead, truth, read_place(self.model))
        places = OnSeries(item.name, self.scaling.targets, past, ahead, truth)
        return Explanation(source, output, layers, picture, places=places)

    @torch.inference_mode()
    def _forecast(
        self, history: Float64[np.ndarray, "series length columns"]
    ) -> Float64[np.ndarray, "series steps targets"]:
        """The forecast of standardised histories, standardised."""
        inputs = torch.from_numpy(history).to(next(self.model.parameters()))
        with evaluating(self.model):
            forecasts: np.ndarray = wide(self.model(inputs)).double().cpu().numpy()
        return forecasts

    def _shared(
        self, history: Float64[np.ndarray, "series length columns"]
    ) -> Float64[np.ndarray, "series steps targets"]:
        """As `_forecast`, of any number of histories, a part of them in each process."""

        def forecast(start: int) -> np.ndarray:
            return self._forecast(history[start : start + _PORTION])

        portions = [np.zeros((0, self.model.horizon, len(self.scaling.targets)))]
        portions += [portion for _, portion in divided(forecast, range(0, len(history), _PORTION))]
        return np.concatenate(portions)

    def _window(self, window: Window, scaled: dict[int, np.ndarray]) -> np.ndarray:
        if id(window.series) not in scaled:
            scaled[id(window.series)] = self.scaling.standardised(window.series)
        start, end = window.place - self.length, window.place + self.model.horizon
        if start < 0 or end > len(window.series):
            raise DataError(
                f"{window.series.called}: place {window.place} has no {self.length} steps before it and"
                f" {self.model.horizon} from it on; leave it out"
            )
        return scaled[id(window.series)][start:end]

    def _latest(self, series: Series, end: int | None = None) -> Float64[np.ndarray, "length columns"]:
        end = len(series) if end is None else end
        if end < self.length:
            raise DataError(
                f"{visible(series.called)} is too short ({end:,}): the model reads {self.length} steps; give it"
                " that many"
            )
        return self.scaling.standardised(series)[end - self.length : end]

    def _check_steps(self, steps: int) -> None:
        if steps < 1:
            raise ConfigError(f"steps ({steps}) must be 1 or more")
        if steps > MAX_STEPS:
            raise ConfigError(f"steps ({steps:,}) must be at most {MAX_STEPS:,}; forecast that many at a time")
        if steps > self.model.horizon and set(self.scaling.targets) != set(self.scaling.columns):
            raise ConfigError(
                f"the model tells {self.model.horizon} steps, and not all columns that it reads, so it cannot read its"
                f" own forecast to go on; ask for at most {self.model.horizon}, or train with data.targets = []"
            )

    def _numbers(self, text: str) -> Series:
        columns = self.scaling.columns
        rows = [re.split(r"[,\s]+", row.strip()) for row in text.strip().strip(";").split(";")]
        if len(columns) == 1 and len(rows) == 1:
            rows = [[number] for number in rows[0]]
        for row in rows:
            if len(row) != len(columns):
                raise ConfigError(
                    f"'{visible(' '.join(row)[:40])}': no such file, and no {len(columns)} numbers for"
                    f" {', '.join(map(visible, columns[:5]))}; give a file, or rows such as '1 2; 3 4'"
                )
        try:
            values = [[number_of(number, partial(BadLine, "", 0, "numbers")) for number in row] for row in rows]
        except BadLine as error:
            raise ConfigError(f"{error.what} (or give the name of a file that is there)") from None
        return Series("", columns, np.array(values, np.float64))
