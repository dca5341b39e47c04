"""One writer per folder or file: locks of the operating system, which releases them when the process ends."""

import contextlib
import errno
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from headwise.errors import CheckpointError, MachineError, RunBusy
from headwise.files import replacing

LOCK = ".lock"
OWNER = ".lock.json"
_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)


class FolderLock:
    """The lock of a folder that is written; a file beside it names the process, machine and start.

    Neither file is ever removed, since a lock on a removed file protects nothing. Child processes do not have the lock.

    Raises:
        RunBusy: another process, or this one, already has the lock.
        MachineError: the file cannot be made, or the file system has no locks.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = FileLock(folder / LOCK, blocking=False, thread_local=False, mode=0o644, fallback_to_soft=False)
        self._locked_file: tuple[int, int] | None = None

    def __enter__(self) -> "FolderLock":
        path = self.folder / LOCK
        if not self.folder.is_dir():
            raise MachineError(f"{self.folder}: no such folder")
        try:
            self._lock.acquire()
        except Timeout:
            raise RunBusy(self._message()) from None
        except OSError as error:
            if error.errno in _WITHOUT_LOCKS:
                raise MachineError(
                    f"{path}: the file system has no locks ({error.strerror}); choose a folder on another one"
                ) from None
            reason = (error.strerror or str(error)).lower()
            raise MachineError(f"{path}: cannot be written: {reason}; check the folder and its permissions") from None
        self._locked_file = self._file_number()
        facts = {"pid": os.getpid(), "host": socket.gethostname(), "start": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
        with contextlib.suppress(OSError), replacing(self.folder / OWNER) as temporary:
            temporary.write_text(json.dumps(facts), encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def check(self) -> None:
        """Raises: CheckpointError when the folder is no longer the locked one."""
        if self._file_number() != self._locked_file:
            raise CheckpointError(
                f"{self.folder}: was moved, removed or replaced while a run was writing it; what was saved before is "
                "where the folder is now"
            )

    def _file_number(self) -> tuple[int, int] | None:
        # the lock is open, so that no other file can be given its number
        try:
            status = os.stat(self.folder / LOCK)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _message(self) -> str:
        try:
            owner = json.loads((self.folder / OWNER).read_text(encoding="utf-8"))
            writer = f"process {owner['pid']} on {owner['host']} since {owner['start']}"
        except (OSError, ValueError, LookupError, TypeError):
            writer = "another process"
        return f"{self.folder}: is being written by {writer}; wait for it, stop it, or choose another folder"


@contextmanager
def turn(path: Path, wait_s: float = 60.0) -> Iterator[None]:
    """While open, other processes wait for this file, so that reading, changing and writing it loses nothing.

    The lock is a file beside it, which is removed afterwards.

    Raises:
        RunBusy: another process has the lock for longer than `wait_s`.
        MachineError: the lock cannot be made, or the file system has none.
    """
    if not path.parent.is_dir():
        raise MachineError(f"{path.parent}: no such folder")
    place = path.with_name(f".{path.name}{LOCK}")
    lock = FileLock(place, wait_s, thread_local=False, mode=0o644, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        raise RunBusy(
            f"{path}: has been written by another process for {wait_s:g} s; wait for it, or stop it"
        ) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise MachineError(f"{place}: cannot be locked: {reason}; choose a file in another folder") from None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            place.unlink()
        lock.release()
