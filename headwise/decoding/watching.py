"""Who is told of the steps of a search: in this thread, while a context is open; nothing about the search changes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from headwise.decoding.hypotheses import Hypothesis


@dataclass(frozen=True)
class Beginnings:
    """Hypotheses under way, a row each; the arrays hold them while they are told.

    Args:
        places: the sentence of each, by its number in the batch.
        tokens: of each so far.
        totals: the log-probability of each; minus infinity for a row without hypothesis.
    """

    places: Int[np.ndarray, "rows"]
    tokens: Int[np.ndarray, "rows length"]
    totals: Float[np.ndarray, "rows"]


@dataclass(frozen=True)
class Searched:
    """One step of a search over a batch of sentences.

    Args:
        step: from 0.
        before: what was continued.
        after: what goes on; beginnings that this step has ended, and those of sentences that are done, may be left out.
        ended: what has ended, with the number of its sentence.
    """

    step: int
    before: Beginnings
    after: Beginnings
    ended: Sequence[tuple[int, Hypothesis]]


Watcher = Callable[[Searched], None]
_WATCHER: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """While open, every step of every search of this thread is told to `watcher`; what it raises ends the search.

    Who is told already goes on being told, first.
    """
    outer = _WATCHER.get()

    def both(found: Searched) -> None:
        if outer is not None:
            outer(found)
        watcher(found)

    token = _WATCHER.set(both)
    try:
        yield
    finally:
        _WATCHER.reset(token)


def watcher() -> Watcher | None:
    """Who is told of a search that begins now."""
    return _WATCHER.get()
