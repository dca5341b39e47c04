"""A few real steps of a model on its data, thrown away afterwards: what a step costs on this machine."""

import math
import statistics
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headwise.training import numerics
from headwise.training.recipe import Recipe, TrainingConfig
from headwise.training.session import Session

# the first steps make the optimizer's state and fill caches
_UNTIMED = 2
_FEWEST, _MOST = 3, 50


@dataclass(frozen=True)
class Trial:
    """What a step costs here.

    Args:
        step_s: seconds on the clock.
        step_cpu_s: CPU seconds of all threads.
        tokens: target tokens.
        pass_steps: steps of a pass over the data.
        weights_bytes: weights, gradients and what the optimizer and the running mean remember.
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


def tried(session: Session, seconds: float, clock: Callable[[], float] = time.perf_counter) -> Trial:
    """Takes real steps for about so many seconds, three at least; the session is of no use afterwards.

    Args:
        session: a new one, whose precision is settled.
        clock: seconds on the clock.
    """
    session.model.train()
    times: list[float] = []
    cpu_s: list[float] = []
    tokens = kept = 0
    while len(times) < _FEWEST + _UNTIMED or (sum(times) < seconds and len(times) < _MOST):
        before, cpu_before = clock(), time.process_time()
        batches = [batch.to(session.device) for batch in session.source.take(session.recipe.training.accumulate)]
        # counting what is kept takes time
        found, held = _step(session, batches, counting=len(times) < _UNTIMED)
        tokens, kept = tokens + found, max(kept, held)
        times.append(clock() - before)
        cpu_s.append(time.process_time() - cpu_before)
    timed, timed_cpu = times[_UNTIMED:], cpu_s[_UNTIMED:]
    return Trial(
        # what else runs on the machine now may not run then: the middle one, not the mean
        step_s=statistics.median(timed),
        step_cpu_s=max(statistics.median(timed_cpu), 1e-6),
        tokens=tokens / len(times),
        pass_steps=math.ceil(session.source.size() / session.recipe.training.accumulate),
        weights_bytes=_weights_bytes(session),
        activation_bytes=kept,
    )


def _step(session: Session, batches: list[Any], *, counting: bool) -> tuple[int, int]:
    """One step; its target tokens, and the most bytes that one of its forward passes kept, if that is counted."""
    config, kept = session.recipe.training, 0
    tokens = sum(batch.num_tokens for batch in batches)
    for batch in batches:
        held = _Held(session.model.parameters())
        hooks = torch.autograd.graph.saved_tensors_hooks(held.count, _unchanged) if counting else nullcontext()
        bf16 = config.precision == "bf16"
        with hooks, torch.autocast(session.device.type, torch.bfloat16, enabled=bf16):
            loss = session.objective(batch) / max(tokens, 1)
        kept = max(kept, sum(held.storages.values()))
        loss.backward()
    parameters = [parameter for parameter in session.model.parameters() if parameter.requires_grad]
    norm = numerics.global_norm(numerics.gradients(parameters))
    numerics.clip(parameters, float(norm), config.clip_norm)
    session.optimizer.step()
    session.optimizer.zero_grad(set_to_none=True)
    if session.mean is not None:
        session.mean.update(1)
    return tokens, kept


class _Held:
    """Bytes of what a forward pass keeps for its backward pass, parameters left out, by where the storage lies."""

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self._known = {parameter.untyped_storage().data_ptr() for parameter in parameters}
        self.storages: dict[int, int] = {}

    def count(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._known:
            self.storages[storage.data_ptr()] = storage.nbytes()
        return tensor


def _unchanged(tensor: Tensor) -> Tensor:
    return tensor


def _weights_bytes(session: Session) -> int:
    weights = _bytes(session.model.parameters())
    trained = _bytes(parameter for parameter in session.model.parameters() if parameter.requires_grad)
    states = _bytes(
        value for state in session.optimizer.state.values() for value in state.values() if isinstance(value, Tensor)
    )
    return weights + trained + states + (weights if session.mean is not None else 0)


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def try_recipe(recipe: Recipe, task: Any, seconds: float) -> Trial:
    """A trial of a task whose data is read, with this recipe."""
    session = Session(task, recipe)
    session.begin()
    return tried(session, seconds)
