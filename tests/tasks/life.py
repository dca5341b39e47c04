"""What the tests of every task do: build it, score it, and follow a run from its recipe to a loaded predictor."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

import headwise
from headwise.config import build
from headwise.data.sources import Limits
from headwise.predictors.predictor import Predictor
from headwise.tasks import registry
from headwise.tasks.task import Assets, Task
from headwise.training.train import train

WHOLE = Limits(10_000)


def task_of(name: str, values: Mapping[str, Any]) -> Task:
    """The task of this name with its data prepared.

    Args:
        name: as in a recipe.
        values: the recipe without the keys that belong to all tasks.
    """
    kind = registry.task_type(name)
    config = build(kind.config_type, values, "recipe")
    return kind(config, kind.prepare(config))


def built_of(task: Task, seed: int = 3) -> nn.Module:
    """A new model of the task, the same for the same seed."""
    torch.manual_seed(seed)
    return task.build()


def batch_of(task: Task, split: str = "train", limits: Limits = WHOLE) -> Any:
    """The first batch of a part."""
    source = task.source(split, limits)
    assert source is not None
    return next(iter(source.once()))


def scores_of(task: Task, model: nn.Module, split: str = "valid", tokens: int = 20) -> dict[str, float]:
    """The metrics of a part in batches of at most so many tokens."""
    source = task.source(split, Limits(tokens))
    assert source is not None
    with torch.no_grad():
        return task.summarise(task.measure(model, source.once()))


def baselines_of(task: Task, model: nn.Module, examples: Sequence[Any]) -> dict[str, Mapping[str, float]]:
    """The scores of every baseline, by its name: those of the files of a run, and those fitted to the training data."""
    predictor = task.predictor(model)
    found = [*predictor.baselines(examples), *type(task).baselines(task.config, predictor, examples)]
    return {one.name: one.scores for one in found}


def fitted(task: Task, number: int, limits: Limits = WHOLE, learning_rate: float = 2e-2) -> nn.Module:
    """A model after so many steps of Adam, in evaluation mode."""
    model, source = built_of(task).train(), task.source("train", limits)
    assert source is not None
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    for _ in range(number):
        (batch,) = source.take(1)
        optimizer.zero_grad()
        (task.loss(model, batch) / batch.num_tokens).backward()
        optimizer.step()
    return model.eval()


def restored(task: Task, model: nn.Module) -> Predictor:
    """The predictor of a task that has only its files and the weights of a model, as `load` makes one."""
    again = type(task)(task.config, Assets(task.assets.files))
    assert again.source("train", Limits(10)) is None
    empty = built_of(again, 99).eval()
    empty.load_state_dict(model.state_dict())
    return again.predictor(empty)


def steps(number: int, **training: Any) -> dict[str, Any]:
    """A table `training` of so many steps, validated in the middle."""
    return {
        "max_steps": number, "max_epochs": 0, "warmup_steps": 2, "validate_every_epochs": 0,
        "validate_every": number // 2, "batch_tokens": 99, "baseline_cpu_s": 0,
    } | training  # fmt: skip


def trained_and_resumed(
    recipe: Mapping[str, Any], folder: Path, metrics: Iterable[str]
) -> tuple[Predictor, Predictor, dict[str, float]]:
    """Trains a run in one go, another one in two and with a film, and sees that their checkpoints are the same bytes.

    Args:
        recipe: with `training = steps(an even number)`.
        folder: for the runs `whole` and `part`.
        metrics: the names that a validation has to give, perhaps among others.

    Returns:
        The predictors of both runs, and the metrics of the last validation.
    """
    number = recipe["training"]["max_steps"]
    whole = train(recipe, folder / "whole")
    assert set(whole.metrics) >= set(metrics)
    first = ["film.every=2", f"training.max_steps={number // 2}"]
    assert train(recipe, folder / "part", overrides=first).steps == number // 2
    resumed = train(recipe, folder / "part", resume="must", overrides=["film.every=2"])
    assert (resumed.steps, resumed.metrics) == (number, whole.metrics)
    saved = [folder / run / f"state/step-{number:08}/model.safetensors" for run in ("whole", "part")]
    assert saved[0].read_bytes() == saved[1].read_bytes()
    return headwise.load(folder / "whole"), headwise.load(folder / "part"), whole.metrics
