"""Reading what `commits` wrote: no file is used before its size and SHA-256 agree with the sealed manifest."""

import hashlib
import json
import math
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from headwise.errors import CheckpointError
from headwise.runs.commits import MANIFEST, canonical
from headwise.runs.migration import check_format, migrate
from headwise.runs.parts import TABLE, Content, Parts, Table
from headwise.runs.tensors import not_finite, read_tensors

_MAX_SMALL_BYTES = 256 * 1024 * 1024
_CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Saved:
    """A folder's verified content: files as bytes, tensor files as (tensors, metadata), and the manifest's facts.

    Args:
        parts: the tensor files that several processes have written; each is put together whenever it is read.
    """

    folder: Path
    facts: dict[str, Any]
    files: dict[str, bytes]
    tensors: dict[str, Content]
    parts: Parts | None = None

    def json(self, name: str) -> dict[str, Any]:
        """The JSON object in file `name`. Raises: CheckpointError when it is missing or something else."""
        if name not in self.files:
            raise CheckpointError(f"{self.folder / name}: missing; the folder is no checkpoint of this program")
        return _object(self.files[name], self.folder / name)

    @property
    def tensor_files(self) -> list[str]:
        return sorted({*self.tensors, *(self.parts.table.files if self.parts is not None else ())})

    def file(self, name: str, like: Callable[[str], Tensor | None] = lambda _: None) -> Content:
        """Tensors and metadata of file `name`; `like` as for `Parts.file`.

        Raises: CheckpointError when the checkpoint has no such file.
        """
        if self.parts is not None and name in self.parts.table.files:
            return self.parts.file(name, like)
        if name not in self.tensors:
            raise CheckpointError(f"{self.folder / name}: missing; the folder is no checkpoint of this program")
        return self.tensors[name]


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of `folder`, its seal and format checked. Raises: CheckpointError naming the file."""
    path = folder / MANIFEST
    manifest = unseal(_read_small(path, None), path)
    check_format(manifest.get("format"), str(path))
    files = manifest.get("files")
    if not isinstance(files, dict) or not all(_is_entry(name, entry) for name, entry in files.items()):
        raise CheckpointError(f"{path}: its list of files is not one of this program")
    return manifest


def read_folder(folder: Path, *, every_part: bool = True) -> Saved:
    """Reads and verifies every file that the manifest of `folder` names, in one pass over each.

    Memory: the files, but of those in parts one part at a time.

    Args:
        every_part: verify the parts now, not only when they are read.

    Raises: CheckpointError naming the first file that is missing, changed or holds numbers that are not finite.
    """
    manifest = read_manifest(folder)
    entries: dict[str, dict[str, Any]] = manifest["files"]
    parts = _parts(folder, entries)
    files: dict[str, bytes] = {}
    tensors: dict[str, Content] = {}
    for name, entry in sorted(entries.items()):
        if parts is not None and name in parts.names:
            _ = parts.read(name) if every_part else None
        elif name.endswith(".safetensors"):
            tensors[name] = read_tensor_file(folder / name, entry)
        elif name != TABLE:
            files[name] = _read_small(folder / name, entry)
    facts = {key: value for key, value in manifest.items() if key != "files"}
    return Saved(folder, facts, migrate(files, manifest["format"]), tensors, parts)


def _parts(folder: Path, entries: Mapping[str, dict[str, Any]]) -> Parts | None:
    """The parts among the manifest's files, none of them read. Raises: CheckpointError for an inconsistent table."""
    if TABLE not in entries:
        return None
    path = folder / TABLE
    table = Table.read(_read_small(path, entries[TABLE]), str(path))
    parts = Parts(table, str(path), lambda part: read_tensor_file(folder / part, entries[part])[0])
    if missing := [part for part in parts.names if part not in entries]:
        raise CheckpointError(f"{path}: {missing[0]} is not in the manifest")
    if twice := sorted(table.files.keys() & entries.keys()):
        raise CheckpointError(f"{path}: {twice[0]} is a file of its own too")
    return parts


def read_file(folder: Path, name: str) -> bytes:
    """One small file of a folder, verified. Raises: CheckpointError when it is missing or damaged."""
    entry = read_manifest(folder)["files"].get(name)
    if entry is None:
        raise CheckpointError(f"{folder / name}: missing; the folder is no checkpoint of this program")
    return _read_small(folder / name, entry)


def read_tensor_file(path: Path, entry: dict[str, Any]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a file, verified by its entry in a manifest.

    Raises: CheckpointError naming it when it is missing, damaged, or holds numbers that are not finite.
    """
    with _open_verified(path, entry) as source:
        tensors, metadata = read_tensors(source.read(source.left), str(path))
    if bad := not_finite(tensors):
        raise CheckpointError(f"{path}: '{bad[0]}' holds NaN or infinity ({len(bad)} of {len(tensors)} tensors do)")
    return tensors, metadata


def verify(folder: Path) -> None:
    """Checks every file of `folder` against its manifest. Raises: CheckpointError naming the file."""
    for name, entry in sorted(read_manifest(folder)["files"].items()):
        with _open_verified(folder / name, entry) as source:
            while source.left:
                source.read(min(_CHUNK_BYTES, source.left))


def unseal(data: bytes, path: Path) -> dict[str, Any]:
    """The values of sealed JSON. Raises: CheckpointError when any byte differs from what was written."""
    values = _object(data, path)
    digest = values.pop("seal", None)
    try:
        expected = hashlib.sha256(canonical(values)).hexdigest()
        same = digest == expected and canonical({**values, "seal": digest}) == data
    except RecursionError:
        # deeply nested lists can be read, but are never written
        same = False
    if not same:
        raise CheckpointError(f"{path}: damaged: its content does not agree with its own digest")
    return values


def read_sealed(path: Path) -> dict[str, Any]:
    """Reads a sealed JSON file. Raises: CheckpointError naming it."""
    return unseal(_read_small(path, None), path)


class _Source:
    """An open file that hashes what is read; a read returns exactly its size, and the last one a checked file."""

    def __init__(self, handle: int, path: Path, size: int, sha256: str | None) -> None:
        self._file = os.fdopen(handle, "rb", buffering=0)
        self._path, self._sha256 = path, sha256
        self._digest = hashlib.sha256()
        self.left = size

    def read(self, size: int) -> bytes:
        content = self._file.read(size)
        if len(content) != size:
            raise CheckpointError(f"{self._path}: ends too early")
        self._digest.update(content)
        self.left -= size
        if not self.left:
            self.check()
        return content

    def check(self) -> None:
        if self._sha256 not in (None, self._digest.hexdigest()):
            raise CheckpointError(f"{self._path}: damaged: its SHA-256 is not the one in the manifest")

    def close(self) -> None:
        self._file.close()


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """The handle of a regular file; links are not followed, and pipes are not waited for.

    Raises:
        FileNotFoundError: there is no such file.
        CheckpointError: it is a link, a pipe, a device or a folder, or cannot be opened.
    """
    try:
        handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    except FileNotFoundError:
        raise
    except OSError as error:
        reason = "is a link" if os.path.islink(path) else (error.strerror or str(error)).lower()
        raise CheckpointError(f"{path}: cannot be opened: {reason}") from None
    # before it becomes a file of Python, whose error for a folder is another
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise CheckpointError(f"{path}: is not a regular file")
    return handle


@contextmanager
def _open_verified(path: Path, entry: dict[str, Any] | None) -> Iterator[_Source]:
    """Opens a regular file; at the end its size and digest must be those of `entry`."""
    try:
        handle = open_regular(path)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: missing") from None
    size = os.fstat(handle).st_size
    source = _Source(handle, path, size, None if entry is None else entry["sha256"])
    try:
        if entry is not None and size != entry["bytes"]:
            raise CheckpointError(f"{path}: damaged: {size:,} bytes instead of {entry['bytes']:,}")
        yield source
        source.check()
    finally:
        source.close()


def _read_small(path: Path, entry: dict[str, Any] | None) -> bytes:
    with _open_verified(path, entry) as source:
        if source.left > _MAX_SMALL_BYTES:
            raise CheckpointError(f"{path}: {source.left:,} bytes are too many for a file of this kind")
        return source.read(source.left)


def _object(data: bytes, path: Path) -> dict[str, Any]:
    try:
        values = json.loads(data, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path}: damaged: not valid JSON") from None
    if not isinstance(values, dict):
        raise CheckpointError(f"{path}: damaged: not a JSON object")
    return values


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is no number of JSON")
    return value


def _is_entry(name: str, entry: Any) -> bool:
    plain = bool(name) and "/" not in name and "\0" not in name and name not in (".", "..")
    sized = isinstance(entry, dict) and type(entry.get("bytes")) is int and isinstance(entry.get("sha256"), str)
    return plain and sized
