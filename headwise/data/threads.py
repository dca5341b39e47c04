"""Cores that there are, and the threads that the library `tokenizers` starts on them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

_THREADED = "TOKENIZERS_PARALLELISM"
# texts from which its threads gain time
_MANY = 10_000


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def threads_for(texts: int) -> Iterator[None]:
    """Inside, the library starts threads only for many texts on several cores.

    It wakes a thread for each text: on one core, or a busy one, every text waits for its turn. The environment is the
    one thing that it asks, at each call; where it is set already, it stays.
    """
    before = os.environ.get(_THREADED)
    if before is not None or (texts >= _MANY and cores() > 1):
        yield
        return
    os.environ[_THREADED] = "false"
    try:
        yield
    finally:
        os.environ.pop(_THREADED, None)
