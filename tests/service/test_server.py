"""A service as a process of its own: it says where it listens, closes what is slow, and ends when it is told."""

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import contextmanager

import pytest

pytestmark = pytest.mark.slow


@contextmanager
def process(*arguments):
    command = [sys.executable, "-m", "headwise", "serve", *map(str, arguments), "--port", "0", "--threads", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as found:
        try:
            lines = []
            for line in found.stdout:
                lines.append(line)
                if line.startswith("listening at "):
                    break
            yield found, lines, int(line.rstrip("/\n").rpartition(":")[2])
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
    assert f"127.0.0.1:{port} cannot be had: Address already in use; give another --port or --host" in found.stderr
