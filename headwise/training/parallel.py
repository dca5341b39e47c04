"""How the loss of a step is computed: by which processes, sharded, recomputed or compiled."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.distributed import device_mesh
from torch.utils.checkpoint import checkpoint

from headwise.data.sources import Source
from headwise.errors import ConfigError
from headwise.layers.blocks import Block
from headwise.layers.norms import TokenBatchNorm
from headwise.processes import Processes
from headwise.tasks.task import Task
from headwise.training import randomness
from headwise.training.recipe import TrainingConfig

Kind = Literal["none", "ddp", "fsdp"]
Loss = Callable[[Any], Float[Tensor, ""]]
_OF_BATCH = (TokenBatchNorm, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


class Objective(nn.Module):
    """The loss of a task's batch, as a module around the model, so that hooks and wrappers see the call.

    The sum over real target tokens: the loop divides it by their number over all batches of a step.
    """

    def __init__(self, task: Task[Any], model: nn.Module) -> None:
        super().__init__()
        self.task = task
        self.model = model

    def forward(self, batch: Any) -> Float[Tensor, ""]:
        return self.task.loss(self.model, batch)


class Share(NamedTuple):
    """The batches of a process in a step: the first `real` ones are its own, others fill gaps and do not count.

    Args:
        tokens: real target tokens of all processes.
    """

    batches: list[Any]
    real: int
    tokens: int

    @property
    def indices(self) -> list[list[int]]:
        return [batch.indices for batch in self.batches[: self.real]]


def share_of_step(source: Source[Any], count: int, processes: Processes, device: torch.device) -> Share:
    """The share of a step of `count` batches, of the same number for each process, so that they can exchange gradients.

    All batches of the step are made first: the loss is divided by the tokens of all of them.
    """
    drawn = source.take(count, processes.rank, processes.world)
    own = [batch for batch in drawn if batch.num_tokens]
    counts = processes.numbers(sum(batch.num_tokens for batch in own), len(own))
    tokens, most = int(sum(tokens for tokens, _ in counts)), int(max(batches for _, batches in counts))
    gaps = [source.example() for _ in range(most - len(own))]
    return Share([batch.to(device) for batch in (*own, *gaps)], len(own), tokens)


def kind_of(config: TrainingConfig, processes: Processes) -> Kind:
    """The meaning of `training.parallel` here. Raises: ConfigError for a setting that does not fit."""
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
    """Raises: ConfigError naming a layer that needs the whole batch, where each process has a part of it."""
    if processes.world == 1:
        return
    for name, module in model.named_modules():
        if isinstance(module, _OF_BATCH):
            raise ConfigError(
                f"model: '{name}' normalises over the examples of a batch, of which each of {processes.world} processes"
                " has a part; choose another norm or activation, or train in one process"
            )


def recompute(model: nn.Module) -> None:
    """From now on the blocks keep only their inputs, and are computed again for the gradient."""
    for block in blocks_of(model):
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)


def blocks_of(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if isinstance(module, Block)]


def shard(objective: Objective, config: TrainingConfig, device: torch.device) -> None:
    """From now on each process has rows of every parameter, and gathers a block while it computes it.

    The blocks are units; the rest of the model, such as embeddings, output and parameters that blocks share, is one
    more unit around all, since the loss reads the output's weight. Under bf16 the blocks are gathered in bfloat16, and
    gradients are summed in float32.

    Source: Zhao et al. 2023, arXiv:2304.11277; `torch.distributed.fsdp.fully_shard`.

    Raises: ConfigError for training.offload without a GPU.
    """
    # 600 modules, which only this needs
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard

    if config.offload and device.type == "cpu":
        raise ConfigError("training.offload: the weights are in the memory of the processor already; leave it out")
    mesh = device_mesh.init_device_mesh(device.type, (torch.distributed.get_world_size(),))
    offload = CPUOffloadPolicy() if config.offload else OffloadPolicy()
    low = torch.bfloat16 if config.precision == "bf16" else None
    # autocast decides the types: inputs are not cast
    precision = MixedPrecisionPolicy(low, torch.float32 if low else None, cast_forward_inputs=False)
    for block, shared in _units(objective.model):
        fully_shard(block, mesh=mesh, mp_policy=precision, offload_policy=offload, ignored_params=shared)
    fully_shard(objective, mesh=mesh, reshard_after_forward=False, offload_policy=offload)


def _units(model: nn.Module) -> list[tuple[nn.Module, set[nn.Parameter]]]:
    """The blocks, each with those of its parameters that the rest of the model has too."""
    paths = {path: module for path, module in model.named_modules() if isinstance(module, Block)}
    homes: dict[nn.Parameter, set[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        home = next((path for path in paths if name.startswith(f"{path}.")), "")
        homes.setdefault(parameter, set()).add(home)
    elsewhere = {parameter for parameter, places in homes.items() if len(places) > 1}
    return [(block, elsewhere & set(block.parameters())) for block in paths.values()]


class Engine:
    """Computes the loss of a batch, and exchanges gradients between processes as a step ends.

    Under "ddp" by DistributedDataParallel. It looks for parameters that took no part, since tasks may leave some out
    of a batch, and a parameter that took no part in any process is left without a gradient, as in one process.

    Args:
        note: compile the loss, and report here where that fails; None: do not compile.
    """

    def __init__(
        self,
        objective: Objective,
        kind: Kind,
        processes: Processes,
        device: torch.device,
        note: Callable[[str], None] | None,
    ) -> None:
        self._processes = processes
        self._loss: Loss = objective if note is None else compile_loss(objective, note, device)
        self._objective: Any = objective
        self._kind = kind
        self._wrapped: Any = None
        if kind == "ddp":
            # no model that is trained so has buffers that change: none need be sent
            module = _Compiled(objective, self._loss)
            self._wrapped = nn.parallel.DistributedDataParallel(
                module, find_unused_parameters=True, forward_sync_buffers=False
            )
            self._loss = self._wrapped

    def __call__(self, batch: Any) -> Tensor:
        return self._loss(batch)

    @contextmanager
    def passing(self, *, last: bool) -> Iterator[None]:
        """Around a forward and a backward pass: the last one of a step exchanges the gradients of all of them."""
        if self._kind == "fsdp":
            self._objective.set_requires_gradient_sync(last)
        with nullcontext() if last or self._wrapped is None else self._wrapped.no_sync():
            yield

    def reduce(self, loss: float, norm: float) -> tuple[float, float]:
        """The loss of all processes, and the norm of the whole gradient, from those of each."""
        losses, norms = zip(*self._processes.numbers(loss, norm), strict=True)
        # where each has rows of the gradient, the squares of their norms add up
        return sum(losses), math.hypot(*norms) if self._kind == "fsdp" else norms[0]


class _Compiled(nn.Module):
    """The objective's parameters, with the compiled function as the forward pass."""

    def __init__(self, objective: Objective, loss: Loss) -> None:
        super().__init__()
        self.objective = objective
        # in a tuple, it is no submodule
        self._loss = (loss,)

    def forward(self, batch: Any) -> Tensor:
        return self._loss[0](batch)


def compile_loss(loss: Loss, note: Callable[[str], None], device: torch.device = randomness.CPU) -> Loss:
    """The loss compiled for changing shapes; itself, with a note, where the compiler does not work."""
    try:
        torch.compile(lambda values: values.sin() + 1, dynamic=True)(torch.zeros(2))
    except Exception as error:
        # any failure of the compiler, whatever its type, has the same answer
        note(f"torch.compile does not work here ({_first_line(error)}); training continues without it")
        return loss
    compiled: Loss | None = torch.compile(loss, dynamic=True)

    def with_fallback(batch: Any) -> Float[Tensor, ""]:
        """Once the compiled loss has failed, the plain one, with the same random numbers."""
        nonlocal compiled
        if compiled is None:
            return loss(batch)
        reset = randomness.resetter(device)
        try:
            return compiled(batch)
        except torch._dynamo.exc.TorchDynamoException as error:
            note(f"torch.compile failed on this model ({_first_line(error)}); training continues without it")
            compiled = None
            reset()
            return loss(batch)

    return with_fallback


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
