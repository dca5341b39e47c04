"""The record of a run: metrics.jsonl (reproducible but for `timing`), log.txt, TensorBoard by choice, the display."""

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from headwise.errors import ConfigError
from headwise.runs.commits import commit_file
from headwise.runs.display import Display

METRICS = "metrics.jsonl"
TEXT = "log.txt"
TIMING = "timing"

Event = dict[str, Any]
OnEvent = Callable[[Event], None]


class RunLog:
    """Writes events where they belong, and tells each to `on_event`.

    A metric line depends on recipe and data alone, except for what stands under `timing`. Lines that the disk refuses
    are kept and written when it takes them again.
    """

    def __init__(self, run: Path, display: Display, *, tensorboard: bool, on_event: OnEvent | None) -> None:
        self.display = display
        self._metrics = _Lines(run / METRICS)
        self._text = _Lines(run / TEXT)
        self._on_event = on_event
        self._board = _board(run) if tensorboard else None

    def metric(self, event: Event) -> None:
        """A line of metrics.jsonl. Numbers that are not finite become null, since JSON has none."""
        self._metrics.add(json.dumps(_plain(event), ensure_ascii=False))
        if self._board is not None:
            _to_board(self._board, event)
        self.tell(event)

    def note(self, text: str) -> None:
        """A line of log.txt, with the time, and of the display."""
        self.remember(text)
        self.display.line(text)

    def remember(self, text: str) -> None:
        """A line of log.txt alone."""
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        for line in text.splitlines():
            self._text.add(f"{stamp}  {line}")

    def tell(self, event: Event) -> None:
        """Hands an event to `on_event` without writing it."""
        if self._on_event is not None:
            self._on_event(event)

    def sync(self) -> None:
        """Makes the lines so far survive a power failure; called before a checkpoint that stands after them."""
        self._metrics.sync()
        if self._board is not None:
            self._board.flush()

    def close(self) -> None:
        """Closes files and display."""
        self.display.close()
        self._metrics.close()
        self._text.close()
        if self._board is not None:
            self._board.close()


def cut_metrics(run: Path, step: int) -> None:
    """Drops the lines of metrics.jsonl after `step`, and a torn last one, so that a resumed run repeats none."""
    path = run / METRICS
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return
    # what stands behind the last line end was never finished
    whole = lines[:-1]
    kept = [line for line in whole if (found := _step_of(line)) is not None and found <= step]
    if kept != lines:
        commit_file(path, b"".join(line + b"\n" for line in kept))


def read_metrics(run: Path) -> list[Event]:
    """All events in metrics.jsonl."""
    path = run / METRICS
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line] if path.exists() else []


class _Lines:
    """A text file that lines are appended to at once; what the disk refuses waits, and continues where it broke off."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
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


@runtime_checkable
class _Board(Protocol):
    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None: ...

    def add_text(self, tag: str, text_string: str, global_step: int) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


def _board(run: Path) -> _Board:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ConfigError(
            "training.tensorboard = true needs TensorBoard; install it with: pip install 'headwise[tensorboard]'"
        ) from None
    writer: _Board = SummaryWriter(run / "tensorboard")
    return writer


def _to_board(board: _Board, event: Mapping[str, Any]) -> None:
    step = event["step"]
    group = "valid" if event["event"] == "validation" else "train"
    numbers = {**event, **event.get("metrics", {}), **event.get(TIMING, {})}
    for name, value in numbers.items():
        if isinstance(value, int | float) and name != "step":
            board.add_scalar(f"{group}/{name}", float(value), step)
    for place, sample in enumerate(event.get("samples", [])):
        board.add_text(f"samples/{place}", sample, step)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value


def _step_of(line: bytes) -> int | None:
    try:
        step = json.loads(line).get("step")
    except (ValueError, AttributeError):
        return None
    return step if isinstance(step, int) else None
