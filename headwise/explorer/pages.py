"""The files of the explorer's pages, by name: a list made at the start, so that no request reaches another file."""

import gzip
import hashlib
from collections.abc import Awaitable, Callable
from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI, HTTPException, Request, Response

from headwise.explain.ramps import CONTROLS, LINES, PALETTE, hexadecimal
from headwise.service.app import Service
from headwise.service.responses import as_json

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}


def add_pages(app: FastAPI, service: Service) -> None:
    """Adds the pages to a service: `/` and what it loads from `/static`."""
    folder = Path(str(files("headwise.explorer") / "static"))
    paths = [path for path in sorted(folder.rglob("*")) if path.suffix[1:] in _TYPES]
    served = {path.relative_to(folder).as_posix(): _served(path) for path in paths}

    app.add_api_route("/", served["index.html"], include_in_schema=False)

    # one route for all, which are too many to be tried one by one
    @app.get("/static/{name:path}", include_in_schema=False)
    async def static(name: str, request: Request) -> Response:
        if name not in served:
            raise HTTPException(404)
        return await served[name](request)

    colours = {name: hexadecimal(name) for name in CONTROLS} | {"palette": PALETTE}
    colours |= {f"lines {scheme}": lines for scheme, lines in LINES.items()}

    @app.get("/api/v1/ramps")
    async def ramps() -> Response:
        """Ramps of 256 colours by name; eight colours of fills, "palette", of lines, "lines light" and "lines dark"."""
        return as_json(colours)


def _served(path: Path) -> Callable[[Request], Awaitable[Response]]:
    content = path.read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    kind = f"{_TYPES[path.suffix[1:]]}; charset=utf-8"
    packed = gzip.compress(content, mtime=0)

    async def serve(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(packed, headers=headers | {"Content-Encoding": "gzip"}, media_type=kind)
        return Response(content, headers=headers, media_type=kind)

    return serve
