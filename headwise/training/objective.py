"""The loss as a module around the model: what is compiled, and what wrappers for several processes wrap."""

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from headwise.tasks.task import Task


class Objective(nn.Module):
    """The loss of a task's batch, by a call of this module, so that hooks and wrappers around the model see it.

    The sum over real target tokens: the loop divides it by their number over all batches of a step.
    """

    def __init__(self, task: Task[Any], model: nn.Module) -> None:
        super().__init__()
        self.task = task
        self.model = model

    def forward(self, batch: Any) -> Float[Tensor, ""]:
        return self.task.loss(self.model, batch)
