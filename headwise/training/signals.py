"""SIGINT and SIGTERM: the first asks the loop to finish its step and save, the second ends the process at once."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from headwise.errors import HeadwiseError

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(HeadwiseError):
    """A signal stopped training; its progress is saved, unless the message says otherwise."""

    def __init__(self, signum: int, message: str) -> None:
        super().__init__(message)
        self.signum = signum
        # the shell's convention: 130 for SIGINT, 143 for SIGTERM
        self.exit_code = 128 + signum

    def __reduce__(self) -> tuple[Any, ...]:
        # pickled with its signal, for other processes
        return type(self), (self.signum, str(self))


def stopped_by(signum: int) -> Stopped:
    return Stopped(signum, f"stopped by {signal.Signals(signum).name}")


class StopSignal:
    """Remembers the first stop signal while it is open, and puts the former handlers back afterwards.

    In a `breakable` context (without anything to save, such as validation) the first signal raises `Stopped` at once. A
    second signal ends the process at once, which is safe since every commit is atomic. Outside the main thread, where
    Python delivers no signals, it does nothing.
    """

    def __init__(self) -> None:
        self.signum = 0
        self._breakable = False
        self._former: dict[int, Any] = {}

    def __enter__(self) -> "StopSignal":
        if threading.current_thread() is threading.main_thread():
            self._former = {signum: signal.signal(signum, self._received) for signum in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._former.items():
            signal.signal(signum, handler if handler is not None else signal.SIG_DFL)

    @contextmanager
    def breakable(self) -> Iterator[None]:
        """The first signal in this context, or before it, raises `Stopped`."""
        self._breakable = True
        try:
            self.check()
            yield
        finally:
            self._breakable = False

    def check(self) -> None:
        if self.signum:
            raise stopped_by(self.signum)

    def _received(self, signum: int, frame: FrameType | None) -> None:
        if self.signum:
            os._exit(128 + signum)
        self.signum = signum
        if self._breakable:
            self.check()
