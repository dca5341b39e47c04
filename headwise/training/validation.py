"""Scores and samples of the present model, taken without disturbing training in any way."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import nn

from headwise.errors import ConfigError, unknown
from headwise.training.randomness import isolated
from headwise.training.recipe import TrainingConfig
from headwise.training.session import Session

Guard = Callable[[], AbstractContextManager[None]]


def validate(session: Session, guard: Guard) -> tuple[dict[str, float], list[str]]:
    """Metrics on the validation data, and sample outputs.

    Args:
        guard: opened around the task's own work alone, which may be broken off there without harm.
    """
    with session.averaged():
        return scores(session, guard, limit=session.recipe.training.valid_limit, samples=True)


def scores(session: Session, guard: Guard, *, limit: int | None, samples: bool) -> tuple[dict[str, float], list[str]]:
    """The same of the model's weights as they are."""
    task, model = session.task, session.model
    with at_rest(model, session.recipe.seed, session.device), guard():
        source = session.source_of("valid", limit)
        assert source is not None, "a run without validation data is not validated"
        stats = task.measure(model, (batch.to(session.device) for batch in source.once()))
        shown = task.samples(model) if samples else []
    return {name: float(value) for name, value in task.summarise(stats).items()}, shown


def check_monitor(session: Session, guard: Guard) -> None:
    """Evaluates one example before training starts. Raises: ConfigError when the monitored metric is not among it."""
    metrics, _ = scores(session, guard, limit=1, samples=False)
    monitored(session.recipe.training, metrics)


def monitored(config: TrainingConfig, metrics: dict[str, float]) -> float:
    """The value of the metric that says which model is best. Raises: ConfigError with the nearest name."""
    if config.monitor not in metrics:
        raise ConfigError(f"training.monitor: {unknown('metric', config.monitor, metrics)}")
    return metrics[config.monitor]


def smaller_is_better(session: Session) -> bool:
    """Which way the monitored metric improves: as the recipe says, or else the task."""
    config = session.recipe.training
    if config.mode != "auto":
        return config.mode == "min"
    return {metric.name: metric.better for metric in session.task.metrics}.get(config.monitor) == "low"


@contextmanager
def at_rest(model: nn.Module, seed: int, device: torch.device) -> Iterator[None]:
    """Evaluation mode without gradients, and random numbers of its own; afterwards all is as before."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.no_grad(), isolated(seed, device):
            yield
    finally:
        for module in training:
            module.training = True
