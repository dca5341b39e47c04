"""What a recipe would do: its data, its model, and the memory and time it takes, from a few steps thrown away."""

import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from headwise.labels import visible
from headwise.models.summary import parts
from headwise.runs.display import clock
from headwise.tasks import registry
from headwise.tasks.task import Given
from headwise.training.limits import misfits
from headwise.training.numerics import settled
from headwise.training.randomness import isolated
from headwise.training.recipe import Recipe, TrainingConfig
from headwise.training.session import Session
from headwise.training.trial import Trial, tried

# seconds of steps, from which the time is estimated
TRIAL_S = 3.0
_MIB = 1 << 20


def check_trainable(recipe: Recipe) -> None:
    """Reads the data of a recipe and makes what training begins with.

    Nothing is kept but what the `prepare` of a task without `prepare_with` keeps.

    Raises: as `train`, for the recipe and its data.
    """
    with isolated(recipe.seed), TemporaryDirectory(prefix="headwise-") as scratch:
        kind = registry.task_type(recipe.task)
        Session(kind(recipe, kind.prepare_with(recipe, Given(scratch=Path(scratch)))), recipe).begin()


def preview(recipe: Recipe, run: Path) -> Iterator[str]:
    """Lines on what training the recipe into this folder would be; no weight is kept, and what is written goes to a
    temporary folder of the system, which is removed.

    Raises: as `train`, for the recipe and its data.
    """
    began = time.monotonic()
    notes: list[str] = []
    recipe = settled(recipe, None, notes.append)
    # what is kept for later runs lies here, and goes at the end
    with isolated(recipe.seed), TemporaryDirectory(prefix="headwise-") as scratch:
        kind = registry.task_type(recipe.task)
        task = kind(recipe, kind.prepare_with(recipe, Given(scratch=Path(scratch))))
        prepare_s = time.monotonic() - began
        session = Session(task, recipe)
        of_data = "\n".join((*task.assets.notes, *session.begin())).split("\n")
        trial = tried(session, TRIAL_S)
        yield "data"
        yield from (f"  {line}" for line in (*_splits(session), *map(visible, filter(None, of_data))))
        yield "model"
        yield from (f"  {line}" for line in (*parts(session.model).splitlines(), *notes))
        yield "memory, estimated"
        yield f"  weights, gradients and optimizer: {trial.weights_bytes / _MIB:,.0f} MiB"
        yield f"  what a batch keeps for its gradient: {trial.activation_bytes / _MIB:,.0f} MiB"
        yield "time, estimated from a few steps"
        yield from (f"  {line}" for line in _times(recipe.training, trial, prepare_s, task.unit))
    yield f"nothing was written; without --dry-run the run goes to {run}"


def _splits(session: Session) -> Iterator[str]:
    for split in ("train", "valid", "test"):
        source = session.source_of(split)
        if source is None:
            yield f"{split}: none"
            continue
        examples = source.examples()
        count = f"{source.size():,} batch{'es' if source.size() > 1 else ''}"
        yield f"{split}: {count}" if examples is None else f"{split}: {examples:,} examples in {count}"


def _times(config: TrainingConfig, trial: Trial, prepare_s: float, unit: str) -> Iterator[str]:
    speed = f"{trial.step_s:.3g} s a step, {trial.tokens / trial.step_s:,.0f} {unit} a second"
    yield f"{prepare_s:.0f} s of preparation; {speed}"
    steps = trial.steps(config, prepare_s)
    passes = steps / trial.pass_steps
    seconds = clock(prepare_s + steps * trial.step_s)
    validations = "" if config.follows_clock() else " and its validations"
    yield f"the run: about {steps:,.0f} steps, {passes:,.1f} passes over the data, {seconds}{validations}"
    yield from misfits(config, float(steps))
