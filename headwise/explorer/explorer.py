"""What every route of the explorer works with: `Explorer`, its traces and how their numbers are sent."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Annotated

import numpy as np
from fastapi import Query, Request, Response

from headwise.explorer.inputs import Examples
from headwise.explorer.traces import Traced
from headwise.explorer.wire import MEDIA_TYPE, npy
from headwise.service.app import Service
from headwise.service.problems import Problem

# a matrix that is larger has to be asked for in parts
_MOST_BYTES = 1 << 22
# a trace is named after all that it depends on, so its parts never change
KEPT = {"Cache-Control": "private, max-age=31536000, immutable"}
Name = Annotated[str, Query(max_length=200)]


class Numbers(Response):
    """A `.npy` file."""

    media_type = MEDIA_TYPE


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


class Explorer:
    """Traces of the runs of a service."""

    def __init__(self, service: Service, store: Store):
        self.service, self.store = service, store
        self.examples = Examples()

    def trace(self, name: str) -> Traced:
        """Raises: Problem 404 for a trace that is gone."""
        traced = self.store.get(name)
        if traced is None:
            raise Problem(404, "this trace is not kept any more", "POST /api/v1/traces makes it again")
        return traced

    async def numbers(
        self, request: Request, name: str, work: Callable[[Traced], np.ndarray], *, single: bool | None = None
    ) -> Response:
        """A part of a trace as a `.npy` file.

        Args:
            single: in single precision, as what may be small throughout; None: by their number, as `wire.npy` says.
        """
        traced = self.trace(name)
        body = await self.service.compute(lambda: npy(work(traced), single=single), request)
        return as_numbers(body, "ask for rows with q=, or for fewer layers")


def as_numbers(body: bytes, hint: str) -> Numbers:
    """A `.npy` file that never changes. Raises: Problem 413, with the hint, for one that is too large."""
    if len(body) > _MOST_BYTES + 1024:
        raise Problem(413, f"the answer has {len(body):,} bytes", hint)
    return Numbers(body, headers=KEPT)
