"""A recipe fitted to series of numbers, for the first one written for them."""

import math
from collections.abc import Mapping
from typing import Any

from headwise.config import build
from headwise.data.corpus import resolve
from headwise.data.series import SeriesConfig, read_file
from headwise.data.series_parts import SeriesParts, read_parts
from headwise.data.suggestions import Suggestion, held_out
from headwise.errors import DataError

# steps of a history and of a forecast where nothing says otherwise; the shares of a series that they take at most
_LENGTH, _HORIZON = 48, 12
_OF_LENGTH, _OF_HORIZON = 5, 20
# windows of a step of training; passes over them at least, and steps, of which short series have few in a pass
_BATCH, _PASSES, _STEPS = 64, 20, 1000


def suggest_for_series(data: Mapping[str, Any]) -> Suggestion:
    """An encoder of the latest steps for the series of these keys of `[data]`; two seasons of them if one is given.

    Raises:
        ConfigError: keys that there are not.
        DataError: files that are not there or are wrong.
    """
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
