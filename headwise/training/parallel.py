"""How processes share a step: the batches of each, the wrapper that exchanges gradients, and what all agree on."""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from headwise.data.sources import Source
from headwise.errors import ConfigError
from headwise.layers.blocks import Block
from headwise.layers.norms import TokenBatchNorm
from headwise.processes import Processes
from headwise.training import numerics
from headwise.training.compiling import Loss
from headwise.training.objective import Objective
from headwise.training.recipe import TrainingConfig

Kind = Literal["none", "ddp", "fsdp"]
_OF_BATCH = (TokenBatchNorm, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


class Share(NamedTuple):
    """What a process computes in a step: the first `real` batches are its own, others fill gaps and count nothing.

    Args:
        tokens: real target tokens of all processes.
    """

    batches: list[Any]
    real: int
    tokens: int

    @property
    def indices(self) -> list[list[int]]:
        """The examples of its own batches."""
        return [batch.indices for batch in self.batches[: self.real]]


def share_of_step(source: Source[Any], count: int, processes: Processes, device: torch.device) -> Share:
    """The share of a step of `count` batches: as many for each process, so that none waits for another in vain.

    All batches of the step are made first: the loss is divided by the tokens of all of them.
    """
    taken = source.take(count, processes.rank, processes.world)
    own = [batch for batch in taken if batch.num_tokens]
    told = processes.numbers(sum(batch.num_tokens for batch in own), len(own))
    tokens, most = int(sum(count for count, _ in told)), int(max(batches for _, batches in told))
    gaps = [source.example() for _ in range(most - len(own))]
    return Share([batch.to(device) for batch in (*own, *gaps)], len(own), tokens)


def kind_of(config: TrainingConfig, processes: Processes) -> Kind:
    """What `training.parallel` comes to here. Raises: ConfigError for what does not fit."""
    kind: Kind = ("ddp" if processes.world > 1 else "none") if config.parallel == "auto" else config.parallel
    if config.offload and kind != "fsdp":
        raise ConfigError(f"training.offload is for training.parallel = 'fsdp', not '{kind}'; leave it out")
    if kind == "none" and processes.world > 1:
        raise ConfigError(
            f"training.parallel = 'none', but {processes.world} processes were started, which would all do the same; "
            "set it to 'auto', or start without a launcher"
        )
    return kind


def check(model: nn.Module, processes: Processes) -> None:
    """Raises: ConfigError naming a layer that needs to see a whole batch, where processes see parts."""
    if processes.world == 1:
        return
    for name, module in model.named_modules():
        if isinstance(module, _OF_BATCH):
            raise ConfigError(
                f"model: '{name}' normalises over the examples of a batch, of which each of {processes.world} processes"
                " has a part; choose another norm or activation, or train in one process"
            )


def recompute(model: nn.Module) -> None:
    """From now on the blocks keep only what enters them, and are computed again for the gradient."""
    for block in blocks_of(model):
        plain = block.forward
        block.forward = partial(_again, plain)


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """What a model repeats, the first one first."""
    return [module for module in model.modules() if isinstance(module, Block)]


def _again(plain: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
    return checkpoint(plain, *inputs, use_reentrant=False, **options)


def shard(objective: Objective, config: TrainingConfig, device: torch.device) -> None:
    """From now on each process has a part of every parameter, and puts a block together while it computes it.

    The blocks are units; whatever else the model has, such as embeddings, output and what blocks share, is one more
    unit around all, since the loss reads the output's weight. Under bf16 the blocks are put together in bfloat16, and
    gradients are summed in float32.

    Source: Zhao et al. 2023, arXiv:2304.11277; `torch.distributed.fsdp.fully_shard`.

    Raises: ConfigError for training.offload without a GPU.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard

    if config.offload and device.type == "cpu":
        raise ConfigError("training.offload: the weights are in the memory of the processor already; leave it out")
    mesh = init_device_mesh(device.type, (torch.distributed.get_world_size(),))
    offload = CPUOffloadPolicy() if config.offload else OffloadPolicy()
    low = torch.bfloat16 if config.precision == "bf16" else None
    # autocast decides what is computed in which type: nothing is cast on the way in
    precision = MixedPrecisionPolicy(low, torch.float32 if low else None, cast_forward_inputs=False)
    for block, shared in _units(objective.model):
        fully_shard(block, mesh=mesh, mp_policy=precision, offload_policy=offload, ignored_params=shared)
    fully_shard(objective, mesh=mesh, reshard_after_forward=False, offload_policy=offload)


def _units(model: nn.Module) -> list[tuple[nn.Module, set[nn.Parameter]]]:
    """The blocks, each with those of its parameters that are also somewhere else in the model."""
    paths = {path: module for path, module in model.named_modules() if isinstance(module, Block)}
    homes: dict[nn.Parameter, set[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        home = next((path for path in paths if name.startswith(f"{path}.")), "")
        homes.setdefault(parameter, set()).add(home)
    elsewhere = {parameter for parameter, found in homes.items() if len(found) > 1}
    return [(block, elsewhere & set(block.parameters())) for block in paths.values()]


class Engine:
    """Computes the loss of a batch, and exchanges gradients between processes as a step ends.

    Under "ddp" by DistributedDataParallel. It looks for parameters that took no part, since tasks may leave some out
    of a batch, and a parameter that took no part in any process is left without a gradient, as in one process.

    Args:
        compiler: what makes a compiled loss of one; None: none.
    """

    def __init__(
        self, objective: Objective, kind: Kind, processes: Processes, compiler: Callable[[Loss], Loss] | None
    ) -> None:
        self._processes = processes
        self._loss: Loss = objective if compiler is None else compiler(objective)
        self._objective: Any = objective
        self._kind = kind
        self._wrapped: Any = None
        if kind == "ddp":
            self._wrapped = self._loss = _distributed(_Called(objective, self._loss))

    def __call__(self, batch: Any) -> Tensor:
        return self._loss(batch)

    @contextmanager
    def passing(self, *, last: bool) -> Iterator[None]:
        """Around a forward and a backward pass: the last one of a step exchanges the gradients of all of them."""
        if self._kind == "fsdp":
            self._objective.set_requires_gradient_sync(last)
        held: AbstractContextManager[Any] = nullcontext() if last or self._wrapped is None else self._wrapped.no_sync()
        with held:
            yield

    def norm(self, gradients: list[Tensor]) -> Tensor:
        """The Euclidean norm of what this process has of the gradient."""
        return numerics.global_norm(gradients)

    def agreed(self, loss: float, norm: float) -> tuple[float, float]:
        """The loss of all processes, and the norm of the whole gradient, the same in all."""
        told = self._processes.numbers(loss, norm)
        norms = [one for _, one in told]
        # where each has a part of the gradient, the squares of their norms add up
        return sum(one for one, _ in told), math.hypot(*norms) if self._kind == "fsdp" else norms[0]


class _Called(nn.Module):
    """The objective's parameters, with another way to compute it."""

    def __init__(self, objective: Objective, loss: Loss) -> None:
        super().__init__()
        self.objective = objective
        self._loss = (loss,)

    def forward(self, batch: Any) -> Tensor:
        return self._loss[0](batch)


def _distributed(module: nn.Module) -> nn.Module:
    from torch.nn.parallel import DistributedDataParallel

    # no model that is trained so has buffers that change: there is nothing to tell of them
    return DistributedDataParallel(module, find_unused_parameters=True, forward_sync_buffers=False)
