"""Who is told of the steps of a search: in this thread, while a context is open; nothing about the search changes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int


@dataclass(frozen=True)
class Searched:
    """One step of a search over a batch of sentences.

    Args:
        step: from 0.
        places: the sentence of each row, by its number in the batch.
        tokens: what each row goes on with, its end included.
        totals: the log-probability of each row up to here.
    """

    step: int
    places: Int[np.ndarray, "rows"]
    tokens: Int[np.ndarray, "rows"]
    totals: Float[np.ndarray, "rows"]


Watcher = Callable[[Searched], None]
_WATCHER: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """While open, every step of every search of this thread is told to `watcher`; what it raises ends the search."""
    token = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _WATCHER.reset(token)


def watcher() -> Watcher | None:
    """Who is told of a search that begins now."""
    return _WATCHER.get()
