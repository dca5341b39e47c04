"""The traces that are kept."""

import threading
from collections import OrderedDict

from headwise.explorer.traces import Traced


class Store:
    """The latest traces, within a number of bytes.

    Args:
        limit: bytes of all traces together; one that is larger is kept until the next comes.
        most: traces at most, because each has more than its tensors: tokens, passes, what edits changed.
    """

    def __init__(self, limit: int, most: int = 256):
        self._limit, self._most = limit, most
        self._traces: OrderedDict[str, Traced] = OrderedDict()
        # the worker keeps traces too
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._traces)

    @property
    def bytes(self) -> int:
        return sum(traced.bytes for traced in self._traces.values())

    def put(self, traced: Traced) -> None:
        """Keeps a trace, and lets the oldest go."""
        with self._lock:
            self._traces[traced.id] = traced
            self._traces.move_to_end(traced.id)
            while len(self._traces) > 1 and (self.bytes > self._limit or len(self._traces) > self._most):
                self._traces.popitem(last=False)

    def get(self, name: str) -> Traced | None:
        with self._lock:
            if name in self._traces:
                self._traces.move_to_end(name)
            return self._traces.get(name)
