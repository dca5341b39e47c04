"""Files and folders that are old or new and never half: write beside, flush, fsync, rename, fsync of the parent."""

import contextlib
import errno
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from headwise.errors import MachineError
from headwise.files import replacing

MANIFEST = "manifest.json"
_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
# what file systems and the small files of a checkpoint need besides the tensors
_SLACK_BYTES = 256 * 1024
# after the name of what is being removed
_REMOVED = ".removed.tmp"


class Sink:
    """A binary file that hashes and counts what is written to it."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "wb")  # noqa: SIM115 (closed by the context manager of `_sink`)
        self._digest = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes | memoryview) -> None:
        self._file.write(data)
        self._digest.update(data)
        self.size += len(data)

    def entry(self) -> dict[str, Any]:
        """What a manifest says about the file."""
        return {"bytes": self.size, "sha256": self._digest.hexdigest()}

    def finish(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        # a full disk is reported by the write itself; closing may only repeat it
        with contextlib.suppress(OSError):
            self._file.close()


@runtime_checkable
class Content(Protocol):
    """What can be written to a file: it knows its size before it is written."""

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
        raise refused(error, path, size_of(content)) from None
    return entry


class Draft(NamedTuple):
    """A folder that is being written, hidden beside the place `final` that it will have.

    Its name is no other writer's: what a process of a job that has ended still writes does not get into a later one.
    """

    final: Path
    path: Path
    needed: int

    @classmethod
    def begun(cls, final: Path, needed: int) -> "Draft":
        """An empty one, for `needed` bytes. Raises: MachineError, and nothing is left behind."""
        require_space(final, needed)
        path = final.with_name(f".{final.name}.{secrets.token_hex(4)}.tmp")
        try:
            os.mkdir(path)
        except OSError as error:
            raise refused(error, final, needed) from None
        return cls(final, path, needed)

    def write(self, name: str, content: Writable) -> dict[str, Any]:
        """Writes a file into it, down to the disk, and returns its manifest entry. Raises: OSError."""
        return _write(self.path / name, content)

    def commit(
        self,
        files: Mapping[str, Writable],
        facts: Mapping[str, Any],
        written: Mapping[str, dict[str, Any]] | None = None,
    ) -> None:
        """Writes these files, the manifest last, and gives the folder its place in one step.

        Args:
            written: entries of files that are in it already.

        Raises: MachineError, and nothing is left behind.
        """
        try:
            entries = {name: self.write(name, content) for name, content in files.items()}
            self.write(MANIFEST, seal({"files": {**(written or {}), **entries}, **facts}))
            sync_folder(self.path)
            os.rename(self.path, self.final)
            sync_folder(self.final.parent)
        except OSError as error:
            self.discard()
            raise refused(error, self.final, self.needed) from None

    def discard(self) -> None:
        """Removes what was written."""
        shutil.rmtree(self.path, ignore_errors=True)


def commit_folder(final: Path, files: Mapping[str, Writable], facts: Mapping[str, Any]) -> None:
    """Creates the folder `final` in one step; its manifest, with the SHA-256 of every file, is written last.

    Raises: MachineError, and nothing is left behind.
    """
    Draft.begun(final, sum(size_of(content) for content in files.values())).commit(files, facts)


def make_folder(path: Path) -> None:
    """Creates a folder, unless it is there, so that it survives a power failure. Raises: MachineError."""
    try:
        if not path.is_dir():
            path.mkdir(exist_ok=True)
            sync_folder(path.parent)
    except OSError as error:
        raise refused(error, path, 0) from None


def remove_folder(path: Path) -> None:
    """Removes a folder so that nobody ever sees half of it under its own name; a link goes, not what it leads to."""
    if path.is_symlink():
        path.unlink(missing_ok=True)
        return
    hidden = path.with_name(f".{path.name}{_REMOVED}")
    shutil.rmtree(hidden, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        os.rename(path, hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def sweep(folder: Path, *, removed: bool = False) -> list[str]:
    """Removes what an interrupted write or removal left in `folder`, or a removal alone; returns the names."""
    left = list(folder.glob(f".*{_REMOVED if removed else '.tmp'}")) if folder.is_dir() else []
    for path in left:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return sorted(path.name for path in left)


def require_space(path: Path, needed: int) -> None:
    """Raises: MachineError when the disk under `path` has less than `needed` bytes and a little more."""
    free, wanted = _free_bytes(path.parent), needed + _SLACK_BYTES
    if free is not None and free < wanted:
        raise _full(path, wanted, free)


def probe(folder: Path) -> None:
    """Creates `folder`, so that it survives a power failure, and tries a file in it.

    Raises: MachineError before any work is lost on a useless folder.
    """
    trial = folder / ".probe.tmp"
    try:
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for path in missing:
            sync_folder(path.parent)
        with _sink(trial) as sink:
            sink.write(b"headwise")
            sink.finish()
        trial.unlink(missing_ok=True)
    except FileExistsError:
        raise MachineError(f"{folder}: is a file, not a folder; choose another run folder") from None
    except OSError as error:
        raise refused(error, folder, 8) from None


def refused(error: OSError, path: Path, needed: int) -> MachineError:
    """The error of this package for an operating system's refusal to write `path`."""
    if error.errno in _FULL:
        return _full(path, needed, _free_bytes(path.parent))
    reason = (error.strerror or str(error)).lower()
    return MachineError(f"{path}: cannot be written: {reason}; check the folder and its permissions")


def size_of(content: Writable) -> int:
    """Bytes that `content` will take."""
    return len(content) if isinstance(content, bytes) else content.size


def sync_folder(folder: Path) -> None:
    """Makes renames inside `folder` survive a power failure."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def seal(values: Mapping[str, Any]) -> bytes:
    """JSON with a digest of itself, so that no changed byte goes unnoticed; `reading.unseal` reads it."""
    return canonical({**values, "seal": hashlib.sha256(canonical(values)).hexdigest()})


def canonical(values: Mapping[str, Any]) -> bytes:
    """The one JSON text of `values`: sorted keys, no spaces to spare, ASCII only, a newline at the end."""
    return (json.dumps(values, sort_keys=True, indent=1, allow_nan=False) + "\n").encode("ascii")


def _write(path: Path, content: Writable) -> dict[str, Any]:
    with _sink(path) as sink:
        if isinstance(content, bytes):
            sink.write(content)
        else:
            content.write_to(sink)
        sink.finish()
        return sink.entry()


@contextlib.contextmanager
def _sink(path: Path) -> Iterator[Sink]:
    sink = Sink(path)
    try:
        yield sink
    finally:
        sink.close()


def _full(path: Path, needed: int, free: int | None) -> MachineError:
    known = "" if free is None else f" and {free:,} bytes are free"
    return MachineError(f"{path}: no space left: {needed:,} bytes are needed{known}; free some space or move the run")


def _free_bytes(folder: Path) -> int | None:
    try:
        facts = os.statvfs(folder)
    except OSError:
        return None
    return facts.f_bavail * facts.f_frsize
