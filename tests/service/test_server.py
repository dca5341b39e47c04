"""A service as a process of its own: it says where it listens, closes what is slow, and ends when it is told."""

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack, contextmanager

import pytest

pytestmark = pytest.mark.slow


HEAD = "POST /api/v1/{} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"


@contextmanager
def process(*arguments, verb="serve", errors=None):
    command = [sys.executable, "-m", "headwise", verb, *map(str, arguments), "--port", "0", "--threads", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as found:
        try:
            lines = []
            for line in found.stdout:
                lines.append(line)
                if " at http://" in line:
                    break
            yield found, lines, int(line.partition("/;")[0].rstrip("/\n").rpartition(":")[2])
        finally:
            found.kill()


def test_it_answers_and_ends(folders):
    with process(*folders) as (found, lines, port):
        assert lines[0] == "german: task translate, POST /api/v1/translate\n"
        url = f"http://127.0.0.1:{port}/api/v1/classify"
        asked = urllib.request.Request(url, b'{"texts": ["good"]}', {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked, timeout=60) as answer:
            assert json.load(answer)["outputs"][0]["text"] == "good"
        # a connection that is held open does not keep it
        with socket.create_connection(("127.0.0.1", port)):
            found.send_signal(signal.SIGTERM)
            assert found.wait(60) in (0, 143)


def test_what_never_ends_is_closed(folders):
    with process(folders[1], "--set", "receive_s=0.2") as (_, _, port):
        for first in (b"", b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"):
            with socket.create_connection(("127.0.0.1", port), timeout=60) as held:
                held.sendall(first)
                assert held.recv(4096) == b""
        head = b"POST /api/v1/classify HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        with socket.create_connection(("127.0.0.1", port), timeout=60) as held:
            held.sendall(head + b"Content-Length: 99\r\n\r\n{")
            assert held.recv(4096).startswith(b"HTTP/1.1 408 ")


def test_an_address_that_is_taken_is_said(folders):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "headwise", "serve", str(folders[1]), "--port", str(port)]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 5
    assert f"127.0.0.1:{port} cannot be had: Address already in use; change --port or --host" in found.stderr


def asked(port, path, values):
    """A connection on which a request is sent."""
    body = json.dumps(values).encode()
    held = socket.create_connection(("127.0.0.1", port), timeout=60)
    held.sendall(HEAD.format(path, len(body)).encode() + body)
    return held


def answered(held):
    """The status of an answer, and its body with the sizes of its parts between; read to the end."""
    told = b"".join(iter(lambda: held.recv(65536), b""))
    head, _, body = told.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def test_whoever_has_asked_when_a_signal_comes_is_answered_though_nobody_has_looked(folders):
    with ExitStack() as held:
        process_, _, port = held.enter_context(process(*folders))
        early = [held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60)) for _ in range(20)]
        # all of them wait in sockets, and most for a connection, when the signal is told
        process_.send_signal(signal.SIGSTOP)
        late = [held.enter_context(asked(port, "classify", {"texts": ["good"]})) for _ in range(180)]
        for one in early:
            one.sendall(HEAD.format("classify", 19).encode() + b'{"texts": ["good"]}')
        process_.send_signal(signal.SIGTERM)
        process_.send_signal(signal.SIGCONT)
        statuses = [answered(one)[0] for one in (*early, *late)]
        assert process_.wait(60) == 143
    assert set(statuses) <= {200, 429, 503}
    assert 200 in statuses


def test_a_pause_of_the_service_closes_nobody_who_has_asked(folders):
    with ExitStack() as held:
        process_, _, port = held.enter_context(process(folders[1], "--set", "receive_s=1.0"))
        early = [held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60)) for _ in range(50)]
        process_.send_signal(signal.SIGSTOP)
        for one in early:
            one.sendall(HEAD.format("classify", 19).encode() + b'{"texts": ["good"]}')
        time.sleep(1.5)
        process_.send_signal(signal.SIGCONT)
        for one in early:
            one.shutdown(socket.SHUT_WR)
        assert {answered(one)[0] for one in early} <= {200, 429}


@pytest.mark.parametrize(
    ("verb", "signals", "codes"),
    [
        ("serve", [signal.SIGTERM], {143}),
        ("serve", [signal.SIGTERM, signal.SIGINT], {130, 143}),
        ("explore", [signal.SIGINT], {130}),
        ("explore", [signal.SIGINT, signal.SIGINT], {130}),
    ],
    ids=str,
)
def test_a_signal_lets_answers_out_and_tells_of_those_it_ends(folders, tmp_path, verb, signals, codes):
    limits = ["--set", "drain_s=3"] if verb == "serve" else ["--no-browser"]
    with ExitStack() as held:
        errors = held.enter_context(open(tmp_path / "errors.txt", "w"))
        process_, _, port = held.enter_context(process(*folders, *limits, verb=verb, errors=errors))

        def sent(path, values):
            return held.enter_context(asked(port, path, values))

        long = {"model": "text", "texts": ["abc"], "stream": True, "options": {"max_len": 512, "method": "sample"}}
        streams = [sent("complete", long) for _ in range(12)]
        # a stream that is under way: the service is at work
        first = streams[0].recv(4096)
        short = [sent("classify", {"texts": ["good"]}) for _ in range(8)]
        if verb == "explore":
            short += [sent("traces", {"model": "german", "text": "a and g ."}) for _ in range(8)]
        half = held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
        half.sendall(HEAD.format("classify", 99).encode() + b"{")
        # who comes later is answered later, so all of these have come in
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=60) as health:
            assert json.load(health)["status"] == "ok"
        for number in signals:
            process_.send_signal(number)
            time.sleep(0.3)
        assert process_.wait(60) in codes
        assert first.startswith(b"HTTP/1.1 200 ")
        statuses = [status for status, _ in map(answered, short)]
        ends = [body for _, body in map(answered, streams[1:])]
        of_half = answered(half)[0]
    assert set(statuses) <= {200, 201, 503}
    # a request that nothing is said of would be cut off; of a stream the last line says how it ended
    assert all(b'{"output"' in body or b'{"error"' in body or b'"status": 503' in body for body in ends)
    assert of_half == 503
    assert "Traceback" not in (tmp_path / "errors.txt").read_text()
