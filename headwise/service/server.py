"""The process that listens: connections that are slow are closed, and a signal lets answers out before the end."""

import asyncio
import socket
import warnings
from collections import deque
from collections.abc import Callable

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from headwise.errors import MachineError, QuotingWarning
from headwise.service.guard import in_address
from headwise.service.limits import Limits

_IDLE_S = 5
# before answers are cut off, what makes them is told to end, so that it can be said
_TOLD_S = 1.0


def listen(app: FastAPI, limits: Limits, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Answers until SIGINT or SIGTERM; then finishes what is asked, for a few seconds, or not after a second SIGINT.

    Args:
        app: what `create_app` made.
        port: 0: one that is free.
        ready: called with the address once requests are answered.

    Raises: MachineError when the address cannot be had.
    """
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(kind, socket.SOCK_STREAM) as place:
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            place.bind((host, port))
        except OSError as error:
            raise MachineError(
                f"{host}:{port} cannot be had: {error.strerror}; give another --port or --host"
            ) from None
        config = uvicorn.Config(
            app,
            http=_protocol(limits),
            ws="none",
            lifespan="on",
            log_level="warning",
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=_IDLE_S,
            timeout_graceful_shutdown=limits.drain_s,
            h11_max_incomplete_event_size=2 * limits.header_bytes,
            backlog=2048,
            proxy_headers=False,
        )
        address = f"http://{in_address(host)}:{place.getsockname()[1]}/"
        with warnings.catch_warnings():
            # what people send does not belong in a log
            warnings.simplefilter("ignore", QuotingWarning)
            _Server(config, ready, address, app.state.give_up).run(sockets=[place])


class _Server(uvicorn.Server):
    """Says when it is ready; what is not answered in time after a signal is given up, and told so."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[str], None], address: str, give_up: Callable[[], None]):
        super().__init__(config)
        self._ready, self._address, self._give_up = ready, address, give_up

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready(self._address)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        drain_s = self.config.timeout_graceful_shutdown or 0
        timer = asyncio.get_running_loop().call_later(max(0.0, drain_s - _TOLD_S), self._give_up)
        try:
            await super().shutdown(sockets)
        finally:
            timer.cancel()
        if self.force_exit:
            # the server would leave the application as it is
            self._give_up()
            await self.lifespan.shutdown()


def _protocol(limits: Limits) -> type[H11Protocol]:
    class Impatient(_Impatient):
        wait_s = limits.receive_s
        line = Line()

    return Impatient


class Line:
    """Does one thing after another, one in each round of the event loop: what comes beside them is not behind."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def add(self, work: Callable[[], None]) -> None:
        """Puts work at the end."""
        self._waiting.append(work)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._waiting[0]()
        self._waiting.popleft()
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next)


class _Impatient(H11Protocol):
    """Closes a connection whose next request does not arrive, or whose answer is not taken, in time.

    The time of the body is the guard's: here are the headers, which no application sees before they are whole.
    Requests for work stand in line, so that a crowd of them does not keep anybody from asking for the health.
    """

    wait_s: float
    line: Line
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        if self._timer is None and self._idle():
            self._wait()
        if data.startswith(b"POST "):
            self.transport.pause_reading()
            self.line.add(lambda: self._received(data))
        else:
            self._received(data)

    def _received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self.transport.resume_reading()
        super().data_received(data)
        if not self._idle():
            self._stop()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop()
        self._timer = self.loop.call_later(self.wait_s, self.transport.abort)

    def resume_writing(self) -> None:
        self._stop()
        super().resume_writing()

    def _idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _wait(self) -> None:
        self._timer = self.loop.call_later(self.wait_s, self._late)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        if self._idle():
            self.transport.abort()
