"""The tool that kills processes believes torchrun alone about who was ended by force."""

import importlib
import os
import signal
import sys
from pathlib import Path

import pytest
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, api, start_processes

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture(scope="module")
def tool():
    sys.path.insert(0, str(TOOLS))
    try:
        yield importlib.import_module("killprocesses")
    finally:
        sys.path.remove(str(TOOLS))


@pytest.fixture
def deaf(tmp_path):
    """Two processes of torchrun's that do not hear SIGTERM, and one that has ended by itself."""
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    waits = ("-c", f"trap '' TERM; echo >{ready}; exec sleep 1000")
    context = start_processes(
        name="deaf",
        entrypoint="sh",
        args={0: waits, 1: ("-c", "true"), 2: waits},
        envs={0: {}, 1: {}, 2: {}},
        logs_specs=DefaultLogsSpecs(str(tmp_path)),
    )
    heard = os.open(ready, os.O_RDWR)
    found = b""
    while len(found) < 2:
        found += os.read(heard, 1)
    os.close(heard)
    context.subprocess_handlers[1].proc.wait()
    yield context
    for handler in context.subprocess_handlers.values():
        handler.proc.kill()
        handler.proc.wait()


def test_torchrun_names_whom_it_ends_by_force(tool, deaf, monkeypatch):
    told = []
    for level in ("warning", "error"):
        monkeypatch.setattr(api.logger, level, lambda text, *values: told.append(text % values))
    pids = [handler.proc.pid for handler in deaf.subprocess_handlers.values()]
    deaf.close(signal.SIGTERM, timeout=0)
    assert f"Sending process {pids[0]} closing signal SIGTERM" in told
    assert tool.forced("\n".join(told)) == {pids[0], pids[2]}


def test_who_was_only_asked_to_end_was_not_ended_by_force(tool):
    asked = "Sending process 17 closing signal SIGTERM\nexitcode  : -9 (pid: 19)\n"
    assert tool.forced(asked) == set()
    by_force = "Unable to shutdown process 23 via Signals.SIGTERM, forcefully exiting via Signals.SIGKILL"
    assert tool.forced(asked + by_force) == {23}


class Told:
    """What is left of a job in which process 1 was killed and process 2 said nothing."""

    world, code = 2, 1

    def __init__(self, report):
        self.report = report

    def said(self, rank):
        return ""

    def reported(self):
        return self.report + "exitcode  : -9 (pid: 17)"

    def whole(self):
        return self.reported()

    def forced(self, rank):
        return 19 in sys.modules["killprocesses"].forced(self.reported())


@pytest.mark.parametrize(("named", "wrong"), [(19, 0), (17, 1)])
def test_silence_is_a_problem_unless_this_process_was_ended_by_force(tool, tmp_path, named, wrong):
    kills = tool.Kills(tmp_path, None, [], 0.0, tmp_path / "reports")
    job = Told(f"Unable to shutdown process {named} via 15, forcefully exiting via 9\n")
    problems = kills._wrong(job, [1])
    assert len(problems) == wrong
    assert problems == ["process 2, not ended by force, does not say what is saved"] * wrong
    kept = [path.read_text() for path in (tmp_path / "reports").glob("*")]
    assert len(kept) == 1 - wrong
    assert all("torchrun ended it by force" in text and f"process {named}" in text for text in kept)
