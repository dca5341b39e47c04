"""The process that listens; after a signal it finishes the requests it has."""

import asyncio
import socket
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import uvicorn
from fastapi import FastAPI

from headwise.errors import MachineError, QuotingWarning
from headwise.service.connections import Connection, Line
from headwise.service.guard import in_address
from headwise.service.limits import Limits

_IDLE_S = 5
# before answers are cut off, what makes them is told to end, so that it can be said
_TOLD_S = 1.0


def listen(app: FastAPI, limits: Limits, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Answers until SIGINT or SIGTERM; then finishes what is asked, for a few seconds, or not after a second SIGINT.

    Args:
        port: 0: one that is free.
        ready: called with the address once requests are answered.

    Raises: MachineError when the address cannot be had.
    """
    with warnings.catch_warnings():
        # what people send does not belong in a log
        warnings.simplefilter("ignore", QuotingWarning)
        Listener(app, limits, host, port, ready).run()


class Listener:
    """An address that is bound, and answered while `run` runs: in the main thread until a signal, in any until `stop`.

    Args as for `listen`, which it raises as.
    """

    def __init__(self, app: FastAPI, limits: Limits, host: str, port: int, ready: Callable[[str], None]):
        kind = socket.AF_INET6 if ":" in host else socket.AF_INET
        # asyncio sends at once only what it sends over a socket whose protocol is named; else an answer waits 40 ms
        self._socket = socket.socket(kind, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
        except OSError as error:
            self._socket.close()
            raise MachineError(f"{host}:{port} cannot be had: {error.strerror}; change --port or --host") from None
        line = Line()
        config = uvicorn.Config(
            app,
            http=_protocol(limits, line),
            ws="none",
            loop="asyncio",
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
        self.address = f"http://{in_address(host)}:{self._socket.getsockname()[1]}/"
        self._server = _Server(config, line, self.address, ready, app.state.give_up)

    def run(self) -> None:
        with self._socket:
            self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """Ends `run`, which then finishes what is asked."""
        self._server.should_exit = True


class _Server(uvicorn.Server):
    """Says when it is ready; what is not answered in time after a signal is given up, and told so."""

    def __init__(
        self,
        config: uvicorn.Config,
        line: Line,
        address: str,
        ready: Callable[[str], None],
        give_up: Callable[[], None],
    ):
        super().__init__(config)
        self._line, self._address, self._ready, self._ended = line, address, ready, give_up

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready(self._address)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        drain_s = self.config.timeout_graceful_shutdown or 0
        timer = asyncio.get_running_loop().call_later(max(0.0, drain_s - _TOLD_S), self._give_up)
        try:
            await self._close_door(sockets or [])
            await super().shutdown(sockets)
        finally:
            timer.cancel()
        if self.force_exit:
            # the server would leave the application as it is
            self._give_up()
            await self.lifespan.shutdown()

    def _give_up(self) -> None:
        self._ended()
        # each is told that it is too late
        self._line.empty()

    async def _close_door(self, sockets: Sequence[socket.socket]) -> None:
        """Lets nobody in but those who are connected, and reads what they have sent."""
        loop = asyncio.get_running_loop()
        for place in sockets:
            with suppress(NotImplementedError):
                loop.remove_reader(place)
        # those who were let in before have their connection now
        await asyncio.sleep(0)
        waiting = [client for place in sockets for client in _waiting(place)]
        for server in self.servers:
            server.close()
        await asyncio.gather(*(loop.connect_accepted_socket(self._connection, client) for client in waiting))
        for _ in range(3):
            await asyncio.sleep(0)

    def _connection(self) -> asyncio.Protocol:
        kind = self.config.http_protocol_class
        protocol: asyncio.Protocol = kind(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )  # type: ignore[call-arg]
        return protocol


def _protocol(limits: Limits, line: Line) -> type[Connection]:
    return type("Connection", (Connection,), {"wait_s": limits.receive_s, "line": line})


def _waiting(place: socket.socket) -> Iterator[socket.socket]:
    """Those who are connected, but not let in yet."""
    place.setblocking(False)
    # nobody more is there, or can be had
    with suppress(OSError):
        while True:
            yield place.accept()[0]
