"""Recipes fitted to minutes: which model the steps of trials choose, and what follows from them; trials are made up."""

from types import SimpleNamespace

import pytest
from training_toy import VOCABULARY

from headwise.data.suggestions import Size, Suggestion
from headwise.errors import ConfigError
from headwise.training import fitting
from headwise.training.fitting import fit_recipe, merge
from headwise.training.recipe import read_recipe
from headwise.training.trial import Trial

VALUES = {"task": "toy", "training": {"warmup_steps": 7, "learning_rate": 0.5, "max_epochs": 0, "monitor": "accuracy"}}
SIZES = (Size({"width": 3}, 0), Size({"width": 5, "training.learning_rate": 0.25}, 400), Size({"width": 7}, 4000))


def attempt(step_s, busy=1.0):
    """A trial of this many seconds a step, by precision, slower for wider models; a pass has 10 steps."""

    def try_(recipe, task):
        assert task.config.width == recipe.width
        seconds = step_s[recipe.training.precision] * recipe.width
        return Trial(seconds, seconds / busy, float(VOCABULARY), 10, 1, 1)

    return try_


def chosen(monkeypatch, step_s, rates=(1.0, 1.0), settings=(), busy=1.0, **fields):
    """What is written for ten minutes, and what was told."""
    monkeypatch.setattr(fitting.runtime, "gigaflops", lambda dtype: rates[str(dtype) == "torch.bfloat16"])
    monkeypatch.setattr(fitting, "time", SimpleNamespace(monotonic=lambda: 0.0))
    told = []
    made = fit_recipe(
        Suggestion(VALUES, "Toy", SIZES, **fields), list(settings), 10.0, told.append, attempt(step_s, busy)
    )
    assert told[0] == "preparing the data"
    return made, told[1:]


@pytest.mark.parametrize(
    ("step_s", "width", "tries"), [(0.5, 3, 2), (0.2, 5, 3), (0.01, 7, 3)], ids=["slow", "usual", "fast"]
)
def test_the_largest_model_that_takes_its_steps(monkeypatch, step_s, width, tries):
    made, told = chosen(monkeypatch, {"fp32": step_s})
    assert (made["width"], len(told)) == (width, tries)
    assert made["training"]["learning_rate"] == (0.5 if width == 3 else 0.25 if width == 5 else 0.5)
    read_recipe(made)


def test_what_follows_from_the_steps(monkeypatch):
    made, told = chosen(monkeypatch, {"fp32": 0.2})
    # 0.93 * 600 s at 1 s a step
    assert told[1] == "the suggested model: about 558 steps, 55.8 passes over the data (fp32)"
    assert made["training"] == {
        "learning_rate": 0.25,
        "max_epochs": 0,
        "monitor": "accuracy",
        "max_minutes": 10.0,
        "schedule": "budget",
        "warmup_share": 0.05,
        "precision": "fp32",
        "validate_every": 110,
        "validate_every_epochs": 0,
        "ema_decay": 0.973,
    }


@pytest.mark.parametrize(
    ("step_s", "rates", "precision"),
    [
        ({"fp32": 0.2, "bf16": 0.1}, (1.0, 4.0), "auto"),
        ({"fp32": 0.2, "bf16": 0.3}, (1.0, 4.0), "fp32"),
        ({"fp32": 0.2}, (1.0, 1.1), "fp32"),
    ],
)
def test_bfloat16_where_its_steps_are_faster(monkeypatch, step_s, rates, precision):
    made, _ = chosen(monkeypatch, step_s, rates)
    assert made["training"]["precision"] == precision


def test_dropout_follows_the_passes_and_settings_come_last(monkeypatch):
    dropouts = ((10.0, 0.1), (60.0, 0.2), (float("inf"), 0.3))
    monkeypatch.setattr(fitting, "_DROPOUT", "dropout")
    assert chosen(monkeypatch, {"fp32": 0.2}, dropouts=dropouts)[0]["dropout"] == 0.2
    assert chosen(monkeypatch, {"fp32": 0.1}, dropouts=dropouts)[0]["dropout"] == 0.3
    made, _ = chosen(monkeypatch, {"fp32": 0.2}, dropouts=dropouts, settings=["dropout=0.4", "width=2"])
    assert (made["dropout"], made["width"]) == (0.4, 2)


def test_too_little_time_is_refused_or_warned_of(monkeypatch):
    with pytest.raises(ConfigError, match=r"--minutes 10 leaves no time for a step: .* a step takes 6e\+02 s; give at"):
        chosen(monkeypatch, {"fp32": 200.0})
    _, told = chosen(monkeypatch, {"fp32": 2.0})
    assert told[-1].startswith(
        "warning: about 93 steps teach little: preparing the data took 0 s, and a step takes 6 s;"
    )
    assert not any("warning" in line for line in chosen(monkeypatch, {"fp32": 1.0})[1])


def test_a_busy_machine_is_noticed(monkeypatch):
    monkeypatch.setattr(fitting.torch.accelerator, "is_available", lambda: False)
    _, told = chosen(monkeypatch, {"fp32": 0.01}, busy=2.0)
    assert told[-1].startswith("warning: a step had 0.035 CPU s in 0.07 s: this machine is busy")
    assert not any("busy" in line for line in chosen(monkeypatch, {"fp32": 0.01}, busy=1.2)[1])


def test_settings_that_do_not_fit_are_refused(monkeypatch):
    with pytest.raises(ConfigError, match="unknown key 'widht'"):
        chosen(monkeypatch, {"fp32": 0.2}, settings=["widht=2"])


def test_merged_leaves_its_values_alone():
    values = {"a": {"b": 1}, "c": 2}
    assert merge(values, {"a.b": 3, "d.e": 4, "c": 5}) == {"a": {"b": 3}, "c": 5, "d": {"e": 4}}
    assert values == {"a": {"b": 1}, "c": 2}
