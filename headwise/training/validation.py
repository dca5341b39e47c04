"""Scores and samples of the model, which leave the state of training as it is."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import nn

from headwise.errors import ConfigError, unknown
from headwise.processes import Processes
from headwise.tasks.task import Stats
from headwise.training.randomness import isolated
from headwise.training.recipe import TrainingConfig
from headwise.training.session import Session
from headwise.training.signals import Stopped, stopped_by

Guard = Callable[[], AbstractContextManager[None]]


def validate(session: Session, guard: Guard) -> tuple[dict[str, float], list[str]]:
    """Metrics on the validation data, and sample outputs.

    Args:
        guard: a context around the task's own work, which may be interrupted without harm.
    """
    limit = session.recipe.training.valid_limit
    with session.averaged_model() as model:
        return scores(session, model, guard, session.processes, limit=limit, samples=True)


def scores(
    session: Session, model: nn.Module, guard: Guard, processes: Processes, *, limit: int | None, samples: bool
) -> tuple[dict[str, float], list[str]]:
    """As `validate` for this model, each process with its share of the batches; samples of the first process."""
    task = session.task
    stats: Stats = {}
    sampled: list[str] = []
    signum = 0
    try:
        with evaluation(model, session.recipe.seed, session.device), guard():
            source = session.source_of("valid", limit)
            assert source is not None, "a run without validation data is not validated"
            share = source.once(processes.rank, processes.world)
            stats = task.measure(model, (batch.to(session.device) for batch in share))
            sampled = task.samples(model) if samples and processes.first else []
    except Stopped as stopped:
        signum = stopped.signum
    # a signal to one process ends the work of all
    if signum := max(processes.gather(signum)):
        raise stopped_by(signum)
    return {name: float(value) for name, value in task.summarise(processes.added(stats)).items()}, sampled


def check_monitor(session: Session, guard: Guard) -> None:
    """Evaluates one example before training starts. Raises: ConfigError when the monitored metric is not among it."""
    with session.averaged_model() as model:
        metrics, _ = scores(session, model, guard, session.processes, limit=1, samples=False)
    monitored(session.recipe.training, metrics)


def monitored(config: TrainingConfig, metrics: dict[str, float]) -> float:
    """The value of the metric that says which model is best. Raises: ConfigError with the nearest name."""
    if config.monitor not in metrics:
        raise ConfigError(f"training.monitor: {unknown('metric', config.monitor, metrics)}")
    return metrics[config.monitor]


def smaller_is_better(session: Session) -> bool:
    """Whether the monitored metric improves downwards: as the recipe says, or else the task."""
    config = session.recipe.training
    if config.mode != "auto":
        return config.mode == "min"
    return {metric.name: metric.better for metric in session.task.metrics}.get(config.monitor) == "low"


@contextmanager
def evaluation(model: nn.Module, seed: int, device: torch.device) -> Iterator[None]:
    """Evaluation mode without gradients, with separate random numbers; afterwards all is as before."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.no_grad(), isolated(seed, device):
            yield
    finally:
        for module in training:
            module.training = True
