"""A suggested recipe fitted to a limit of minutes by trials here: size, precision, dropout, warm-up, validations."""

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from headwise import runtime
from headwise.config import override
from headwise.data.suggestions import Suggestion
from headwise.errors import ConfigError
from headwise.tasks import registry
from headwise.tasks.task import Task
from headwise.training.randomness import isolated
from headwise.training.recipe import Recipe, read_recipe
from headwise.training.session import Session
from headwise.training.trial import Trial, time_steps

# seconds of steps for each model and precision that is tried
TRIAL_S = 2.0
# share of the time of a run for validations and its end
_VALIDATION_SHARE = 0.07
_VALIDATIONS = 5
# fewer steps give a warning; steps on an idle machine have at least this share of a core
_FEW_STEPS, _BUSY = 100, 0.7
_DROPOUT = "model.dropout"

Settings = dict[str, Any]
Try = Callable[[Recipe, Task[Any]], Trial]


def fit_recipe(
    suggestion: Suggestion, settings: list[str], minutes: float, note: Callable[[str], None], attempt: Try | None = None
) -> Settings:
    """The values of a recipe that takes so many minutes on this machine, for `read_recipe`.

    Args:
        suggestion: of the task, its values complete with `task` and data files that can be read.
        settings: `section.key=value` of the user, which take precedence.
        minutes: of the whole run, preparation and validation included.
        attempt: makes a trial of a recipe; None: real steps on the data.

    Raises: ConfigError for wrong settings, or too few minutes for a step; DataError for the data.
    """
    start = time.monotonic()
    limits = {"training.max_minutes": minutes, "training.schedule": "budget", "training.warmup_share": 0.05}
    values = merge(suggestion.values, limits)
    # warmup_share replaces it
    values["training"].pop("warmup_steps", None)
    first = read_recipe(merge(values, suggestion.sizes[0].settings), settings)
    with isolated(first.seed):
        kind = registry.task_type(first.task)
        note("preparing the data")
        assets = kind.prepare(first)
        prepare_s = time.monotonic() - start
        attempt = attempt or _attempt
        chosen: Settings | None = None
        for size in suggestion.sizes:
            candidate = merge(values, size.settings)
            steps, precision, trial = _fastest(
                lambda recipe: attempt(recipe, kind(recipe, assets)), candidate, settings, prepare_s
            )
            passes = steps / trial.pass_steps
            note(f"{_size(size.settings)}: about {steps:,.0f} steps, {passes:,.1f} passes over the data ({precision})")
            if chosen is not None and steps < size.steps:
                break
            chosen, last = merge(candidate, _schedule(suggestion, steps, passes, precision)), (steps, trial)
    assert chosen is not None, "a suggestion has at least one size"
    _check_steps(*last, minutes, prepare_s, note)
    return override(chosen, settings)


def _check_steps(steps: float, trial: Trial, minutes: float, prepare_s: float, note: Callable[[str], None]) -> None:
    """Warns of few or slow steps. Raises: ConfigError if there is no time for a step."""
    # a running mean and a schedule need about so many
    enough = math.ceil((prepare_s + _FEW_STEPS * trial.step_s / (1 - _VALIDATION_SHARE)) / 6) / 10
    times = f"preparing the data took {prepare_s:.0f} s, and a step takes {trial.step_s:.2g} s"
    if steps < 1:
        raise ConfigError(
            f"--minutes {minutes:g} leaves no time for a step: {times}; give at least {enough:g} minutes, or less data"
        )
    if steps < _FEW_STEPS and minutes < enough:
        note(f"warning: about {steps:,.0f} steps teach little: {times}; {enough:g} minutes give {_FEW_STEPS}")
    if trial.step_cpu_s < _BUSY * trial.step_s and not torch.accelerator.is_available():
        note(
            f"warning: a step had {trial.step_cpu_s:.2g} CPU s in {trial.step_s:.2g} s: this machine is busy, and does"
            " more steps when it is not"
        )


def _attempt(recipe: Recipe, task: Task[Any]) -> Trial:
    session = Session(task, recipe)
    session.begin()
    return time_steps(session, TRIAL_S)


def merge(values: Mapping[str, Any], settings: Mapping[str, Any]) -> Settings:
    """A copy of nested values with each `section.key` of the settings set.

    >>> merge({"model": {"d_model": 8}}, {"model.d_ff": 3})
    {'model': {'d_model': 8, 'd_ff': 3}}
    """
    result: Settings = {key: dict(value) if isinstance(value, Mapping) else value for key, value in values.items()}
    for name, value in settings.items():
        section, _, key = name.rpartition(".")
        (result.setdefault(section, {}) if section else result)[key] = value
    return result


def _fastest(
    attempt: Callable[[Recipe], Trial], values: Settings, overrides: list[str], used_s: float
) -> tuple[float, str, Trial]:
    """The most steps that the run can take, their precision, and their trial."""
    trials = []
    for precision in _precisions():
        recipe = read_recipe(merge(values, {"training.precision": precision}), overrides)
        trial = attempt(recipe)
        share = 1.0 - _VALIDATION_SHARE
        trials.append((share * trial.steps(recipe.training, used_s), precision, trial))
    return max(trials, key=lambda trial: trial[0])


def _precisions() -> tuple[str, ...]:
    """float32, and bfloat16 where its products are fast."""
    rates = runtime.gigaflops(torch.float32), runtime.gigaflops(torch.bfloat16)
    return ("fp32", "bf16") if runtime.training_precision(*rates)[0] == "bf16" else ("fp32",)


def _schedule(suggestion: Suggestion, steps: float, passes: float, precision: str) -> Settings:
    every = max(1, round(steps / _VALIDATIONS))
    schedule: Settings = {
        # bfloat16 may be slow on another machine
        "training.precision": "auto" if precision == "bf16" else "fp32",
        "training.validate_every": round(every, -1) if every > 100 else every,
        "training.validate_every_epochs": 0,
        # the mean of about the last fiftieth of the run
        "training.ema_decay": round(min(0.999, max(0.9, 1.0 - 15.0 / max(steps, 1.0))), 3),
    }
    if suggestion.dropouts:
        schedule[_DROPOUT] = next(rate for most, rate in suggestion.dropouts if passes <= most)
    return schedule


def _size(settings: Mapping[str, Any]) -> str:
    sizes = [f"{key.partition('.')[2]} {value}" for key, value in settings.items() if key.startswith("model.d_")]
    return ", ".join(sizes) or "the suggested model"
