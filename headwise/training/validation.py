"""Scores and samples of the present model, taken without disturbing training in any way."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from typing import Any

import torch
from torch import nn

from headwise.errors import ConfigError, unknown
from headwise.training.randomness import isolated
from headwise.training.recipe import TrainingConfig
from headwise.training.session import Session

_SMALLER_IS_BETTER = {"loss", "perplexity"}
_SPLIT = "valid"
Guard = Callable[[], AbstractContextManager[None]]


def validate(session: Session, guard: Guard) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Metrics on the validation data, and sample outputs.

    Args:
        guard: opened around the task's own work alone, which may be broken off there without harm.
    """
    with session.averaged():
        return scores(session, guard, limit=session.recipe.training.valid_limit, samples=True)


def scores(session: Session, guard: Guard, *, limit: int | None, samples: bool) -> tuple[dict[str, float], list[Any]]:
    """The same of the model's weights as they are."""
    with at_rest(session.model, session.recipe.seed), guard():
        metrics = session.task.evaluate(session.model, _SPLIT, limit=limit)
        shown = [asdict(sample) for sample in session.task.samples(session.model)] if samples else []
    return {name: float(value) for name, value in metrics.items()}, shown


def check_monitor(session: Session, guard: Guard) -> None:
    """Evaluates one example before training starts. Raises: ConfigError when the monitored metric is not among it."""
    metrics, _ = scores(session, guard, limit=1, samples=False)
    monitored(session.recipe.training, metrics)


def monitored(config: TrainingConfig, metrics: dict[str, float]) -> float:
    """The value of the metric that says which model is best. Raises: ConfigError with the nearest name."""
    if config.monitor not in metrics:
        raise ConfigError(f"training.monitor: {unknown('metric', config.monitor, metrics)}")
    return metrics[config.monitor]


def smaller_is_better(config: TrainingConfig) -> bool:
    """Which way the monitored metric improves."""
    return config.mode == "min" or (config.mode == "auto" and config.monitor in _SMALLER_IS_BETTER)


@contextmanager
def at_rest(model: nn.Module, seed: int) -> Iterator[None]:
    """Evaluation mode without gradients, and random numbers of its own; afterwards all is as before."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.no_grad(), isolated(seed):
            yield
    finally:
        for module in training:
            module.training = True
