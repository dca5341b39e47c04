"""One writer per run folder: a lock of the operating system, which it frees the moment the process is gone."""

import contextlib
import errno
import json
import os
import socket
import time
from pathlib import Path

from filelock import FileLock, Timeout

from headwise.errors import MachineError, RunBusy
from headwise.runs.commits import commit_file, refused

LOCK = ".lock"
OWNER = ".lock.json"
_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)


class RunLock:
    """Holds `folder` for writing; a file beside the lock names the process, machine and start.

    Neither file is ever removed, since a lock on a removed file protects nothing. Children of the process do not hold
    the lock.

    Raises:
        RunBusy: another process, or this one already, writes the folder.
        MachineError: the file cannot be made, or the file system has no locks.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = FileLock(folder / LOCK, blocking=False, thread_local=False, mode=0o644, fallback_to_soft=False)

    def __enter__(self) -> "RunLock":
        path = self._folder / LOCK
        if not self._folder.is_dir():
            raise MachineError(f"{self._folder}: no such folder")
        try:
            self._lock.acquire()
        except Timeout:
            raise RunBusy(self._message()) from None
        except OSError as error:
            if error.errno in _WITHOUT_LOCKS:
                told = f"the file system gives no locks ({error.strerror}); choose a folder on another one"
                raise MachineError(f"{path}: {told}") from None
            raise refused(error, path, 0) from None
        facts = {"pid": os.getpid(), "host": socket.gethostname(), "start": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
        with contextlib.suppress(MachineError):
            commit_file(self._folder / OWNER, json.dumps(facts).encode())
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def _message(self) -> str:
        try:
            owner = json.loads((self._folder / OWNER).read_text(encoding="utf-8"))
            who = f"process {owner['pid']} on {owner['host']} since {owner['start']}"
        except (OSError, ValueError, LookupError, TypeError):
            who = "another process"
        return f"{self._folder}: is being written by {who}; wait for it, stop it, or choose another folder"
