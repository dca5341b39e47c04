"""The random state that training uses (torch on the CPU, Python's `random`): seeded, saved, restored, kept apart."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from headwise.errors import CheckpointError


def capture() -> dict[str, Any]:
    """Both generators as values for JSON."""
    version, words, gauss = random.getstate()
    return {"torch": bytes(torch.get_rng_state().tolist()).hex(), "python": [version, list(words), gauss]}


def restore(state: dict[str, Any]) -> None:
    """Continues where `capture` was called. Raises: CheckpointError when the values are none of its."""
    try:
        version, words, gauss = state["python"]
        random.setstate((version, tuple(words), gauss))
        torch.set_rng_state(torch.frombuffer(bytearray.fromhex(state["torch"]), dtype=torch.uint8))
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointError(f"the random state in the checkpoint cannot be restored: {error}") from None


@contextmanager
def isolated(seed: int) -> Iterator[None]:
    """Seeds both generators inside, and leaves them outside as they were."""
    torch_state, python_state = torch.get_rng_state(), random.getstate()
    try:
        torch.manual_seed(seed)
        random.seed(seed)
        yield
    finally:
        torch.set_rng_state(torch_state)
        random.setstate(python_state)
