"""Archives that are not trusted: zip and tar, unpacked file by file, nothing outside the folder, within limits."""

import bz2
import gzip
import io
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from headwise.errors import DataError

MAX_BYTES = 4 << 30
MAX_FILES = 100_000
_BLOCK = 1 << 18
# of a member's name and what else is said of it, which is read at once
_MOST_SAID = 1 << 20
_MOST_NAME = 1 << 12
_PACKED: dict[bytes, Callable[[Path], Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}


class _Member(NamedTuple):
    name: str
    size: int
    # what kind of thing it is, if no plain file: None
    odd: str | None
    opened: Callable[[], IO[bytes] | None]


def unpack(
    archive: Path,
    folder: Path,
    *,
    chosen: Callable[[str], bool] | None = None,
    max_bytes: int = MAX_BYTES,
    max_files: int = MAX_FILES,
) -> list[Path]:
    """Writes the files of a zip or tar archive (plain, gzip, bzip2, xz) under a folder; returns where they are.

    Args:
        chosen: which members, by name; None: all. Others are checked too, except for their size.
        max_bytes: of all files together, as they come out, whatever the archive says about them.
    Raises:
        DataError: no such archive; it is damaged or encrypted; a member with an absolute name, with `..`, twice, or
            that is a link or a device; more than the limits allow. What was written so far stays: give a folder that
            is new.
    """
    written: list[Path] = []
    names: set[str] = set()
    left = max_bytes
    with _faults(archive):
        for number, member in enumerate(_members(archive), 1):
            if number > max_files:
                raise DataError(f"{archive}: more than {max_files:,} members; this is no data set")
            name = _checked(archive, member, names)
            if member.odd == "folder" or not (chosen is None or chosen(member.name)):
                continue
            if member.size > left:
                raise DataError(f"{archive}: '{member.name}': unpacks to more than {max_bytes:,} bytes; not unpacked")
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as out:
                left -= _copied(member, out, left, archive, max_bytes)
            written.append(target)
    return written


def _checked(archive: Path, member: _Member, names: set[str]) -> PurePosixPath:
    name = PurePosixPath(member.name)
    fault = None
    if len(member.name) > _MOST_NAME:
        raise DataError(f"{archive}: member '{member.name[:40]}...' has a name of {len(member.name):,} characters")
    if not name.parts or name.is_absolute() or ".." in name.parts:
        fault = "names a place outside the folder"
    elif any(character in member.name for character in "\\:\0"):
        fault = "has a name that is no plain path"
    elif member.odd not in (None, "folder"):
        fault = f"is a {member.odd}"
    elif member.odd is None and str(name).casefold() in names:
        fault = "is there twice"
    if fault:
        raise DataError(f"{archive}: member {member.name!r} {fault}; nothing of such an archive is trusted")
    names.add(str(name).casefold())
    return name


def _copied(member: _Member, out: IO[bytes], left: int, archive: Path, limit: int) -> int:
    total = 0
    stream = member.opened()
    if stream is None:
        raise DataError(f"{archive}: '{member.name}': cannot be read")
    with stream:
        while block := stream.read(_BLOCK):
            total += len(block)
            if total > left:
                raise DataError(f"{archive}: '{member.name}': unpacks to more than {limit:,} bytes; not unpacked")
            out.write(block)
    return total


def _members(archive: Path) -> Iterator[_Member]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                yield _Member(info.filename, info.file_size, _zip_kind(info), partial(packed.open, info))
        return
    with _unpacked(archive) as stream, tarfile.open(fileobj=stream, mode="r:") as tar:
        for entry in tar:
            yield _Member(entry.name, entry.size, _tar_kind(entry), partial(tar.extractfile, entry))
        # the checksum of the whole stands behind the last member
        while stream.read(_BLOCK):
            pass


class _Limited(io.RawIOBase):
    """A tar archive as it comes out of its packing, where no header and not the whole is without end."""

    def __init__(self, stream: Any, archive: Path) -> None:
        self._stream, self._archive = stream, archive

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _MOST_SAID:
            raise DataError(f"{self._archive}: a member with a name or facts of more than {_MOST_SAID:,} bytes")
        self._check(self._stream.tell() + size)
        data: bytes = self._stream.read(size)
        return data

    def seek(self, place: int, whence: int = 0) -> int:
        self._check(place)
        position: int = self._stream.seek(place, whence)
        return position

    def tell(self) -> int:
        place: int = self._stream.tell()
        return place

    def _check(self, place: int) -> None:
        if place > MAX_BYTES:
            raise DataError(f"{self._archive}: unpacks to more than {MAX_BYTES:,} bytes, with what is not wanted")


@contextmanager
def _unpacked(archive: Path) -> Iterator[_Limited]:
    with archive.open("rb") as file:
        start = file.read(8)
    opened = next((form for magic, form in _PACKED.items() if start.startswith(magic)), lambda path: path.open("rb"))
    with opened(archive) as stream:
        yield _Limited(stream, archive)


def _zip_kind(info: zipfile.ZipInfo) -> str | None:
    kind = stat.S_IFMT(info.external_attr >> 16)
    if info.is_dir():
        return "folder"
    if kind not in (0, stat.S_IFREG):
        return "link" if kind == stat.S_IFLNK else "device"
    return "file that is encrypted" if info.flag_bits & 1 else None


def _tar_kind(entry: tarfile.TarInfo) -> str | None:
    if entry.isdir():
        return "folder"
    if entry.issym() or entry.islnk():
        return "link"
    return None if entry.isreg() else "device"


@contextmanager
def _faults(archive: Path) -> Iterator[None]:
    damaged = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, NotImplementedError)
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{archive}: no such file") from None
    except (*damaged, OSError) as error:
        # damage in gzip and bzip2 is an OSError too, but none of the system's
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise DataError(f"{archive}: is no zip or tar archive, or a damaged one ({error}); fetch it again") from None
