"""How processes share a step: the batches of each, the wrapper that exchanges gradients, and what all agree on."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from headwise.data.sources import Source
from headwise.errors import ConfigError
from headwise.layers.blocks import DecoderBlock, EncoderBlock
from headwise.layers.conformer import ConformerBlock
from headwise.layers.norms import TokenBatchNorm
from headwise.processes import Processes
from headwise.training import numerics
from headwise.training.compiling import Loss
from headwise.training.objective import Objective
from headwise.training.recipe import TrainingConfig

Kind = Literal["none", "ddp", "fsdp"]
# what a model repeats: computed again as a whole
BLOCKS = (EncoderBlock, DecoderBlock, ConformerBlock)
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
    """What `training.parallel` comes to here. Raises: ConfigError for "none" with several processes."""
    if config.parallel == "auto":
        return "ddp" if processes.world > 1 else "none"
    if config.parallel == "none" and processes.world > 1:
        raise ConfigError(
            f"training.parallel = 'none', but {processes.world} processes were started, which would all do the same; "
            "set it to 'auto', or start without a launcher"
        )
    return config.parallel


def check(model: nn.Module, processes: Processes) -> None:
    """Raises: ConfigError naming a layer that needs to see a whole batch, where processes see parts."""
    if processes.world == 1:
        return
    for name, module in model.named_modules():
        if isinstance(module, _OF_BATCH):
            raise ConfigError(
                f"model: '{name}' normalises over the examples of a batch, of which each of {processes.world} processes"
                " has a part; choose another norm (such as norm = 'layer' or 'none'), or train in one process"
            )


def recompute(model: nn.Module) -> None:
    """From now on the blocks keep only what enters them, and are computed again for the gradient."""
    for block in blocks_of(model):
        plain = block.forward
        block.forward = partial(_again, plain)


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """What a model repeats, the first one first."""
    return [module for module in model.modules() if isinstance(module, BLOCKS)]


def _again(plain: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
    return checkpoint(plain, *inputs, use_reentrant=False, **options)


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
        self._wrapped: Any = None
        if kind == "ddp":
            self._wrapped = self._loss = _distributed(_Called(objective, self._loss))

    def __call__(self, batch: Any) -> Tensor:
        return self._loss(batch)

    @contextmanager
    def passing(self, *, last: bool) -> Iterator[None]:
        """Around a forward and a backward pass: the last one of a step exchanges the gradients of all of them."""
        held: AbstractContextManager[Any] = nullcontext() if last or self._wrapped is None else self._wrapped.no_sync()
        with held:
            yield

    def norm(self, gradients: list[Tensor]) -> Tensor:
        """The Euclidean norm of what this process has of the gradient."""
        return numerics.global_norm(gradients)

    def agreed(self, loss: float, norm: float) -> tuple[float, float]:
        """The loss of all processes, and the norm of the whole gradient, the same in all."""
        told = self._processes.numbers(loss, norm)
        return sum(one for one, _ in told), told[0][1]


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
