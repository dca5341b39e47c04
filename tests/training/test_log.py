"""What is written and shown: lines that survive a full disk, a display that no stream can break."""

import errno
import io
import json
import os
import sys

import pytest
from training_toy import recipe

from headwise.errors import CheckpointError
from headwise.runs.display import Display
from headwise.runs.log import RunLog, read_metrics, truncate_metrics
from headwise.training.train import train

FACTS = {
    "step": 3,
    "epoch": 0.5,
    "loss": 2.0,
    "lr": 1e-3,
    "tokens_per_s": 12345.6,
    "unit": "images",
    "skipped": 1,
    "share": 0.5,
    "eta_s": 75.0,
}
SHOWN = "step 3  loss 2.0000  1:15 left  12,346 images/s  lr 0.001  epoch 0.50  1 skipped"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self):
        return True


class Closed(Terminal):
    """A terminal that goes away."""

    def write(self, text):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def test_plain_lines_come_seldom():
    stream = io.StringIO()
    display = Display(stream, every_s=100.0)
    assert display.due()
    display.progress(FACTS)
    assert not display.due()
    display.line("a note")
    display.close()
    assert stream.getvalue() == f"{SHOWN}\na note\n"


def test_a_terminal_has_a_bar_below_the_notes():
    stream = Terminal()
    display = Display(stream)
    display.line("a note with [brackets]")
    display.progress(FACTS)
    display.close()
    assert "a note with [brackets]\n" in stream.getvalue()
    assert "1:15 left" in stream.getvalue()
    assert "50%" in stream.getvalue()


@pytest.mark.parametrize("stream", [Closed(), type("Plain", (Closed,), {"isatty": lambda self: False})()])
def test_a_stream_that_is_gone_ends_only_the_display(stream):
    display = Display(stream)
    display.line("a")
    display.progress(FACTS)
    assert not display.due()
    display.close()


def test_closed_missing_and_narrow_streams(monkeypatch, tmp_path):
    closed = io.StringIO()
    closed.close()
    Display(closed).line("a")
    monkeypatch.setattr(sys, "stderr", None)
    Display().line("a")
    raw = io.BytesIO()
    narrow = io.TextIOWrapper(raw, encoding="ascii")
    Display(narrow).line("chez moi → à 家")
    assert raw.getvalue() == b"chez moi \\u2192 \\xe0 \\u5bb6\n"


def test_training_outlives_a_closed_output(tmp_path, monkeypatch):
    ready, told = os.pipe()
    os.close(ready)
    with os.fdopen(told, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(sys, "stdout", stream)
        assert train(recipe({"max_steps": 6, "print_every_s": 0.0}), tmp_path / "run").steps == 6
        # what is still in the buffer of the pipe cannot be written either
        monkeypatch.undo()
        stream.write("x")
        with pytest.raises(BrokenPipeError):
            stream.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _log(folder, **options):
    return RunLog(folder, Display(io.StringIO()), **options)


def test_metrics_are_json_and_all_events_are_told(tmp_path):
    told = []
    log = _log(tmp_path, on_event=told.append)
    event = {"event": "step", "step": 1, "loss": float("nan"), "deep": [{"a": float("inf")}], "text": "家\u2028\ud800"}
    log.emit(event)
    log.emit({"event": "checkpoint", "step": 1})
    log.note("two\nlines")
    log.close()
    # half a character, which UTF-8 cannot have, is written as the escape that JSON has for it
    expected = {"event": "step", "step": 1, "loss": None, "deep": [{"a": None}], "text": "家\u2028\ud800"}
    assert read_metrics(tmp_path) == [expected]
    assert told == [event, {"event": "checkpoint", "step": 1}, {"event": "note", "text": "two\nlines"}]
    assert [line[21:] for line in (tmp_path / "log.txt").read_text().splitlines()] == ["two", "lines"]
    assert read_metrics(tmp_path / "nowhere") == []


class Faulty:
    """Listens to one event."""

    def __init__(self):
        self.taken = []

    def __str__(self):
        return "faulty"

    def take(self, event):
        if self.taken:
            raise ConnectionError("no network")
        self.taken.append(event["step"])

    def sync(self):
        pass

    def close(self):
        raise AssertionError("it was left out")


def test_a_listener_that_fails_is_told_of_and_left_out(tmp_path):
    listener = Faulty()
    log = _log(tmp_path, listeners=[listener])
    for step in (1, 2, 3):
        log.emit({"event": "step", "step": step})
    log.close()
    assert listener.taken == [1]
    text = (tmp_path / "log.txt").read_text()
    assert text.count("faulty gets no more events: ConnectionError: no network") == 1
    assert len(read_metrics(tmp_path)) == 3


def test_lines_wait_while_the_disk_is_full(tmp_path, monkeypatch):
    log = _log(tmp_path)
    log.emit({"event": "step", "step": 1})
    real = os.write

    def half(handle, data):
        if len(data) > 5:
            return real(handle, data[:5])
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "write", half)
    log.emit({"event": "step", "step": 2})
    monkeypatch.undo()
    log.emit({"event": "step", "step": 3})
    log.close()
    assert [event["step"] for event in read_metrics(tmp_path)] == [1, 2, 3]


def test_metrics_are_cut_to_a_step(tmp_path):
    path = tmp_path / "metrics.jsonl"
    truncate_metrics(tmp_path, 5)
    assert not path.exists()
    lines = [json.dumps({"event": "step", "step": step}) for step in (3, 5, 6)]
    path.write_text("\n".join([*lines, "not json", "[]", "[" * 100_000, '{"event": "st']))
    truncate_metrics(tmp_path, 5)
    assert path.read_text() == lines[0] + "\n" + lines[1] + "\n"
    truncate_metrics(tmp_path, -1)
    assert path.read_text() == ""


def test_at_most_one_plain_line_in_a_while(tmp_path, capfd):
    train(recipe({"max_steps": 30, "validate_every": 0}, valid_examples=0), tmp_path / "run")
    lines = capfd.readouterr().err.splitlines()
    assert sum(line.startswith("step ") for line in lines) == 1
    assert lines[-1].startswith("finished: max_steps after 30 steps, ")


@pytest.mark.parametrize("name", ["log.txt", "metrics.jsonl"])
@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_pipe_or_link_in_the_place_of_a_log_is_refused(tmp_path, name, kind):
    path, target = tmp_path / name, tmp_path / "target"
    os.mkfifo(path) if kind == "pipe" else path.symlink_to(target)
    # a pipe that nobody reads must not be waited for, and a link not be written through
    with pytest.raises(CheckpointError, match=name):
        RunLog(tmp_path, Display(hidden=True))
    if name == "metrics.jsonl":
        with pytest.raises(CheckpointError, match=name):
            truncate_metrics(tmp_path, 0)
    assert not target.exists()
