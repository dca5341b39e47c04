"""Whether what a thread works on is still wanted: long work asks between its steps, and ends where it is not."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Check = Callable[[], None]
_CHECK: ContextVar[Check | None] = ContextVar("check", default=None)


@contextmanager
def while_wanted(check: Check) -> Iterator[None]:
    """While open, `check` is asked between the steps of what this thread does; what it raises ends the work.

    Steps are batches of a predictor, passes of a model, attention layers that are looked at, weights of a layer; for
    those of a search see `headwise.decoding.hypotheses.observe_search`. Nothing else about the work changes.
    """
    token = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(token)


def ask() -> None:
    """Between two steps: raises what the check raises; nothing where nobody checks."""
    check = _CHECK.get()
    if check is not None:
        check()
