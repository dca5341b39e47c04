"""One writer per run folder: a POSIX record lock, which the kernel frees the moment the process is gone."""

import errno
import fcntl
import json
import os
import socket
import time
from pathlib import Path

from headwise.errors import MachineError, RunBusy
from headwise.runs.commits import refused

LOCK = ".lock"
# record locks belong to the process: within one process this table answers; keys are (process, device, file)
_held: dict[tuple[int, int, int], dict[str, object]] = {}


class RunLock:
    """Holds `folder` for writing; a file names the process, machine and start.

    `lockf` and not `flock`: children that outlive the process do not keep it. The file itself is never removed, since
    a lock on a removed file protects nothing.

    Raises:
        RunBusy: another process, or this one already, writes the folder.
        MachineError: the file cannot be made, or the file system has no locks.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK
        self._handle = -1

    def __enter__(self) -> "RunLock":
        self._refuse_own()
        try:
            self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            raise refused(error, self._path, 0) from None
        try:
            fcntl.lockf(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.pread(self._handle, 4096, 0)
            os.close(self._handle)
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                told = f"the file system gives no locks ({error.strerror}); choose a folder on another one"
                raise MachineError(f"{self._path}: {told}") from None
            raise RunBusy(self._message(_parsed(owner))) from None
        facts = {"pid": os.getpid(), "host": socket.gethostname(), "start": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, json.dumps(facts).encode(), 0)
        _held[_identity(os.fstat(self._handle))] = facts
        return self

    def __exit__(self, *_: object) -> None:
        _held.pop(_identity(os.fstat(self._handle)), None)
        os.close(self._handle)

    def _refuse_own(self) -> None:
        # asked before the file is opened: closing any handle of it would free this process's own lock
        try:
            owner = _held.get(_identity(os.stat(self._path)))
        except OSError:
            return
        if owner is not None:
            raise RunBusy(self._message(owner))

    def _message(self, owner: dict[str, object]) -> str:
        who = "process {pid} on {host} since {start}".format(**owner) if len(owner) == 3 else "another process"
        return f"{self._path.parent}: is being written by {who}; wait for it, stop it, or choose another folder"


def _identity(facts: os.stat_result) -> tuple[int, int, int]:
    return os.getpid(), facts.st_dev, facts.st_ino


def _parsed(data: bytes) -> dict[str, object]:
    try:
        owner = json.loads(data)
    except ValueError:
        return {}
    return {key: owner[key] for key in ("pid", "host", "start") if key in owner} if isinstance(owner, dict) else {}
