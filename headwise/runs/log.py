"""The events of a run as one stream: to metrics.jsonl, log.txt, the display, trackers and other listeners."""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from headwise.files import json_text
from headwise.runs.commits import commit_file
from headwise.runs.display import Display
from headwise.runs.reading import open_regular

METRICS = "metrics.jsonl"
TEXT = "log.txt"
TIMING = "timing"
# the events of the curves of a run; a run of the same recipe and data repeats them, except for their timing
NUMBERED = ("data", "step", "validation", "skipped")

Event = dict[str, Any]
OnEvent = Callable[[Event], None]


@runtime_checkable
class Listener(Protocol):
    """Takes the events of a run; `event` is the kind: data, step, validation, skipped, checkpoint, average or note."""

    def take(self, event: Event) -> None: ...

    def sync(self) -> None:
        """Makes the events so far survive a power failure, as far as the listener can."""

    def close(self) -> None: ...


class RunLog:
    """Hands every event to the files of the run folder, the display and the listeners.

    A line of metrics.jsonl depends on recipe and data alone, except for its `timing`. Lines that the disk refuses are
    written when it takes them again.

    Args:
        run: its folder; None: no files, as in the processes beside the first.
        listeners: such as trackers; one that fails is reported and left out from then on.
        on_event: called with every event; its exception ends the run.
    """

    def __init__(
        self, run: Path | None, display: Display, *, listeners: Iterable[Listener] = (), on_event: OnEvent | None = None
    ) -> None:
        self.display = display
        self._metrics = _Lines(None if run is None else run / METRICS)
        self._text = _Lines(None if run is None else run / TEXT)
        self._listeners = list(listeners)
        self._on_event = on_event

    def emit(self, event: Event) -> None:
        """Hands on an event. Numbers that are not finite become null in metrics.jsonl, since JSON has none."""
        if event["event"] in NUMBERED:
            self._metrics.add(json_text(event))
        self._notify(lambda listener: listener.take(event))
        if self._on_event is not None:
            self._on_event(event)

    def note(self, text: str) -> None:
        """A text for people: a line of log.txt, with the time, and of the display."""
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        for line in text.splitlines():
            self._text.add(f"{stamp}  {line}")
        self.display.line(text)
        self.emit({"event": "note", "text": text})

    def sync(self) -> None:
        """Makes the lines so far survive a power failure; called before the checkpoint that follows them."""
        self._metrics.sync()
        self._notify(lambda listener: listener.sync())

    def close(self) -> None:
        self._notify(lambda listener: listener.close())
        self.display.close()
        self._metrics.close()
        self._text.close()

    def _notify(self, call: Callable[[Listener], None]) -> None:
        for listener in list(self._listeners):
            try:
                call(listener)
            except Exception as error:
                # a service out of reach is no reason to lose a training
                self._listeners.remove(listener)
                self.note(f"{listener} gets no more events: {type(error).__name__}: {str(error)[:200]}")


def truncate_metrics(run: Path, step: int) -> None:
    """Drops the lines of metrics.jsonl after `step`, and an incomplete last one, so that a resumed run repeats none.

    Raises: CheckpointError if it is no regular file.
    """
    path = run / METRICS
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return
    # after the last line end there is an incomplete line, or nothing
    complete = lines[:-1]
    lines_until = [line for line in complete if (of_line := _step_of(line)) is not None and of_line <= step]
    if lines_until != complete or lines[-1]:
        commit_file(path, b"".join(line + b"\n" for line in lines_until))


def read_metrics(run: Path) -> list[Event]:
    path = run / METRICS
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line] if path.exists() else []


class _Lines:
    """A text file that lines are appended to at once; bytes that the disk refuses are written with the next line.

    Raises: CheckpointError if it is no regular file.
    """

    def __init__(self, path: Path | None) -> None:
        new = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._handle = os.open(os.devnull, os.O_WRONLY) if path is None else open_regular(path, new)
        self._waiting = b""

    def add(self, line: str) -> None:
        self._waiting += line.encode("utf-8", "backslashreplace") + b"\n"
        self._flush()

    def sync(self) -> None:
        self._flush()
        with contextlib.suppress(OSError):
            os.fsync(self._handle)

    def close(self) -> None:
        self._flush()
        os.close(self._handle)

    def _flush(self) -> None:
        try:
            while self._waiting:
                self._waiting = self._waiting[os.write(self._handle, self._waiting) :]
        except OSError:
            return


def _step_of(line: bytes) -> int | None:
    try:
        step = json.loads(line).get("step")
    except (ValueError, AttributeError, RecursionError):
        return None
    return step if isinstance(step, int) else None
