"""Where data files lie; text line by line in bounded memory, plain or gzip, every fault with file and line; digests."""

import gzip
import hashlib
import itertools
import os
import stat
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from io import BufferedReader
from pathlib import Path, PurePath
from typing import Protocol, runtime_checkable

from headwise.data.bad_lines import BadLine
from headwise.errors import DataError
from headwise.files import user_cache

# of a line of a table, which may have many columns; and of one that is a text: its tokens take 400 times as much
MAX_LINE_BYTES = 1 << 20
TEXT_LINE_BYTES = 1 << 18

# marks a file that ships with the package
SHIPPED = "headwise:"

_GZIP = b"\x1f\x8b"
_MAGIC = {
    _GZIP: "gzip data inside gzip; unpack it once",
    b"PK\x03\x04": "a zip archive; unpack it first",
    b"BZh": "bzip2 data; unpack it first or compress it with gzip",
    b"\xfd7zXZ": "xz data; unpack it first or compress it with gzip",
    b"\x28\xb5\x2f\xfd": "zstd data; unpack it first or compress it with gzip",
    b"PAR1": "a Parquet file; export it as JSON lines",
    b"%PDF": "a PDF document; export it as plain text",
}


def data_cache() -> Path:
    """The folder of public data sets: `$HEADWISE_DATA`, else headwise/data in the user's cache folder."""
    named = os.environ.get("HEADWISE_DATA")
    if named:
        return Path(named)
    return user_cache() / "data"


def resolve(path: str) -> Path:
    """The file of a path: as it stands, else in the data cache; `headwise:NAME` is one that ships with the package.

    Raises: DataError: no such file ships.
    """
    if not path.startswith(SHIPPED):
        cached = data_cache() / path
        return cached if not Path(path).exists() and cached.exists() else Path(path)
    folder = Path(str(resources.files("headwise.data"))) / "corpora"
    names = sorted(file.name for file in folder.iterdir() if file.is_file())
    name = path.removeprefix(SHIPPED)
    if name not in names:
        raise DataError(f"{path}: no such file ships with the package; these do: {', '.join(names) or 'none'}")
    return folder / name


@runtime_checkable
class ByteStream(Protocol):
    """What lines are read from: an open binary file, gzip or not, or standard input."""

    def readline(self, limit: int, /) -> bytes: ...


def read_lines(path: str | os.PathLike[str], *, max_line_bytes: int = TEXT_LINE_BYTES) -> Iterator[tuple[int, str]]:
    r"""Yields (line number from 1, text) of a UTF-8 file, unpacking gzip, which is known by its content.

    Only `\n` ends a line and one `\r` before it is dropped; every other control character belongs to the text. A byte
    order mark at the start is dropped. Memory: one line.

    Raises:
        DataError: `file:line: ...` for bytes that are not UTF-8, NUL, too long a line, damaged gzip; `file: ...` where
            the file cannot be opened.
    """
    for number, text in scan_lines(path, max_line_bytes=max_line_bytes):
        if isinstance(text, BadLine):
            raise text
        yield number, text


def scan_lines(
    path: str | os.PathLike[str], *, max_line_bytes: int = TEXT_LINE_BYTES
) -> Iterator[tuple[int, str | BadLine]]:
    """As `read_lines`, but a line that is no text, or is too long, comes out as a `BadLine`, and reading goes on.

    Raises: DataError: the file cannot be read any further: it is not there, or its gzip data is damaged.
    """
    name = os.fspath(path)
    with _opened(name) as stream:
        if stream.peek(2)[:2] == _GZIP:
            with gzip.GzipFile(fileobj=stream) as unpacked:
                yield from _scanned(unpacked, name, max_line_bytes)
        else:
            yield from _scanned(stream, name, max_line_bytes)


def first_line(path: str | os.PathLike[str], max_line_bytes: int = MAX_LINE_BYTES) -> str:
    """The first line that is text and not blank, which shows the format of a file; empty if there is none.

    Raises: DataError: the file cannot be read, or only once, as a pipe can.
    """
    require_file(path)
    lines = (text for _, text in scan_lines(path, max_line_bytes=max_line_bytes) if isinstance(text, str))
    return next((text for text in lines if text and not text.isspace()), "")


def ending_of(path: str | os.PathLike[str]) -> str:
    """The ending of a name in small letters, without `.gz`; empty if there is none.

    >>> ending_of("reviews.CSV.gz"), ending_of("reviews")
    ('.csv', '')
    """
    endings = [suffix.lower() for suffix in PurePath(path).suffixes if suffix.lower() != ".gz"]
    return endings[-1] if endings else ""


def decode_lines(stream: ByteStream, name: str) -> Iterator[tuple[int, str]]:
    r"""As `read_lines`, from an open binary stream such as standard input; `name` stands in its errors.

    >>> import io
    >>> list(decode_lines(io.BytesIO(b"one\r\ntwo"), "example"))
    [(1, 'one'), (2, 'two')]
    """
    for number, text in _scanned(stream, name, TEXT_LINE_BYTES):
        if isinstance(text, BadLine):
            raise text
        yield number, text


def _scanned(stream: ByteStream, name: str, limit: int) -> Iterator[tuple[int, str | BadLine]]:
    offset = 0
    for number in itertools.count(1):
        data = _part_of_line(stream, f"{name}:{number}", limit)
        if not data:
            return
        if len(data) > limit and len(data.removesuffix(b"\n").removesuffix(b"\r")) > limit:
            what = f"the line is longer than {limit:,} bytes; split it, or raise data.max_line_bytes of its recipe"
            yield number, BadLine(name, number, "length", what)
            while data and not data.endswith(b"\n"):
                offset += len(data)
                data = _part_of_line(stream, f"{name}:{number}", limit)
        else:
            yield number, _decoded(data, name, number, offset)
        offset += len(data)


def require_file(path: str | os.PathLike[str]) -> None:
    """Refuses what cannot be read twice, such as a pipe. Raises: DataError."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        # opening it says what is wrong
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise DataError(f"{os.fspath(path)}: is a pipe or a device, but read more than once; write it to a file first")


@contextmanager
def digested(files: Mapping[str, Path]) -> Iterator[dict[str, str]]:
    """The SHA-256 of each file, by key, of the bytes that are read inside.

    Raises: DataError where a file changed meanwhile: what was read is then neither the old one nor the new one.
    """
    digests = {key: sha256(path) for key, path in files.items()}
    yield digests
    for key, path in files.items():
        if sha256(path) != digests[key]:
            raise DataError(f"{path}: changed while it was read; start again")


def sha256(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file's bytes, as hexadecimal text. Raises: DataError where the file cannot be read."""
    with _opened(os.fspath(path)) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def digest(path: str | os.PathLike[str]) -> str:
    """As `sha256`; of a folder that of what `listed` gives of the files in it and in its folders, hidden ones left out.

    Raises: DataError where a file cannot be read.
    """
    root = Path(path)
    if not root.is_dir():
        return sha256(root)
    files = [*root.glob("*"), *root.glob("*/*")]
    names = {file.relative_to(root).as_posix(): file for file in files if file.is_file()}
    return listed({name: sha256(file) for name, file in names.items() if not is_hidden(name)})


def is_hidden(name: str) -> bool:
    """Whether a part of a path begins with a full stop.

    >>> is_hidden("cats/.DS_Store"), is_hidden("cats/a.png")
    (True, False)
    """
    return any(part.startswith(".") for part in name.split("/"))


def listed(digests: Mapping[str, str]) -> str:
    """The SHA-256 of the lines `SHA-256  name` of several files, sorted by name, as sha256sum prints them."""
    return hashlib.sha256("".join(f"{digests[name]}  {name}\n" for name in sorted(digests)).encode()).hexdigest()


def _opened(name: str) -> BufferedReader:
    try:
        return Path(name).open("rb")
    except FileNotFoundError:
        raise DataError(f"{name}: no such file") from None
    except IsADirectoryError:
        raise DataError(f"{name}: is a folder; name a file in it") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{name!r}: cannot be opened: {reason}") from None


def _part_of_line(stream: ByteStream, place: str, limit: int) -> bytes:
    """A whole line, or what of a longer one shows that it is too long."""
    try:
        # room for the line end, so that a line of exactly `limit` bytes passes
        return stream.readline(limit + 2)
    except EOFError:
        raise DataError(f"{place}: the gzip data ends early: the file is truncated; fetch it again") from None
    except (zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{place}: the gzip data is damaged ({error}); fetch it again") from None
    except OSError as error:
        raise DataError(f"{place}: cannot be read: {error.strerror or error}") from None


def _decoded(data: bytes, name: str, number: int, offset: int) -> str | BadLine:
    first = number == 1
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = data[error.start]
        hint = _encoding_hint(data, first)
        what = f"byte {offset + error.start:,} (0x{byte:02x}) is not UTF-8: {hint}"
        return BadLine(name, number, "encoding", what)
    if first:
        text = text.removeprefix("\ufeff")
    if "\0" in text:
        hint = _nul_hint(data, first)
        return BadLine(name, number, "encoding", f"NUL byte at byte {offset + data.index(0):,}: {hint}")
    return text.removesuffix("\n").removesuffix("\r")


def _encoding_hint(data: bytes, first: bool) -> str:
    if first and data.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return "UTF-32 text; convert it with `iconv -f UTF-32 -t UTF-8`"
    if first and data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16 text; convert it with `iconv -f UTF-16 -t UTF-8`"
    if first and (magic := _magic(data)):
        return magic
    if 0 in data:
        return _nul_hint(data, first)
    controls = sum(data.count(code) for code in range(1, 32) if code not in (9, 10, 13))
    if controls * 20 > len(data):
        return "a binary file? give a text file"
    return "perhaps Latin-1; convert it with `iconv -f WINDOWS-1252 -t UTF-8`"


def _nul_hint(data: bytes, first: bool) -> str:
    if first and (magic := _magic(data)):
        return magic
    # in UTF-16 nearly every other byte of a western text is zero
    most = max(data[0::2].count(0), data[1::2].count(0))
    if most * 3 > len(data) // 2 and data.count(0) * 3 < len(data) * 2:
        return "UTF-16 text without a byte order mark; convert it with `iconv -f UTF-16LE -t UTF-8`"
    return "a binary file? give a text file"


def _magic(data: bytes) -> str | None:
    return next((hint for magic, hint in _MAGIC.items() if data.startswith(magic)), None)


class Bytes:
    """Files of at most so many bytes read whole, and the SHA-256 of what was read by what it is to a recipe's key."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._read: dict[str, dict[str, str]] = {}

    def read(self, path: Path, role: str = "", shown: str = "") -> bytes:
        """The bytes of a file. Raises: DataError `path: ...` where it cannot be read.

        Args:
            role: what is put behind the key for the digest: nothing, `_target`, or `.images` for those of a list.
            shown: the name of one of several files of this role; empty: it is the only one.
        """
        try:
            facts = os.stat(path)
            if not stat.S_ISREG(facts.st_mode):
                what = "is a folder; name a file" if stat.S_ISDIR(facts.st_mode) else "is a pipe or a device, no file"
                raise DataError(f"{path}: {what}")
            if facts.st_size > self._most:
                raise DataError(
                    f"{path}: has {facts.st_size:,} bytes, more than {self._most:,}; split it, or raise data.max_bytes"
                )
            data = path.read_bytes()
        except FileNotFoundError:
            raise DataError(f"{path}: no such file") from None
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: cannot be opened: {getattr(error, 'strerror', None) or error}") from None
        self.note(hashlib.sha256(data).hexdigest(), role, shown)
        return data

    def note(self, digest: str, role: str = "", shown: str = "") -> None:
        """Takes in the SHA-256 of what was read by other means."""
        self._read.setdefault(role, {})[shown] = digest

    def digests(self, key: str) -> dict[str, str]:
        """By key and role: of a single file that of its bytes, of several what `listed` gives."""
        return {f"{key}{role}": files[""] if "" in files else listed(files) for role, files in self._read.items()}
