"""Text files line by line in bounded memory: plain or gzip, UTF-8 only, every fault an error with file and line."""

import gzip
import hashlib
import itertools
import os
import zlib
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Protocol, runtime_checkable

from headwise.errors import DataError

MAX_LINE_BYTES = 1 << 20

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


@runtime_checkable
class ByteStream(Protocol):
    """What lines are read from: an open binary file, gzip or not, or standard input."""

    def readline(self, limit: int, /) -> bytes: ...


def read_lines(path: str | os.PathLike[str], *, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[tuple[int, str]]:
    r"""Yields (line number from 1, text) of a UTF-8 file, unpacking gzip, which is known by its content.

    Only `\n` ends a line and one `\r` before it is dropped; every other control character belongs to the text. A byte
    order mark at the start is dropped. Memory: one line.

    Raises:
        DataError: `file:line: ...` for bytes that are not UTF-8, NUL, too long a line, damaged gzip; `file: ...` where
            the file cannot be opened.
    """
    name = os.fspath(path)
    with _opened(name) as stream:
        if stream.peek(2)[:2] == _GZIP:
            with gzip.GzipFile(fileobj=stream) as unpacked:
                yield from decode_lines(unpacked, name, max_line_bytes=max_line_bytes)
        else:
            yield from decode_lines(stream, name, max_line_bytes=max_line_bytes)


def decode_lines(stream: ByteStream, name: str, *, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[tuple[int, str]]:
    r"""As `read_lines`, from an open binary stream such as standard input; `name` stands in its errors.

    >>> import io
    >>> list(decode_lines(io.BytesIO(b"one\r\ntwo"), "example"))
    [(1, 'one'), (2, 'two')]
    """
    offset = 0
    for number in itertools.count(1):
        data = _bounded_line(stream, f"{name}:{number}", max_line_bytes)
        if not data:
            return
        yield number, _decoded(data, f"{name}:{number}", number == 1, offset)
        offset += len(data)


def sha256(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file's bytes, as hexadecimal text. Raises: DataError where the file cannot be read."""
    with _opened(os.fspath(path)) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


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


def _bounded_line(stream: ByteStream, place: str, limit: int) -> bytes:
    try:
        # room for the line end, so that a line of exactly `limit` bytes passes
        data = stream.readline(limit + 2)
    except EOFError:
        raise DataError(f"{place}: the gzip data ends early: the file is truncated; fetch it again") from None
    except (zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{place}: the gzip data is damaged ({error}); fetch it again") from None
    except OSError as error:
        raise DataError(f"{place}: cannot be read: {error.strerror or error}") from None
    if len(data) > limit and len(data.removesuffix(b"\n").removesuffix(b"\r")) > limit:
        raise DataError(f"{place}: the line is longer than {limit:,} bytes; split it or raise max_line_bytes")
    return data


def _decoded(data: bytes, place: str, first: bool, offset: int) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = data[error.start]
        hint = _encoding_hint(data, first)
        raise DataError(f"{place}: byte {offset + error.start:,} (0x{byte:02x}) is not UTF-8: {hint}") from None
    if first:
        text = text.removeprefix("\ufeff")
    if "\0" in text:
        hint = _nul_hint(data, first)
        raise DataError(f"{place}: NUL byte at byte {offset + data.index(0):,}: {hint}")
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
