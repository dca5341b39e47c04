"""Connections: a slow one is closed, and every request that arrived whole is answered, at the end too."""

import asyncio
import socket
from collections import deque
from collections.abc import Callable

import h11
from uvicorn.protocols.http.flow_control import CLOSE_HEADER
from uvicorn.protocols.http.h11_impl import H11Protocol

from headwise.service.limits import LOOK_S
from headwise.service.problems import MEDIA_TYPE, Problem

# in which a server that ends waits for a request that has begun to come
_ENDING_S = 1.0
# after which a client that has ended its side is asked whether it is still there, and after which it has told
_ASKED_S, _TOLD_S = 0.25, (0.05, 1.0)
# requests that are read in one round of the event loop
_TOGETHER = 4


class Line:
    """Does one thing after another, a few in each round of the event loop: what comes beside them is not behind."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def add(self, work: Callable[[], None]) -> None:
        self._waiting.append(work)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._next)

    def empty(self) -> None:
        while self._waiting:
            self._waiting.popleft()()

    def _next(self) -> None:
        try:
            for _ in range(min(_TOGETHER, len(self._waiting))):
                self._waiting.popleft()()
        finally:
            # what goes wrong with one keeps nobody
            if self._waiting:
                asyncio.get_running_loop().call_soon(self._next)


class Patience:
    """How long somebody may keep us waiting, all times of waiting together; what lies between these does not count.

    Args:
        late: called when it is over, and a last look has found nothing.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, late: Callable[[], object]):
        self._loop, self._seconds, self._late = loop, seconds, late
        self._timer: asyncio.TimerHandle | None = None
        self.renew()

    def renew(self) -> None:
        """Ends the waiting; next time all of it is there again."""
        self.stop()
        self._left, self._looked = self._seconds, False

    def wait(self) -> None:
        """Begins to wait, or goes on."""
        if self._timer is None:
            self._timer = self._loop.call_later(self._left, self._over)

    def stop(self) -> None:
        """Ends the waiting; next time what is left of it is there."""
        if self._timer is not None:
            self._left = max(0.0, self._timer.when() - self._loop.time())
            self._timer.cancel()
            self._timer = None

    def _over(self) -> None:
        self._timer = None
        if self._looked:
            self._late()
        else:
            self._looked, self._left = True, LOOK_S
            self.wait()


class Connection(H11Protocol):
    """Closes a connection whose next request does not arrive, or whose answer is not taken, in time.

    The time of the body is the guard's: here are the headers, which no application sees before they are whole.
    Requests for work stand in line, so that a crowd of them does not keep anybody from asking for the health.

    Attributes:
        wait_s: seconds in which headers have to arrive, and answers have to be taken.
        line: where all connections stand.
    """

    wait_s: float
    line: Line
    # parts of requests that stand in line
    _standing = 0
    # nothing more is asked for: the client has ended its side, or the server ends
    _last = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head = Patience(self.loop, self.wait_s, transport.abort)
        self._taken = Patience(self.loop, self.wait_s, transport.abort)
        self._head.wait()

    def data_received(self, data: bytes) -> None:
        if self.timeout_keep_alive_task is not None:
            self._unset_keepalive_if_required()
            self._head.renew()
        self._head.stop()
        if self._standing or data.startswith(b"POST "):
            self._standing += 1
            self.transport.pause_reading()
            self.line.add(lambda: self._called(data))
        else:
            self._received(data)

    def _called(self, data: bytes) -> None:
        self._standing -= 1
        if not self._standing and not self.flow.read_paused:
            self.transport.resume_reading()
        self._received(data)

    def _received(self, data: bytes) -> None:
        if not self.transport.is_closing():
            super().data_received(data)
            self._go_on()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._go_on()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Whether the connection stays: a client that has asked may end its side, and wait for the answer."""
        if not self._standing and (self._idle() or self.cycle.more_body):
            return False
        if not self._last:
            self._last = True
            self._go_on()
            self.loop.call_later(_ASKED_S, self._ask)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._head.stop()
        self._taken.stop()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._taken.wait()

    def resume_writing(self) -> None:
        self._taken.renew()
        super().resume_writing()

    def shutdown(self) -> None:
        """Answers what has come, also in part, and closes."""
        self._last = True
        self._head.stop()
        self._head = Patience(self.loop, min(_ENDING_S, self.wait_s), self._refuse)
        self._go_on()

    def _should_upgrade(self) -> bool:
        # nothing else is spoken here; the server would log advice at each request
        return False

    def _idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _go_on(self) -> None:
        """Waits for what is next on this connection; closes it where there is nothing."""
        if self.transport.is_closing():
            return
        begun = bool(self.conn.trailing_data[0])
        if self._standing:
            self._unset_keepalive_if_required()
        elif not self._idle():
            self._head.renew()
            if self._last and not begun and CLOSE_HEADER not in self.cycle.default_headers:
                self.cycle.default_headers = [*self.cycle.default_headers, CLOSE_HEADER]
        elif begun or self.cycle is None or not self._last:
            self._head.wait()
        else:
            self.transport.close()

    def _ask(self) -> None:
        """Says something to a client that has ended its side: if nobody is there, its machine tells so."""
        if self.transport.is_closing() or self._idle() or self.cycle.response_started:
            return
        if self.scope["http_version"] == "1.1":
            going_on = h11.InformationalResponse(status_code=100, headers=[], reason="Continue")
            self.transport.write(self.conn.send(going_on))
            for after in _TOLD_S:
                self.loop.call_later(after, self._abort_on_error)

    def _abort_on_error(self) -> None:
        if self.transport.is_closing():
            return
        sock = self.transport.get_extra_info("socket")
        if sock is not None and sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.transport.abort()

    def _refuse(self) -> None:
        """Ends a connection on which a request has not come to its end, if it has begun."""
        if self.conn.trailing_data[0]:
            body = Problem(503, "the service ends").body()
            headers = [("Content-Type", MEDIA_TYPE), ("Content-Length", str(len(body))), ("Connection", "close")]
            for event in (h11.Response(status_code=503, headers=headers), h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
