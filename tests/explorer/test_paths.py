"""Addresses that try to leave what is served: none of them is there, whatever it is joined to."""

import asyncio
from importlib.resources import files
from urllib.parse import unquote

import pytest

from headwise.explorer.api import add_explorer
from headwise.explorer.films import add_films
from headwise.explorer.pages import add_pages
from headwise.service.app import create_app

CSS = (files("headwise.explorer") / "static" / "css" / "app.css").read_bytes()
UP = [
    "..",
    "%2e%2e",
    "%2E%2e",
    ".%2e",
    "%252e%252e",
    "%25252e%25252e",
    "%c0%ae%c0%ae",
    "%e0%80%ae%e0%80%ae",
    "....",
    ".. ",
    "..;",
]
SLASHES = ["/", "%2f", "%252f", "%5c", "%c0%af"]
CLIMBING = [f"{up}{slash}{up}{slash}etc{slash}passwd" for up in UP for slash in SLASHES]
OTHER = [
    "%2fetc%2fpasswd",
    "%252fetc%252fpasswd",
    "%5c%5chost%5cshare",
    "%2f%2fhost%2fshare",
    "C:%5cWindows%5cwin.ini",
    "file:%2f%2f%2fetc%2fpasswd",
    "css/app.css%00",
    "css/app.css%00.png",
    "css/app.css.",
    "css/app.css%20",
    "css/APP.CSS",
    "css/app.css::$DATA",
    "css%5capp.css",
    "css/app.css/",
    "css//app.css",
    "%ff%fe",
    "%u002e%u002e%u2215etc",
]


@pytest.fixture(scope="module")
def ask():
    """Asks for an address as a server hands it over, with nothing made simpler: (status, body)."""
    app = create_app({}, more=[add_explorer, add_films, add_pages])

    def asked(target):
        told, given = [], [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive():
            # then the client stays, and says nothing
            return given.pop() if given else await asyncio.Event().wait()

        async def send(message):
            told.append(message)

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": unquote(target),
            "raw_path": target.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(b"host", b"127.0.0.1")],
            "client": ("127.0.0.1", 5),
            "server": ("127.0.0.1", 8000),
        }
        asyncio.run(app(scope, receive, send))
        return told[0]["status"], b"".join(message.get("body", b"") for message in told)

    yield asked
    app.state.give_up()


def test_what_is_served_is_there(ask):
    assert ask("/static/css/app.css") == (200, CSS)
    assert ask("/")[0] == 200


@pytest.mark.parametrize("path", CLIMBING + OTHER)
def test_no_address_leaves_what_is_served(ask, path):
    for base in ("/", "/static/", "/static/css/", "/api/v1/", "/api/v1/traces/", "/api/v1/films/"):
        status, body = ask(base + path)
        assert status in (400, 404), base
        assert b"root:" not in body
        assert body != CSS
