"""Cancellation of long work: the work polls a check between its steps, and ends with what the check raises."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Check = Callable[[], None]
_CHECK: ContextVar[Check | None] = ContextVar("check", default=None)


@contextmanager
def cancelled_by(check: Check) -> Iterator[None]:
    """While open, the work of this thread calls `check` between its steps; an exception of the check ends the work.

    Steps are batches of a predictor, passes of a model, attention layers that are recorded, weights of a layer. Those
    of a search go to the observer of `headwise.decoding.hypotheses`. Nothing else about the work changes.
    """
    token = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(token)


def poll_cancellation() -> None:
    """Called between two steps: raises what the check raises; does nothing without a check."""
    check = _CHECK.get()
    if check is not None:
        check()
