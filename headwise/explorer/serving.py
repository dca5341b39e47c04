"""The application of the explorer, and a server of it beside a program: its address, its frame in a notebook."""

import html
import threading
from collections.abc import Callable, Collection, Mapping, Sequence

from fastapi import FastAPI

from headwise.errors import MachineError
from headwise.explorer.api import add_explorer
from headwise.explorer.films import add_films
from headwise.explorer.inputs import BODY_BYTES
from headwise.explorer.pages import add_pages
from headwise.explorer.reports import Report, report_routes
from headwise.service.app import Service, create_app
from headwise.service.guard import LOOPBACK, NO_FRAMES
from headwise.service.limits import Limits
from headwise.service.loaded import LoadedRun
from headwise.service.server import Listener

_FRAME = '<iframe title="Headwise" src="{address}" width="100%" height="{height}" style="border:0"></iframe>'
_START_S, _STOP_S = 30.0, 10.0
# a long input has up to eight characters a token, and its model takes its time
LIMITS = Limits(body_bytes=BODY_BYTES, chars=8 * Limits().shown_tokens, deadline_s=120.0)


def explorer_app(
    runs: Mapping[str, LoadedRun],
    *more: Callable[[FastAPI, Service], None],
    frames: str = NO_FRAMES,
    reports: Sequence[Report] = (),
) -> FastAPI:
    """The application that shows these runs, answering within `LIMITS`.

    Args:
        more: what adds further routes.
        frames: sites whose frames may show its pages, as in `Guard`.
        reports: of comparisons and of costs, which Compare shows.
    """
    for run in runs.values():
        if (engines := run.predictor.engines()) is not None:
            # no other engine shows its beams
            engines.instead = "headwise"
    shown = report_routes(reports)
    parts: Collection[Callable[[FastAPI, Service], None]] = (add_explorer, add_films, shown, *more, add_pages)
    return create_app(runs, LIMITS, LOOPBACK, parts, frames)


class Exploration:
    """An explorer that is served at `address`, on this machine alone, until `close`; a notebook shows it in a frame.

    It is closed at the end of a `with` block, too.

    Args:
        height: of the frame, in pixels.
        closed: called once it is closed.
    """

    def __init__(self, app: FastAPI, port: int, height: int, closed: Callable[[], None]):
        started = threading.Event()
        self._listener = Listener(app, LIMITS, "127.0.0.1", port, lambda _: started.set())
        self._closed, self._height = closed, height
        self._thread = threading.Thread(target=self._listener.run, name="headwise explorer", daemon=True)
        self._thread.start()
        if not started.wait(_START_S):
            self._listener.stop()
            raise MachineError(f"the explorer did not start within {_START_S:g} s")

    @property
    def address(self) -> str:
        return self._listener.address

    def wait(self) -> None:
        """Returns when it is closed; Ctrl+C closes it."""
        try:
            self._thread.join()
        except KeyboardInterrupt:
            self.close()

    def close(self) -> None:
        """Ends the server, and gives a model that was adopted for it its own attention back."""
        self._listener.stop()
        self._thread.join(_STOP_S)
        self._closed()

    def __enter__(self) -> "Exploration":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Exploration({self.address!r})"

    def _repr_html_(self) -> str:
        return _FRAME.format(address=html.escape(self.address), height=self._height)
