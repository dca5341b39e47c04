"""Whoever has sent a whole request is answered: in a line, a pipeline, half a connection, and when the server ends."""

import asyncio
import logging
import socket
import threading
import urllib.request
from contextlib import asynccontextmanager

import pytest
import uvicorn
from uvicorn.server import ServerState

from headwise.service import connections
from headwise.service.app import create_app
from headwise.service.connections import Connection, Line, Patience
from headwise.service.limits import LOOK_S, Limits
from headwise.service.server import Listener, _protocol

HEAD = b"POST /%s HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n%s\r\n"
CLOSE = b"Connection: close\r\n"


def asked(path, more=b""):
    return HEAD % (path, more) + b"{}"


class Turned:
    """An event loop whose clock is turned by hand."""

    def __init__(self):
        self.now, self.timers = 0.0, []

    def time(self):
        return self.now

    def call_later(self, after, work):
        timer = asyncio.TimerHandle(self.now + after, work, (), self)
        self.timers.append(timer)
        return timer

    def _timer_handle_cancelled(self, timer):
        self.timers.remove(timer)

    def get_debug(self):
        return False

    def turn(self, seconds):
        self.now += seconds
        for timer in [timer for timer in self.timers if timer.when() <= self.now]:
            self.timers.remove(timer)
            timer._run()


@pytest.mark.usefixtures("untyped")
def test_only_the_time_of_waiting_counts():
    loop, late = Turned(), []
    patience = Patience(loop, 8.0, lambda: late.append(loop.now))
    patience.wait()
    loop.turn(5)
    patience.stop()
    loop.turn(100)
    patience.wait()
    loop.turn(2.9)
    patience.wait()
    assert loop.timers
    loop.turn(0.2)
    # what came while nobody looked is read first
    assert late == []
    loop.turn(LOOK_S)
    assert len(late) == 1
    assert not loop.timers


@pytest.mark.usefixtures("untyped")
def test_a_last_look_is_had_once_however_often_a_little_comes():
    loop, late = Turned(), []
    patience = Patience(loop, 8.0, lambda: late.append(loop.now))
    patience.wait()
    loop.turn(8)
    for _ in range(4):
        assert late == []
        loop.turn(LOOK_S / 4)
        patience.stop()
        patience.wait()
    loop.turn(0)
    assert late == [8 + LOOK_S]
    patience.renew()
    patience.wait()
    loop.turn(7.9)
    assert len(late) == 1


class Held(Line):
    """A line that moves when it is told."""

    def add(self, work):
        self._waiting.append(work)


class Served:
    """Connections to an application that answers with the path, at `/later` once it is told."""

    def __init__(self, line):
        self.line, self.later, self.left = line, asyncio.Event(), asyncio.Event()
        config = uvicorn.Config(
            self.app,
            http=_protocol(Limits(receive_s=60), line),
            ws="none",
            interface="asgi3",
            lifespan="off",
            log_config=None,
        )
        config.load()
        self.state = ServerState()
        self.made = lambda: config.http_protocol_class(config=config, server_state=self.state, app_state={})

    async def app(self, scope, receive, send):
        while (await receive()).get("more_body"):
            pass
        path = scope["path"][1:].encode()
        if path == b"later":
            waits = [asyncio.create_task(self.later.wait()), asyncio.create_task(receive())]
            done, _ = await asyncio.wait(waits, return_when="FIRST_COMPLETED")
            if waits[1] in done:
                self.left.set()
            waits[1].cancel()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(path))]})
        await send({"type": "http.response.body", "body": path})

    @asynccontextmanager
    async def client(self):
        with socket.create_server(("127.0.0.1", 0)) as place:
            own = socket.create_connection(place.getsockname())
            theirs = place.accept()[0]
        await asyncio.get_running_loop().connect_accepted_socket(self.made, theirs)
        reader, writer = await asyncio.open_connection(sock=own)
        yield reader, writer
        writer.close()

    async def until(self, done):
        while not done():
            await asyncio.sleep(0)

    def protocol(self):
        (found,) = self.state.connections
        return found

    def end(self):
        for one in list(self.state.connections):
            one.shutdown()


def trial(work, line=None):
    async def all_of_it():
        served = Served(line or Line())
        async with asyncio.timeout(60), served.client() as (reader, writer):
            await work(served, reader, writer)

    asyncio.run(all_of_it())


def test_nobody_is_closed_who_stands_in_line():
    line = Held()

    async def work(served, reader, writer):
        writer.write(asked(b"first"))
        await served.until(lambda: line._waiting)
        one = served.protocol()
        # neither is waited for: the bytes are here
        assert one._head._timer is None
        assert one.timeout_keep_alive_task is None
        line.empty()
        assert (await reader.readuntil(b"first")).startswith(b"HTTP/1.1 200 ")
        # that of a connection that is kept ends with the first bytes, though they stand in line
        assert one.timeout_keep_alive_task is not None
        writer.write(asked(b"second"))
        await served.until(lambda: line._waiting)
        assert one.timeout_keep_alive_task is None
        line.empty()
        await reader.readuntil(b"second")

    trial(work, line)


def test_an_answer_before_it_does_not_close_who_stands_in_line():
    line = Held()

    async def work(served, reader, writer):
        writer.write(b"GET /later HTTP/1.1\r\nHost: a\r\n\r\n")
        await served.until(lambda: served.protocol().cycle)
        writer.write(asked(b"second"))
        await served.until(lambda: line._waiting)
        served.later.set()
        await reader.readuntil(b"later")
        assert served.protocol().timeout_keep_alive_task is None
        served.end()
        line.empty()
        assert b"HTTP/1.1 200 " in await reader.readuntil(b"second")
        assert await reader.read() == b""

    trial(work, line)


def test_a_line_goes_on_past_what_goes_wrong():
    async def crowd():
        done, line = [], Line()
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        line.add(lambda: 1 / 0)
        line.add(lambda: done.append(1))
        for _ in range(5):
            await asyncio.sleep(0)
        line.add(lambda: done.append(2))
        for _ in range(5):
            await asyncio.sleep(0)
        return done

    assert asyncio.run(crowd()) == [1, 2]


@pytest.mark.parametrize("line", [Held, Line])
@pytest.mark.parametrize("more", [b"", CLOSE])
def test_a_server_that_ends_answers_what_has_come(line, more):
    one = line()

    async def work(served, reader, writer):
        writer.write(asked(b"asked", more))
        await served.until(lambda: one._waiting or (served.protocol().cycle is not None))
        served.end()
        one.empty()
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.count(b"onnection: close\r\n") + answer.count(b"onnection: Close\r\n") == 1

    trial(work, one)


def test_a_server_that_ends_answers_every_request_of_a_pipeline():
    async def work(served, reader, writer):
        writer.write(asked(b"later") + asked(b"second") + asked(b"third", CLOSE))
        await served.until(lambda: served.protocol().cycle)
        served.end()
        served.later.set()
        answer = await reader.read()
        assert [answer.count(one) for one in (b"later", b"second", b"third", b"HTTP/1.1 200 ")] == [1, 1, 1, 3]

    trial(work)


def test_a_server_that_ends_waits_a_little_for_the_rest_of_a_head_and_says_so(monkeypatch):
    monkeypatch.setattr(connections, "_ENDING_S", 0.0)
    monkeypatch.setattr(connections, "LOOK_S", 0.0)

    async def half(served, reader, writer):
        writer.write(b"POST /some HTTP/1.1\r\nHo")
        await served.until(lambda: served.protocol().conn.trailing_data[0])
        served.end()
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert answer.endswith(b'"the service ends"}')

    async def nothing(served, reader, writer):
        served.end()
        assert await reader.read() == b""

    trial(half)
    trial(nothing)


def test_a_request_that_comes_when_the_server_has_begun_to_end_is_answered():
    async def work(served, reader, writer):
        served.end()
        writer.write(asked(b"asked"))
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")

    trial(work)


def test_a_connection_that_is_kept_is_closed_when_the_server_ends():
    async def work(served, reader, writer):
        writer.write(asked(b"asked"))
        await reader.readuntil(b"asked")
        served.end()
        assert await reader.read() == b""

    trial(work)


@pytest.mark.parametrize(
    "sent",
    [asked(b"later"), asked(b"later").replace(b"1.1", b"1.0"), asked(b"later").replace(b"POST", b"PUT")],
    ids=["1.1", "1.0", "PUT"],
)
def test_a_client_that_has_ended_its_side_gets_its_answer(monkeypatch, sent):
    monkeypatch.setattr(connections, "_ASKED_S", 0.0)
    monkeypatch.setattr(connections, "_TOLD_S", (0.0,))

    async def work(served, reader, writer):
        writer.write(sent)
        writer.write_eof()
        one = served.protocol()
        await served.until(lambda: one._last)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not served.left.is_set()
        served.later.set()
        answer = await reader.read()
        assert b"HTTP/1.1 200 " in answer
        assert answer.endswith(b"later")

    trial(work)


def test_a_client_that_has_left_is_noticed(monkeypatch):
    monkeypatch.setattr(connections, "_ASKED_S", 0.0)
    monkeypatch.setattr(connections, "_TOLD_S", (0.0,))

    async def work(served, reader, writer):
        writer.write(asked(b"later"))
        await served.until(lambda: served.protocol().cycle)
        writer.close()
        await served.left.wait()

    trial(work)


def test_half_a_request_and_the_end_of_a_client_are_no_request():
    async def work(served, reader, writer):
        writer.write(HEAD % (b"some", b""))
        writer.write_eof()
        assert await reader.read() == b""

    trial(work)


def test_parts_of_requests_that_begin_like_one_stay_in_order():
    async def work(served, reader, writer):
        head = b"POST /chunks HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
        writer.write(head)
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"5\r\n")
        await served.until(lambda: served.protocol().conn.trailing_data[0] == b"")
        writer.write(b"POST \r\n")
        writer.write(b"0\r\n\r\n")
        assert (await reader.readuntil(b"chunks")).startswith(b"HTTP/1.1 200 ")

    trial(work)


def test_whoever_asks_for_another_protocol_is_answered_and_nothing_is_logged(monkeypatch):
    logged = []
    monkeypatch.setattr(logging.getLogger("uvicorn.error"), "handle", logged.append)

    async def work(served, reader, writer):
        for protocol in (b"websocket", b"h2c"):
            writer.write(asked(b"asked", b"Upgrade: " + protocol + b"\r\nConnection: Upgrade\r\n"))
            assert (await reader.readuntil(b"asked")).startswith(b"HTTP/1.1 200 ")

    trial(work)
    assert logged == []


def test_an_answer_does_not_wait_for_what_was_sent_before_it_to_be_acknowledged(monkeypatch):
    told, begun = [], Connection.connection_made

    def seen(self, transport):
        begun(self, transport)
        told.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr(Connection, "connection_made", seen)
    ready = threading.Event()
    listener = Listener(create_app({}), Limits(), "127.0.0.1", 0, lambda _: ready.set())
    serving = threading.Thread(target=listener.run)
    serving.start()
    try:
        assert ready.wait(60)
        with urllib.request.urlopen(f"{listener.address}health", timeout=60) as answer:
            assert answer.status == 200
    finally:
        listener.stop()
        serving.join(60)
    assert told == [1]
