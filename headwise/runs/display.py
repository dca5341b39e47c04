"""Progress of training for people: a live bar in a terminal, a few plain lines elsewhere; it never fails."""

import contextlib
import io
import math
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Column

_REFRESH_S = 0.25


class _Console(Console):
    """The library's console ends the program when its stream is gone; this one raises."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class Display:
    """Lines and a progress bar on `stream` (stderr if none is given).

    A stream that is closed, full or gone ends the display, not the training; characters that its encoding lacks are
    shown as escapes.
    """

    def __init__(self, stream: io.TextIOBase | None = None, *, every_s: float = 10.0, hidden: bool = False) -> None:
        self._stream: Any = stream if stream is not None else sys.stderr
        self._alive = self._stream is not None and not hidden
        self._shown = -math.inf
        self._live: Progress | None = None
        self._bar: TaskID | None = None
        self._every_s = every_s
        if self._alive and _is_terminal(self._stream):
            self._every_s = _REFRESH_S
            self._start()

    def line(self, text: str) -> None:
        """Shows a line, above the bar if there is one."""
        if not self._alive:
            return
        with self._errors_end_it():
            encodable = _escape(text, self._stream)
            if self._live is not None:
                self._live.console.print(encodable, markup=False, highlight=False, soft_wrap=True)
            else:
                self._stream.write(encodable + "\n")
                self._stream.flush()

    def due(self) -> bool:
        """True when it is time to show progress again; costs one look at the clock."""
        return self._alive and time.monotonic() - self._shown >= self._every_s

    def progress(self, facts: Mapping[str, Any]) -> None:
        """Shows how far training is. Facts: step, epoch, loss, lr, tokens_per_s, unit, skipped, share, eta_s."""
        self._shown = time.monotonic()
        if not self._alive:
            return
        if self._live is None or self._bar is None:
            self.line(progress_line(facts))
            return
        with self._errors_end_it():
            self._live.update(
                self._bar, completed=facts["share"], description=_escape(progress_line(facts), self._stream)
            )
            self._live.refresh()

    def close(self) -> None:
        if self._live is not None:
            with self._errors_end_it():
                self._live.stop()
            self._live = None

    def _start(self) -> None:
        with self._errors_end_it():
            console = _Console(file=self._stream)
            columns = (
                BarColumn(bar_width=12),
                TextColumn("{task.percentage:>3.0f}%"),
                # takes the rest of the line, and is cut where that is too short
                TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True)),
            )
            # no automatic refresh: a thread beside training would cost time and could meet a closed stream
            self._live = Progress(*columns, console=console, auto_refresh=False, transient=True, expand=True)
            self._bar = self._live.add_task("", total=1.0)
            self._live.start()

    @contextlib.contextmanager
    def _errors_end_it(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError):
            self._alive = False
            self._live = None


def progress_line(facts: Mapping[str, Any]) -> str:
    """One line of progress.

    >>> facts = {"step": 1200, "epoch": 3.25, "loss": 2.5, "lr": 7e-4, "eta_s": 75.0}
    >>> progress_line({**facts, "tokens_per_s": 13800.4, "unit": "tokens"})
    'step 1200  loss 2.5000  1:15 left  13,800 tokens/s  lr 0.0007  epoch 3.25'
    """
    # the most important first: a narrow terminal cuts the end
    parts = [f"step {facts['step']}"]
    if facts.get("loss") is not None:
        parts.append(f"loss {facts['loss']:.4f}")
    if facts.get("eta_s") is not None:
        parts.append(f"{clock(facts['eta_s'])} left")
    parts += [f"{facts['tokens_per_s']:,.0f} {facts['unit']}/s", f"lr {facts['lr']:.3g}", f"epoch {facts['epoch']:.2f}"]
    if facts.get("skipped"):
        parts.append(f"{facts['skipped']} skipped")
    return "  ".join(parts)


def clock(seconds: float) -> str:
    """A duration as minutes and seconds, with hours where there are some.

    >>> clock(75), clock(3725)
    ('1:15', '1:02:05')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (OSError, ValueError, AttributeError):
        return False


def _escape(text: str, stream: Any) -> str:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
