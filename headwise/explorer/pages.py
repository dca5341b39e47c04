"""The files of the explorer's pages, by name: a list made at the start, so that no request reaches another file."""

import hashlib
from collections.abc import Awaitable, Callable
from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI, Request, Response

from headwise.explain.ramps import CONTROLS, LINES, PALETTE, hexadecimal
from headwise.service.app import Service
from headwise.service.responses import as_json

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}


def add_pages(app: FastAPI, service: Service) -> None:
    """Adds the pages to a service: `/` and what it loads from `/static`."""
    folder = Path(str(files("headwise.explorer") / "static"))
    paths = [path for path in sorted(folder.rglob("*")) if path.suffix[1:] in _TYPES]
    contents = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}

    @app.get("/", include_in_schema=False)
    async def index(request: Request) -> Response:
        return _file(request, "index.html", contents["index.html"])

    for name, content in contents.items():
        app.add_api_route(f"/static/{name}", _served(name, content), include_in_schema=False)

    colours = {name: hexadecimal(name) for name in CONTROLS} | {"palette": PALETTE}
    colours |= {f"lines {scheme}": lines for scheme, lines in LINES.items()}

    @app.get("/api/v1/ramps")
    async def ramps() -> Response:
        """Ramps of 256 colours by name; eight colours of fills, "palette", of lines, "lines light" and "lines dark"."""
        return as_json(colours)


def _served(name: str, content: bytes) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        return _file(request, name, content)

    return serve


def _file(request: Request, name: str, content: bytes) -> Response:
    tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    kind = _TYPES[name.rpartition(".")[2]]
    return Response(content, headers=headers, media_type=f"{kind}; charset=utf-8")
