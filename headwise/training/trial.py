"""The cost of a recipe: memory and time of a few real steps, which are thrown away, and a preview of the run."""

import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from headwise.labels import visible
from headwise.models.summary import parts
from headwise.runs.display import clock as clock_text
from headwise.tasks import registry
from headwise.tasks.task import Given, Task
from headwise.training import numerics
from headwise.training.limits import misfits
from headwise.training.randomness import isolated
from headwise.training.recipe import Recipe, TrainingConfig
from headwise.training.session import Session
from headwise.training.start import files_of_start

# seconds of steps, from which the time of a run is estimated
TRIAL_S = 3.0

# the first steps make the optimizer's state and fill caches
_UNTIMED = 2
_FEWEST, _MOST = 3, 50
_MIB = 1 << 20


@dataclass(frozen=True)
class Trial:
    """The cost of a step here.

    Args:
        step_s: seconds on the clock.
        step_cpu_s: CPU seconds of all threads.
        pass_steps: steps of a pass over the data.
        weights_bytes: weights, gradients and the state of the optimizer and the running mean.
        activation_bytes: the most that one of the first forward passes kept for its backward pass.
    """

    step_s: float
    step_cpu_s: float
    tokens: float
    pass_steps: int
    weights_bytes: int
    activation_bytes: int

    def steps(self, config: TrainingConfig, used_s: float = 0.0) -> float:
        """The steps that a run with these limits takes, when `used_s` seconds go to anything else."""
        limits = {
            config.max_steps or math.inf,
            config.max_epochs * self.pass_steps or math.inf,
            max(0.0, 60.0 * config.max_minutes - used_s) / self.step_s if config.max_minutes else math.inf,
            max(0.0, config.max_cpu_s - used_s) / self.step_cpu_s if config.max_cpu_s else math.inf,
        }
        return float(min(limits))


def time_steps(session: Session, seconds: float, clock: Callable[[], float] = time.perf_counter) -> Trial:
    """Takes real steps for about so many seconds, three at least; the session cannot be used afterwards.

    Args:
        session: a new one, whose precision is settled.
    """
    session.model.train()
    times: list[float] = []
    cpu_s: list[float] = []
    tokens: list[int] = []
    activation_bytes = 0
    while len(times) < _FEWEST + _UNTIMED or (sum(times) < seconds and len(times) < _MOST):
        before, cpu_before = clock(), time.process_time()
        batches = [batch.to(session.device) for batch in session.source.take(session.recipe.training.accumulate)]
        # counting bytes takes time
        step_tokens, step_bytes = _step(session, batches, counting=len(times) < _UNTIMED)
        tokens.append(step_tokens)
        activation_bytes = max(activation_bytes, step_bytes)
        times.append(clock() - before)
        cpu_s.append(time.process_time() - cpu_before)
    timed, timed_cpu = times[_UNTIMED:], cpu_s[_UNTIMED:]
    return Trial(
        # the median, as other work on the machine now may not run then
        step_s=statistics.median(timed),
        step_cpu_s=max(statistics.median(timed_cpu), 1e-6),
        # of the steps that every machine takes, so that it does not depend on the time
        tokens=statistics.fmean(tokens[: _FEWEST + _UNTIMED]),
        pass_steps=math.ceil(session.source.size() / session.recipe.training.accumulate),
        weights_bytes=_weights_bytes(session),
        activation_bytes=activation_bytes,
    )


def _step(session: Session, batches: list[Any], *, counting: bool) -> tuple[int, int]:
    """One step; its target tokens, and the most bytes that one of its forward passes kept, if counted."""
    config, most = session.recipe.training, 0
    tokens = sum(batch.num_tokens for batch in batches)
    for batch in batches:
        activations = _Activations(session.model.parameters())
        bf16 = config.precision == "bf16"
        with (
            activations.counted() if counting else nullcontext(),
            torch.autocast(session.device.type, torch.bfloat16, enabled=bf16),
        ):
            loss = session.objective(batch) / max(tokens, 1)
        most = max(most, sum(activations.storages.values()))
        loss.backward()
    parameters = [parameter for parameter in session.model.parameters() if parameter.requires_grad]
    norm = numerics.global_norm(numerics.gradients(parameters))
    numerics.clip(parameters, float(norm), config.clip_norm)
    session.optimizer.step()
    session.optimizer.zero_grad(set_to_none=True)
    if session.mean is not None:
        session.mean.update(1)
    return tokens, most


class _Activations:
    """Bytes of the tensors that a forward pass keeps for its backward pass, without parameters, by their storage."""

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self._parameters = {parameter.untyped_storage().data_ptr() for parameter in parameters}
        self.storages: dict[int, int] = {}

    def counted(self) -> torch.autograd.graph.saved_tensors_hooks:
        return torch.autograd.graph.saved_tensors_hooks(self._count, lambda tensor: tensor)

    def _count(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._parameters:
            self.storages[storage.data_ptr()] = storage.nbytes()
        return tensor


def _weights_bytes(session: Session) -> int:
    weights = _bytes(session.model.parameters())
    trained = _bytes(parameter for parameter in session.model.parameters() if parameter.requires_grad)
    states = _bytes(
        value for state in session.optimizer.state.values() for value in state.values() if isinstance(value, Tensor)
    )
    return weights + trained + states + (weights if session.mean is not None else 0)


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors)


@contextmanager
def _scratch_task(recipe: Recipe) -> Iterator[Task[Any]]:
    """The task with its data read; files that it makes lie in a temporary folder, removed at the end."""
    with isolated(recipe.seed), TemporaryDirectory(prefix="headwise-") as scratch:
        kind = registry.task_type(recipe.task)
        yield kind(recipe, kind.prepare_with(recipe, Given(files_of_start(recipe), Path(scratch))))


def check_trainable(recipe: Recipe) -> None:
    """Reads the data of a recipe and initialises its model.

    Nothing is kept, except by a task that overrides `prepare` alone.

    Raises: as `train`, for the recipe and its data.
    """
    with _scratch_task(recipe) as task:
        Session(task, recipe).begin()


def try_steps(recipe: Recipe, seconds: float = TRIAL_S) -> tuple[Trial, int]:
    """The cost of a step of a recipe, and the number of parameters of its model; nothing is kept.

    Raises: as `train`, for the recipe and its data.
    """
    recipe = numerics.settle_precision(recipe, None, lambda note: None)
    with _scratch_task(recipe) as task:
        session = Session(task, recipe)
        session.begin()
        parameters = sum(parameter.numel() for parameter in session.model.parameters())
        return time_steps(session, seconds), parameters


def preview(recipe: Recipe, run: Path) -> Iterator[str]:
    """Lines that describe training this recipe into this folder; nothing is kept.

    Raises: as `train`, for the recipe and its data.
    """
    began = time.monotonic()
    notes: list[str] = []
    recipe = numerics.settle_precision(recipe, None, notes.append)
    with _scratch_task(recipe) as task:
        prepare_s = time.monotonic() - began
        session = Session(task, recipe)
        data_notes = "\n".join((*task.assets.notes, *session.begin())).split("\n")
        trial = time_steps(session, TRIAL_S)
        yield "data"
        yield from (f"  {line}" for line in (*_splits(session), *map(visible, filter(None, data_notes))))
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
    seconds = clock_text(prepare_s + steps * trial.step_s)
    validations = "" if config.follows_clock() else " and its validations"
    yield f"the run: about {steps:,.0f} steps, {passes:,.1f} passes over the data, {seconds}{validations}"
    yield from misfits(config, float(steps))
