"""Baselines against loops and against NumPy's least squares; the same bits on any number of threads."""

import numpy as np
import pytest
import torch

from headwise.errors import DataError
from headwise.tasks.series import baselines as forecast_baselines
from headwise.tasks.series.baselines import Baselines, Linear, error_scores, error_sums, fitted, portions
from headwise.tasks.series.data import Scaling, Series, Span, WindowTable

SCALING = Scaling(("a", "b", "c"), ("c", "a"), (0.0, 0.0, 0.0), (2.0, 3.0, 5.0))
RNG = np.random.default_rng(7)


def table(values, length=5, horizon=2):
    columns = tuple("abc"[: values.shape[1]])
    scaling = Scaling(columns, columns, (0.0,) * len(columns), (1.0,) * len(columns))
    return WindowTable([Span(Series("", columns, values), 0, len(values))], scaling, length, horizon), scaling


def windows(made):
    rows = np.concatenate(list(portions(made)))
    return rows[:, :5], rows[:, 5:].reshape(len(rows), -1)


def test_last_and_season_by_hand():
    history = np.arange(2 * 7 * 3.0).reshape(2, 7, 3)
    rules = Baselines(Linear(np.zeros((22, 10))), 3, SCALING.target_columns, 5).by_name()
    assert list(rules) == ["last value", "season", "linear"]
    for row in range(2):
        for step in range(5):
            for target, column in enumerate((2, 0)):
                assert rules["last value"](history)[row, step, target] == history[row, -1, column]
                assert rules["season"](history)[row, step, target] == history[row, [4, 5, 6][step % 3], column]
    assert list(Baselines(Linear(np.zeros((22, 10))), None, SCALING.target_columns, 5).by_name()) == [
        "last value",
        "linear",
    ]


def test_the_linear_rule_is_least_squares():
    made, scaling = table(np.cumsum(RNG.normal(size=(400, 2)), axis=0) / 5)
    rule, held = fitted(made, scaling, 5)
    history, told = windows(made)
    features = np.concatenate([history.reshape(len(history), -1), np.ones((len(history), 1))], 1)
    wanted = np.linalg.lstsq(features, told, rcond=None)[0]
    assert not held
    np.testing.assert_allclose(rule.weights, wanted, atol=1e-3)
    np.testing.assert_allclose(rule(history, 2).reshape(len(told), -1), features @ wanted, atol=1e-3)
    # what is said of a step goes to its place: the horizon first, then the targets
    assert rule(history, 2).shape == (394, 2, 2)


def test_a_rule_that_the_windows_do_not_determine_is_held_to_zero():
    few, scaling = table(RNG.normal(size=(12, 2)))
    rule, held = fitted(few, scaling, 5)
    assert held
    history, told = windows(few)
    assert np.isfinite(rule.weights).all()
    assert np.abs(rule(history, 2).reshape(len(told), -1) - told).max() < 0.05
    still, scaling = table(np.stack([np.zeros(40), RNG.normal(size=40)], 1))
    assert fitted(still, scaling, 5)[1]
    # determined in principle, but by what is lost in rounding
    values = RNG.normal(size=100)
    alike, scaling = table(np.stack([values, values + 1e-6 * RNG.normal(size=100)], 1))
    assert fitted(alike, scaling, 5)[1]


def test_the_rule_does_not_depend_on_how_sums_are_cut(monkeypatch):
    made, scaling = table(np.cumsum(RNG.normal(size=(700, 3)), axis=0))
    whole = fitted(made, scaling, 5)[0].weights
    monkeypatch.setattr(forecast_baselines, "_PORTION", 13)
    np.testing.assert_array_equal(fitted(made, scaling, 5)[0].weights, whole)


def test_a_long_history_is_read_from_its_end(monkeypatch):
    monkeypatch.setattr(forecast_baselines, "MAX_FEATURES", 7)
    made, scaling = table(RNG.normal(size=(100, 3)))
    rule, _ = fitted(made, scaling, 5)
    history, _ = windows(made)
    assert (rule.weights.shape, rule.steps(3)) == ((7, 6), 2)
    changed = history.copy()
    changed[:, :3] = 9.0
    np.testing.assert_array_equal(rule(changed, 2), rule(history, 2))


def test_errors_by_hand():
    said, wanted = RNG.normal(size=(3, 4, 2)), RNG.normal(size=(3, 4, 2))
    sums = error_sums(said[:1], wanted[:1], SCALING)
    for name, value in error_sums(said[1:], wanted[1:], SCALING).items():
        sums[name] += value
    scores = error_scores(sums, SCALING)
    wrong = said - wanted
    assert scores == pytest.approx(
        {
            "mse": (wrong**2).mean(),
            "mae": (np.abs(wrong[..., 0]).mean() * 5 + np.abs(wrong[..., 1]).mean() * 2) / 2,
            "mae_c": np.abs(wrong[..., 0]).mean() * 5,
            "mae_a": np.abs(wrong[..., 1]).mean() * 2,
        }
    )
    assert np.isnan(list(error_scores({}, SCALING).values())).all()


def test_a_rule_goes_to_a_file_and_back():
    made, scaling = table(RNG.normal(size=(90, 2)))
    content = fitted(made, scaling, 5)[0].to_bytes()
    again = Linear.of(content, 2, 5, 4)
    assert again.to_bytes() == content
    pickled = np.array([object()], dtype=object).dumps()
    nan = Linear(np.full((11, 4), np.nan)).to_bytes()
    for wrong in (b"", content[:-1], content[:40], nan, pickled, b"\x93NUMPY", torch.zeros(2).numpy().tobytes()):
        with pytest.raises(DataError, match="not the weights of a linear rule"):
            Linear.of(wrong, 2, 5, 4)
    for sizes in ((3, 5, 4), (2, 6, 4), (2, 5, 6)):
        with pytest.raises(DataError, match="not the weights of a linear rule"):
            Linear.of(content, *sizes)
