"""Atomic files and folders: written under another name, flushed, fsynced, renamed, and the parent fsynced."""

import contextlib
import errno
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from headwise.errors import MachineError
from headwise.files import replacing

MANIFEST = "manifest.json"
_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
# for the file system and the small files of a checkpoint, besides the tensors
_SLACK_BYTES = 256 * 1024
# suffix of a folder that is being removed
_REMOVED = ".removed.tmp"


class Sink:
    """A binary file that hashes and counts the bytes written to it; a context manager."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "wb")  # noqa: SIM115 (closed by __exit__)
        self._digest = hashlib.sha256()
        self.size = 0

    def __enter__(self) -> "Sink":
        return self

    def __exit__(self, *_: object) -> None:
        # a full disk is reported by the write itself; closing may only repeat it
        with contextlib.suppress(OSError):
            self._file.close()

    def write(self, data: bytes | memoryview) -> None:
        self._file.write(data)
        self._digest.update(data)
        self.size += len(data)

    def finish(self) -> dict[str, Any]:
        """Writes the file down to the disk, and returns its manifest entry."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return {"bytes": self.size, "sha256": self._digest.hexdigest()}


@runtime_checkable
class Content(Protocol):
    """The content of a file, whose size is known before it is written."""

    @property
    def size(self) -> int: ...

    def write_to(self, sink: Sink) -> None: ...


Writable = bytes | Content


def commit_file(path: Path, content: Writable) -> dict[str, Any]:
    """Replaces `path` in one step and returns its manifest entry. Raises: MachineError, and the old file is intact."""
    require_space(path, size_of(content))
    try:
        with replacing(path) as temporary:
            entry = _write(temporary, content)
        sync_folder(path.parent)
    except OSError as error:
        raise write_error(error, path, size_of(content)) from None
    return entry


class Draft(NamedTuple):
    """A folder that is being written, under a hidden name beside `final`, which it will be renamed to.

    The name is unique, so a late write of a process whose job has ended cannot get into a later draft.
    """

    final: Path
    path: Path
    needed: int

    @classmethod
    def begin(cls, final: Path, needed: int) -> "Draft":
        """An empty draft, for `needed` bytes. Raises: MachineError; nothing is left behind."""
        require_space(final, needed)
        path = final.with_name(f".{final.name}.{secrets.token_hex(4)}.tmp")
        try:
            os.mkdir(path)
        except OSError as error:
            raise write_error(error, final, needed) from None
        return cls(final, path, needed)

    def write(self, name: str, content: Writable) -> dict[str, Any]:
        """Writes a file, down to the disk, and returns its manifest entry. Raises: OSError."""
        return _write(self.path / name, content)

    def commit(
        self,
        files: Mapping[str, Writable],
        facts: Mapping[str, Any],
        written: Mapping[str, dict[str, Any]] | None = None,
    ) -> None:
        """Writes these files, the manifest with the SHA-256 of every file last, and renames the folder in one step.

        Args:
            written: entries of files that were written before.

        Raises: MachineError; nothing is left behind.
        """
        try:
            entries = {name: self.write(name, content) for name, content in files.items()}
            self.write(MANIFEST, seal({"files": {**(written or {}), **entries}, **facts}))
            sync_folder(self.path)
            os.rename(self.path, self.final)
            sync_folder(self.final.parent)
        except OSError as error:
            self.discard()
            raise write_error(error, self.final, self.needed) from None

    def discard(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def make_folder(path: Path) -> None:
    """Creates a folder, unless it is there, so that it survives a power failure. Raises: MachineError."""
    try:
        if not path.is_dir():
            path.mkdir(exist_ok=True)
            sync_folder(path.parent)
    except OSError as error:
        raise write_error(error, path, 0) from None


def remove_folder(path: Path) -> None:
    """Removes a folder, which is never half there under its own name; of a link only the link is removed."""
    if path.is_symlink():
        path.unlink(missing_ok=True)
        return
    hidden = path.with_name(f".{path.name}{_REMOVED}")
    shutil.rmtree(hidden, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        os.rename(path, hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def sweep(folder: Path, *, removed: bool = False) -> list[str]:
    """Removes the leftovers of interrupted writes and removals in `folder`, or of removals only; returns the names."""
    left = list(folder.glob(f".*{_REMOVED if removed else '.tmp'}")) if folder.is_dir() else []
    for path in left:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return sorted(path.name for path in left)


def require_space(path: Path, needed: int) -> None:
    """Raises: MachineError when the disk under `path` has less than `needed` bytes and a little more."""
    free, required = _free_bytes(path.parent), needed + _SLACK_BYTES
    if free is not None and free < required:
        raise _disk_full(path, required, free)


def probe(folder: Path) -> None:
    """Creates `folder`, durably, and writes and removes a file in it, before any work is lost on a useless folder.

    Raises: MachineError when that fails.
    """
    trial = folder / ".probe.tmp"
    try:
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for path in missing:
            sync_folder(path.parent)
        with Sink(trial) as sink:
            sink.write(b"headwise")
            sink.finish()
        trial.unlink(missing_ok=True)
    except FileExistsError:
        raise MachineError(f"{folder}: is a file, not a folder; choose another run folder") from None
    except OSError as error:
        raise write_error(error, folder, 8) from None


def write_error(error: OSError, path: Path, needed: int) -> MachineError:
    """The error of this package for an OSError while writing `path`."""
    if error.errno in _FULL:
        return _disk_full(path, needed, _free_bytes(path.parent))
    reason = (error.strerror or str(error)).lower()
    return MachineError(f"{path}: cannot be written: {reason}; check the folder and its permissions")


def size_of(content: Writable) -> int:
    return len(content) if isinstance(content, bytes) else content.size


def sync_folder(folder: Path) -> None:
    """Makes renames inside `folder` survive a power failure."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def seal(values: Mapping[str, Any]) -> bytes:
    """JSON with a digest of itself, so that any changed byte is detected; `reading.unseal` reads it."""
    return canonical({**values, "seal": hashlib.sha256(canonical(values)).hexdigest()})


def canonical(values: Mapping[str, Any]) -> bytes:
    """The canonical JSON text of `values`: sorted keys, ASCII only, a newline at the end."""
    return (json.dumps(values, sort_keys=True, indent=1, allow_nan=False) + "\n").encode("ascii")


def _write(path: Path, content: Writable) -> dict[str, Any]:
    with Sink(path) as sink:
        if isinstance(content, bytes):
            sink.write(content)
        else:
            content.write_to(sink)
        return sink.finish()


def _disk_full(path: Path, needed: int, free: int | None) -> MachineError:
    space = "" if free is None else f" and {free:,} bytes are free"
    return MachineError(f"{path}: no space left: {needed:,} bytes are needed{space}; free some space or move the run")


def _free_bytes(folder: Path) -> int | None:
    try:
        system = os.statvfs(folder)
    except OSError:
        return None
    return system.f_bavail * system.f_frsize
