"""torch.compile around the loss, by choice: an ordinary call where there is no compiler or it fails."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.training import randomness

Loss = Callable[[Any], Float[Tensor, ""]]


def compiled(loss: Loss, note: Callable[[str], None], device: torch.device = randomness.CPU) -> Loss:
    """The loss compiled for changing shapes, or itself, with a note, where a trivial function already fails."""
    try:
        torch.compile(_trivial, dynamic=True)(torch.zeros(2))
    except Exception as error:
        # any failure of the compiler, whatever its type, has the same answer
        note(f"torch.compile does not work here ({_first_line(error)}); training continues without it")
        return loss
    return _WithFallback(loss, note, device)


class _WithFallback:
    """Calls the compiled loss until it fails once; then the plain one, with the same random numbers."""

    def __init__(self, loss: Loss, note: Callable[[str], None], device: torch.device = randomness.CPU) -> None:
        self._device = device
        self._plain = loss
        self._compiled: Loss | None = torch.compile(loss, dynamic=True)
        self._note = note

    def __call__(self, batch: Any) -> Float[Tensor, ""]:
        if self._compiled is None:
            return self._plain(batch)
        back = randomness.held(self._device)
        try:
            return self._compiled(batch)
        except torch._dynamo.exc.TorchDynamoException as error:
            self._note(f"torch.compile failed on this model ({_first_line(error)}); training continues without it")
            self._compiled = None
            back()
            return self._plain(batch)


def _trivial(values: Tensor) -> Tensor:
    return torch.sin(values) + 1


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
