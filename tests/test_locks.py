"""One writer at a time: refused with the owner's name, free at once when the owner is killed."""

import errno
import fcntl
import json
import os
import re
import signal
import socket
import time

import pytest

from headwise.errors import CheckpointError, MachineError, RunBusy
from headwise.locks import OWNER, FolderLock, turn


def _child_holding(folder):
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        with FolderLock(folder):
            os.write(told, b"x")
            time.sleep(60)
        os._exit(0)
    assert os.read(ready, 1) == b"x"
    os.close(ready)
    os.close(told)
    return pid


def test_second_process_is_refused_and_the_lock_dies_with_its_owner(tmp_path):
    pid = _child_holding(tmp_path)
    try:
        expected = rf"being written by process {pid} on {re.escape(socket.gethostname())} since 2\d\d\d-.*; wait for it"
        with pytest.raises(RunBusy, match=expected) as caught, FolderLock(tmp_path):
            pass
        assert caught.value.exit_code == 7
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    with FolderLock(tmp_path):
        assert json.loads((tmp_path / OWNER).read_text())["pid"] == os.getpid()


def test_the_same_process_is_refused_too_and_keeps_its_lock(tmp_path):
    with FolderLock(tmp_path):
        with pytest.raises(RunBusy, match=f"process {os.getpid()} on"), FolderLock(tmp_path):
            pass
        pid = os.fork()
        if pid == 0:
            try:
                with FolderLock(tmp_path):
                    os._exit(0)
            except RunBusy:
                os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    with FolderLock(tmp_path):
        pass


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS])
def test_a_file_system_without_locks_is_not_busy(tmp_path, monkeypatch, code):
    def none(handle, operation):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", none)
    with pytest.raises(MachineError, match="no locks"), FolderLock(tmp_path):
        pass


def test_an_unreadable_owner_is_another_process(tmp_path):
    pid = _child_holding(tmp_path)
    try:
        (tmp_path / OWNER).write_bytes(b"\xff{")
        with pytest.raises(RunBusy, match="another process"), FolderLock(tmp_path):
            pass
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(MachineError, match="x: no such folder"), FolderLock(tmp_path / "x"):
        pass


def test_a_folder_that_is_another_one_now_is_noticed(tmp_path):
    run, moved = tmp_path / "run", tmp_path / "moved"
    run.mkdir()
    with FolderLock(run) as lock:
        lock.check()
        run.rename(moved)
        with pytest.raises(CheckpointError, match=f"{re.escape(str(run))}: "):
            lock.check()
        run.mkdir()
        (run / ".lock").touch()
        with pytest.raises(CheckpointError):
            lock.check()
        (run / ".lock").unlink()
        run.rmdir()
        moved.rename(run)
        lock.check()


def _count(path, times):
    for _ in range(times):
        with turn(path):
            path.write_text(str(int(path.read_text()) + 1))


def test_processes_take_turns_at_a_file_and_leave_nothing(tmp_path):
    path = tmp_path / "count.txt"
    path.write_text("0")
    children = []
    for _ in range(3):
        if (pid := os.fork()) == 0:
            try:
                _count(path, 20)
            finally:
                os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)
    assert path.read_text() == "60"
    assert [one.name for one in tmp_path.iterdir()] == ["count.txt"]


def test_a_turn_that_does_not_come_is_said(tmp_path):
    path = tmp_path / "rows.json"
    told = r"rows\.json: has been written by another process for 0\.05 s"
    with turn(path), pytest.raises(RunBusy, match=told), turn(path, 0.05):
        pass
    with pytest.raises(MachineError, match="no such folder"), turn(tmp_path / "no" / "x"):
        pass
    (tmp_path / ".x.lock").mkdir()
    with pytest.raises(MachineError, match=r"\.x\.lock: cannot be locked"), turn(tmp_path / "x"):
        pass
    with turn(path):
        pass
