"""The task of predicting how series go on; a recipe to begin with."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NoReturn

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from headwise.attention.precision import wide
from headwise.config import Config, build
from headwise.data.batches import OnDevice
from headwise.data.files import resolve
from headwise.data.inspection import DataKind
from headwise.data.sources import Limits, Source, spread, spread_places
from headwise.data.suggestions import Suggestion, held_out
from headwise.errors import ConfigError, DataError
from headwise.models.pooling import SequencePoolingConfig
from headwise.predictors.baselines import Baseline, named, sample
from headwise.tasks._files import damaged, from_json
from headwise.tasks.demo import Demo
from headwise.tasks.series import drawn
from headwise.tasks.series.baselines import (
    Autoregression,
    Baselines,
    Linear,
    error_scores,
    error_sums,
    fitted,
    portions,
)
from headwise.tasks.series.data import (
    Scaling,
    Series,
    SeriesConfig,
    SeriesParts,
    Span,
    Window,
    WindowTable,
    parted,
    read_file,
    read_parts,
    windows,
)
from headwise.tasks.series.demo import FORECAST
from headwise.tasks.series.forecaster import SeriesForecaster
from headwise.tasks.series.model import Forecaster, ForecasterConfig, StepwiseConfig, build_forecaster
from headwise.tasks.series.options import ForecastOptions
from headwise.tasks.series.report import SERIES
from headwise.tasks.task import Assets, Description, Generator, Given, Metric, Stats, Task

# steps of a history and of a forecast where nothing says otherwise; the shares of a series that they take at most
_LENGTH, _HORIZON = 48, 12
_OF_LENGTH, _OF_HORIZON = 5, 20
# windows of a step of training; passes over them at least, and steps, of which short series have few in a pass
_BATCH, _PASSES, _STEPS = 64, 20, 1000


def _fractions(data: Mapping[str, Any], config: SeriesConfig, length: int, horizon: int) -> dict[str, float]:
    """The usual fractions of parts without a file; where they leave one without a window, others that do not."""

    def cut(valid: float, test: float) -> SeriesParts:
        fractions = {"valid_fraction": valid, "test_fraction": test}
        return read_parts(config.model_copy(update=fractions), length, horizon)

    try:
        cut(config.valid_fraction, config.test_fraction)
    except DataError:
        return held_out(data, cut)
    return {f"{part}_fraction": getattr(config, f"{part}_fraction") for part in ("valid", "test") if part not in data}


COLUMNS_FILE, LINEAR_FILE = "columns.json", "linear.npy"

Tables = dict[str, WindowTable]


class ForecastConfig(Config):
    """Which series to tell, how far ahead, and with which model."""

    data: SeriesConfig = Field(description="the series")
    length: int = Field(48, ge=1, le=2**16, description="steps of history that the model reads")
    horizon: int = Field(12, ge=1, le=2**16, description="steps to predict")
    change: bool = Field(True, description="predict differences from the latest values; false: the values")
    model: ForecasterConfig = Field(
        description="an encoder that predicts all steps at once, or a decoder, step by step"
    )
    pooling: SequencePoolingConfig = Field(
        SequencePoolingConfig(kind="last"), description="how the steps become one vector; a decoder has none"
    )
    num_shown: int = Field(2, ge=0, description="how many forecasts are shown at each validation")

    def model_post_init(self, context: object) -> None:
        if self.data.season is not None and self.data.season > self.length:
            raise ConfigError(
                f"data.season ({self.data.season}) must be at most length ({self.length}): its baseline reads no more"
                " than the model"
            )
        if not isinstance(self.model, StepwiseConfig):
            self.pooling.check(self.model)
            return
        places = self.model.places()
        if places is not None and places < self.length + self.horizon:
            raise ConfigError(
                f"model.max_len ({places}) must be at least length + horizon ({self.length + self.horizon}) for a model"
                " with a table of places"
            )


@dataclass(frozen=True, eq=False)
class WindowBatch(OnDevice):
    """Windows side by side, standardised.

    Args:
        num_counted: steps of each that the loss counts, the last ones.
        num_columns: predicted numbers of each such step.
    """

    rows: Float[Tensor, "windows places columns"]
    num_counted: int
    num_columns: int
    indices: list[int]

    @property
    def num_tokens(self) -> int:
        """Predicted numbers."""
        return len(self.indices) * self.num_counted * self.num_columns


class Forecast(Task[Tables]):
    """Forecasts of series of real vectors."""

    name: ClassVar[str] = "forecast"
    kinds: ClassVar[tuple[DataKind, ...]] = (SERIES,)
    demo: ClassVar[Demo | None] = FORECAST
    generators: ClassVar[Mapping[str, Generator]] = {"waves": drawn.make}
    unit: ClassVar[str] = "numbers"
    config_type: ClassVar[type[Config]] = ForecastConfig
    options = (ForecastOptions,)
    metrics: ClassVar[tuple[Metric, ...]] = (Metric("loss", "low"), Metric("mse", "low"), Metric("mae", "low"))
    config: ForecastConfig

    def __init__(self, config: ForecastConfig, assets: Assets[Tables]):
        super().__init__(config, assets)
        self.scaling = _scaling(assets.files)
        length, columns = config.length, len(self.scaling.columns)
        num_outputs = config.horizon * len(self.scaling.targets)
        try:
            linear = Linear.of(assets.file(LINEAR_FILE), columns, length, num_outputs)
        except DataError:
            raise damaged(LINEAR_FILE, "is not the linear baseline of this length and horizon") from None
        self.simple = Baselines(linear, config.data.season, self.scaling.target_columns, config.horizon)

    @classmethod
    def prepare_with(cls, config: ForecastConfig, given: Given) -> Assets[Tables]:
        parts = read_parts(config.data, config.length, config.horizon)
        scaling = parts.scaling() if given.files is None else _scaling(given.files)
        tables = {
            part: WindowTable(spans, scaling, config.length, config.horizon) for part, spans in parts.spans.items()
        }
        notes = list(parts.notes)
        if given.files is None:
            linear, ridge = fitted(tables["train"], scaling, config.length)
            files = {COLUMNS_FILE: scaling.to_bytes(), LINEAR_FILE: linear.to_bytes()}
            note = "the windows of training do not determine the linear baseline; it is held towards zero (ridge)"
            notes += [note] if ridge else []
        else:
            files = {name: given.files[name] for name in (COLUMNS_FILE, LINEAR_FILE) if name in given.files}
        # those of the files alone: training and prediction have the same
        simple = cls(config, Assets(files)).simple
        notes += [
            f"{part}: {_without_model(table, simple, scaling, config.length)}"
            for part, table in tables.items()
            if part != "train"
        ]
        return Assets(files, tables, parts.digests, tuple(notes))

    @classmethod
    def examples(cls, config: ForecastConfig, split: str) -> list[Window]:
        data, length, horizon = config.data, config.length, config.horizon
        path = None if split == "train" else getattr(data, split)
        all_series = read_file(resolve(path or data.train), data)
        if path is not None:
            examples = windows([Span(series, 0, len(series)) for series in all_series], length, horizon)
            return examples or _refuse_short(path, all_series, length + horizon)
        with_files = {part for part in ("valid", "test") if getattr(data, part) is not None}
        return windows(parted(all_series, data, with_files).get(split, []), length, horizon)

    @classmethod
    def baselines(
        cls, config: ForecastConfig, predictor: SeriesForecaster, examples: Sequence[Window]
    ) -> Iterator[Baseline]:
        """An autoregression of each target by itself."""
        every = cls.examples(config, "train")
        train = sample(every)
        windows = predictor.standardised(train)
        baseline = Autoregression.fitted(windows, config.length, predictor.scaling.target_columns, config.horizon)
        yield Baseline(named(f"AR({baseline.order})", len(train), len(every)), predictor.scores(examples, baseline))

    @classmethod
    def suggest(cls, data: Mapping[str, Any]) -> Suggestion:
        """An encoder of the latest steps for the series of these keys; of two seasons of them if one is given."""
        config = build(SeriesConfig, data, "data")
        series = read_file(resolve(config.train), config)
        steps, season = max(map(len, series)), config.season
        horizon = max(1, min(season or _HORIZON, steps // _OF_HORIZON))
        length = max(season or 1, min(2 * season if season else _LENGTH, steps // _OF_LENGTH))
        values = {
            "length": length,
            "horizon": horizon,
            "data": {**_fractions(data, config, length, horizon), **data},
            "model": {
                "kind": "attention",
                "d_model": 64,
                "d_ff": 128,
                "num_heads": 4,
                "encoder_layers": 2,
                "dropout": 0.1,
            },
            "pooling": {"kind": "last"},
            "training": {
                "learning_rate": 1e-3,
                "schedule": "budget",
                "warmup_share": 0.05,
                "batch_sentences": _BATCH,
                "max_epochs": max(_PASSES, math.ceil(_STEPS / math.ceil(max(1, steps - length - horizon) / _BATCH))),
                "monitor": "mse",
            },
        }
        return Suggestion(values, f"Forecasts, fitted to the {sum(map(len, series)):,} steps")

    def build(self) -> Forecaster:
        config = self.config
        return build_forecaster(
            config.model,
            config.pooling,
            len(self.scaling.columns),
            self.scaling.target_columns,
            horizon=config.horizon,
            change=config.change,
        )

    def source(self, split: str, limits: Limits) -> Source[WindowBatch] | None:
        table = (self.assets.data or {}).get(split)
        if table is None or not len(table):
            return None
        size = limits.sentences or max(1, limits.tokens // table.places)
        return spread(len(table), size, partial(self.collate, split), limits, shuffle=split == "train")

    def select(self, examples: Sequence[Window], count: int) -> list[Window]:
        return [examples[place] for place in spread_places(len(examples), count)]

    def collate(self, split: str, indices: list[int]) -> WindowBatch:
        """These windows of a part; of a decoder, every step of a window of training counts but the first."""
        assert self.assets.data is not None
        stepwise = isinstance(self.config.model, StepwiseConfig)
        every = stepwise and split == "train"
        counted = self.config.horizon + (self.config.length - 1 if every else 0)
        num_columns = len(self.scaling.columns if stepwise else self.scaling.targets)
        return WindowBatch(self.assets.data[split].rows(indices), counted, num_columns, indices)

    def loss(self, model: nn.Module, batch: WindowBatch) -> Float[Tensor, ""]:
        """Sum of the squared errors of standardised numbers; of a decoder, of each step after the true ones."""
        assert isinstance(model, Forecaster)
        predictions, targets = model.teacher_forced(batch.rows, batch.num_counted)
        return (wide(predictions) - targets).square().sum()

    def measure(self, model: nn.Module, batches: Iterable[WindowBatch]) -> Stats:
        stats: Counter[str] = Counter()
        for batch in batches:
            history, targets = batch.rows[:, : self.config.length], batch.rows[:, self.config.length :]
            forecasts, targets = wide(model(history)), targets[..., self.scaling.target_columns]
            stats.update(error_sums(forecasts.double().cpu().numpy(), targets.double().cpu().numpy(), self.scaling))
            # an encoder's loss is that of these forecasts; a decoder's needs the true steps
            stepwise = isinstance(self.config.model, StepwiseConfig)
            loss = self.loss(model, batch) if stepwise else (forecasts - targets).square().sum()
            stats.update({"loss": float(loss), "count": float(batch.num_tokens)})
        return {name: float(value) for name, value in stats.items()}

    def summarise(self, stats: Stats) -> dict[str, float]:
        scores = error_scores(stats, self.scaling)
        loss = stats["loss"] / stats["count"] if stats.get("count") else float("nan")
        return {"loss": loss, "mse": scores["mse"], "mae": scores["mae"]}

    def samples(self, model: nn.Module) -> list[str]:
        shown = next((table for part in ("valid", "train") if (table := (self.assets.data or {}).get(part))), None)
        if shown is None:
            return []
        indices = range(0, len(shown), max(1, len(shown) // max(1, self.config.num_shown)))[: self.config.num_shown]
        return [self._sample(model, shown.rows([index])) for index in indices]

    def predictor(self, model: nn.Module) -> SeriesForecaster:
        assert isinstance(model, Forecaster)
        return SeriesForecaster(model, self.scaling, self.simple, self.config.length, self.config.data)

    def description(self) -> Description:
        names = ", ".join(self.scaling.targets[:10]) + (", ..." if len(self.scaling.targets) > 10 else "")
        text = (
            f"A model of kind {self.config.model.kind} that reads {self.config.length} steps and tells"
            f" {self.config.horizon}, trained with Headwise."
        )
        commands = ("predict RUN series.csv", "evaluate RUN --data series.csv")
        return Description(f"Forecasts of {names}", text, commands)

    def _sample(self, model: nn.Module, rows: Tensor) -> str:
        length, target = self.config.length, self.scaling.targets[0]
        with torch.no_grad():
            forecast = wide(model(rows[:, :length].to(next(model.parameters())))).double().cpu().numpy()
        targets = rows[:, length:][..., self.scaling.target_columns].double().numpy()
        predicted, actual = (self.scaling.restored(numbers)[0, :4, 0] for numbers in (forecast, targets))
        more = ", ..." if self.config.horizon > len(predicted) else ""
        shown = (", ".join(f"{number:.4g}" for number in numbers) + more for numbers in (predicted, actual))
        return f"{target}: " + " is ".join(shown)


def _without_model(table: WindowTable, simple: Baselines, scaling: Scaling, length: int) -> str:
    sums: dict[str, Counter[str]] = {name: Counter() for name in simple.by_name()}
    for rows in portions(table):
        for name, baseline in simple.by_name().items():
            sums[name].update(
                error_sums(baseline(rows[:, :length]), rows[:, length:][:, :, scaling.target_columns], scaling)
            )
    scores = {name: error_scores(errors, scaling) for name, errors in sums.items()}
    pairs = ", ".join(f"{name} {errors['mse']:.4g} and {errors['mae']:.4g}" for name, errors in scores.items())
    return f"MSE (standardised) and MAE without a model: {pairs}"


def _refuse_short(path: str, all_series: Sequence[Series], steps: int) -> NoReturn:
    longest = max(len(series) for series in all_series)
    raise DataError(
        f"{path}: no window of {steps:,} steps, length and horizon, in it: its longest series has {longest:,}; give"
        " more steps"
    )


def _scaling(files: Mapping[str, bytes]) -> Scaling:
    return from_json(files, COLUMNS_FILE, Scaling.from_json, "is not the columns of the run")
