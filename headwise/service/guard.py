"""Checks before the routes: hosts, sizes and times of requests; headers of every response."""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from contextlib import suppress
from typing import Any

from fastapi import Request, Response

from headwise.service.limits import LOOK_S, Limits
from headwise.service.problems import MEDIA_TYPE, Problem

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_CLOSE = {"Connection": "close"}
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
# sites whose frames may show the pages: none, or notebooks of this machine
NO_FRAMES, NOTEBOOKS = "'none'", "http://127.0.0.1:* http://localhost:* vscode-webview:"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors {frames}"
)
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_log = logging.getLogger("headwise.service")


class Guard:
    """Refuses what is too large, too slow, from elsewhere or not JSON, before the routes see it.

    Args:
        hosts: names by which the service may be called, without a port.
        frames: sites whose frames may show the pages, as Content-Security-Policy names them.
    """

    def __init__(self, app: App, limits: Limits, hosts: Collection[str] = LOOPBACK, frames: str = NO_FRAMES):
        self._app, self._limits, self._hosts = app, limits, {host.lower() for host in hosts}
        self._headers = [(b"content-security-policy", _POLICY.format(frames=frames).encode()), *_HEADERS]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            # nothing here speaks over sockets
            await send({"type": "websocket.close", "code": 1008})
            return
        started = False

        async def with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message = {**message, "headers": [*message.get("headers", []), *self._headers]}
            await send(message)

        try:
            self._check(scope)
            body = await self._body(scope, receive)
            await self._app(scope, _replayed(body, receive), with_headers)
        except Problem as problem:
            await _answer(problem, with_headers)
        except asyncio.CancelledError:
            # the server cuts off what is not done when it ends, which is no fault to be logged
            if not started:
                await _answer(Problem(503, "the service ends"), with_headers)
        except Exception:
            number = secrets.token_hex(4)
            _log.exception("request %s failed", number)
            if started:
                raise
            await _answer(Problem(500, f"something went wrong; the log has it under {number}"), with_headers)

    def _check(self, scope: Scope) -> None:
        headers = scope["headers"]
        size = sum(len(name) + len(value) for name, value in headers)
        if len(headers) > self._limits.headers or size > self._limits.header_bytes:
            raise Problem(431, "the headers are too many or too large")
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) != 1 or _name_of(hosts[0]) not in self._hosts:
            raise Problem(400, "the host is not one of this service", "start it with --allowed-host NAME")
        if scope["method"] != "POST":
            return
        values = dict(headers)
        if values.get(b"sec-fetch-site", b"same-origin") not in (b"same-origin", b"none"):
            raise Problem(403, "requests from pages of other sites are not answered")
        origin = values.get(b"origin")
        if origin is not None and origin.partition(b"://")[2] != hosts[0]:
            raise Problem(403, "requests from pages of other sites are not answered")
        kind = values.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != b"application/json":
            raise Problem(415, "the body must be JSON", "send it with Content-Type: application/json")

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared[:19]) > self._limits.body_bytes:
            raise Problem(413, f"the body is larger than {self._limits.body_bytes:,} bytes", headers=_CLOSE)
        body = bytearray()
        for seconds in (self._limits.receive_s, LOOK_S):
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._read(receive, body)
                    return bytes(body)
        raise Problem(408, "the body did not arrive in time", headers=_CLOSE)

    async def _read(self, receive: Receive, body: bytearray) -> None:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Problem(400, "the client left")
            body += message.get("body", b"")
            if len(body) > self._limits.body_bytes:
                raise Problem(413, f"the body is larger than {self._limits.body_bytes:,} bytes", headers=_CLOSE)
            if not message.get("more_body"):
                return


class Straight:
    """Hands a request for work to its handler past all that stands around the routes, which would cost more than it.

    Args:
        posts: handlers by address; they raise `Problem` alone.
    """

    def __init__(self, app: App, posts: Mapping[str, Callable[[Request], Awaitable[Response]]]):
        self._app, self._posts = app, posts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._posts.get(scope["path"]) if scope.get("method") == "POST" else None
        if answer is None:
            await self._app(scope, receive, send)
        else:
            response = await answer(Request(scope, receive, send))
            await response(scope, receive, send)


def in_address(host: str) -> str:
    """A host as an address has it: that of IPv6 in brackets.

    >>> in_address("::1"), in_address("localhost")
    ('[::1]', 'localhost')
    """
    return f"[{host}]" if ":" in host else host


async def _answer(problem: Problem, send: Send) -> None:
    body = problem.body()
    headers = {"content-type": MEDIA_TYPE, "content-length": str(len(body)), "cache-control": "no-store"}
    headers |= {name.lower(): value for name, value in problem.headers.items()}
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Gives the body that was read, then whatever else comes: that the client has left."""
    delivered = False

    async def replay() -> Message:
        nonlocal delivered
        if delivered:
            return await receive()
        delivered = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _name_of(host: bytes) -> str:
    """The host without its port; empty for what is no host."""
    text = host.decode("latin-1").lower()
    name, bracket, port = text.rpartition("]") if text.startswith("[") else text.partition(":")
    if bracket == "]":
        name, port = f"{name}]", port.removeprefix(":") if port.startswith(":") else port and "?"
    return name if not port or port.isdigit() else ""
