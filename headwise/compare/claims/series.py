"""Claims about attention over series of numbers."""

import datetime
import math

from headwise.compare.bench import Bench
from headwise.compare.claim import Claim, Evidence
from headwise.compare.verdicts import Cell, Control, Interval, larger
from headwise.tasks import generators
from headwise.training import loading

# the baseline of least squares from all numbers of the history
_LINEAR = "linear"


def _linear_wins(bench: Bench) -> Evidence:
    count = 10_000 if bench.full else 5_000
    folder = bench.runs / "drawn" / f"waves-{count}"
    generators.make("waves", folder, 1, count)
    settings = [f"data.train={folder / 'series.csv'}"]
    if not bench.full:
        settings += ["model.d_model=32", "model.d_ff=64", "training.max_epochs=12", "training.validate_every_epochs=12"]
    cells: list[Cell] = []
    controls: list[Control] = []
    for column, what in {"tide": "sums of waves", "echo": "numbers on a parabola over earlier ones"}.items():
        ratios, gains = [], []
        for run in bench.models(what, "waves", [*settings, f"data.columns=['{column}']"]):
            predictor, cases = loading.load(run), loading.examples(run, "test")
            errors = {baseline.name: baseline.scores["mse"] for baseline in predictor.baselines(cases)}
            error = float(predictor.evaluate(cases)["mse"])
            ratios.append(math.log(error / errors[_LINEAR]))
            gains.append(error / errors["last value"])
        cells.append(
            larger(f"{what}: log of attention's error over that of a line", Interval.of(ratios), math.log(1.05))
        )
        controls.append(Control(f"{what}: attention beats the last value", max(gains) < 1, max(gains)))
    return cells, controls


CLAIMS = [
    Claim(
        name="linear-forecaster-wins",
        sentence="A linear map of the history forecasts better than attention.",
        source="Zeng et al. 2022, Are Transformers effective for time series forecasting?, arXiv:2205.13504",
        rule=(
            "the squared error of attention on the last fifth of a series is 1.05 times that of least squares from "
            "the same history, or more, with all of the 95 % interval of its logarithm over seeds above 0; a cell for "
            "each drawn series"
        ),
        weakness=(
            "two drawn series, one a sum of waves, which a line forecasts without error, one that no line can: each "
            "outcome is that of the series, and real ones lie between; attention is trained for 12 epochs and not "
            "tuned; the last fifth of one series is one test, of which the interval over seeds knows nothing"
        ),
        across="log of the ratio of errors",
        written=datetime.date(2026, 11, 26),
        trial=_linear_wins,
    ),
]
