"""Arrays in single files: IDX, the format of MNIST, and the arrays of an .npz file; headers are distrusted."""

import gzip
import io
import lzma
import math
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from headwise.errors import DataError, listing

# of a file, and of what it unpacks to, where a recipe says nothing else
MAX_BYTES = 3 << 26
# what one of many things takes at least: an object of Python, its name, its places in lists
EACH_BYTES = 512

# so many bytes or fewer
Read = Callable[[int], bytes]

_GZIP = b"\x1f\x8b"
_TYPES = {8: "unsigned bytes", 9: "signed bytes", 11: "shorts", 12: "integers", 13: "floats", 14: "doubles"}
_CHUNK = 1 << 20
# the header of an array is shorter
_HEADER = 1 << 16
# what the readers of archives raise for bytes that are none
_DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError, ValueError, RuntimeError)


def is_idx(data: bytes) -> bool:
    """Whether these bytes, perhaps packed by gzip, begin as an IDX file does."""
    if data.startswith(_GZIP):
        try:
            data = zlib.decompressobj(wbits=31).decompress(data[:256], 4)
        except zlib.error:
            return False
    return len(data) >= 4 and data[:2] == b"\0\0" and data[2] in _TYPES and data[3] > 0


def parse_idx(data: bytes, name: str, max_bytes: int = MAX_BYTES) -> UInt8[np.ndarray, "..."]:
    """The array of an IDX file of unsigned bytes, plain or gzip. Memory: what the file really has.

    Raises:
        DataError: `name: ...` for another format or type, sizes that are not those of the content or take more than
            `max_bytes`, damaged gzip data.

    >>> parse_idx(bytes([0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 3, 7, 8, 9]), "example").tolist()
    [[7, 8, 9]]
    """
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) if data.startswith(_GZIP) else io.BytesIO(data) as stream:
            sizes = _sizes(stream.read, name)
            size = math.prod(sizes)
            check_size(size + len(data), f"{name}: the header says {' x '.join(map(str, sizes))} bytes", max_bytes)
            body = _read(stream.read, size + 1)
    except EOFError:
        raise DataError(f"{name}: the gzip data ends early: the file is truncated; fetch it again") from None
    except (zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{name}: the gzip data is damaged ({error}); fetch it again") from None
    shape = " x ".join(map(str, sizes))
    if len(body) < size:
        raise DataError(f"{name}: the header says {shape} bytes, but only {len(body):,} follow; fetch the file again")
    if len(body) > size:
        raise DataError(f"{name}: more than the {shape} bytes of the header follow; fetch the file again")
    return np.frombuffer(body, np.uint8).reshape(sizes)


def parse_npz(
    source: bytes | Path,
    name: str,
    keys: Sequence[str] = (),
    setting: str = "data.images_key",
    *,
    max_bytes: int = MAX_BYTES,
    least: int = 1,
) -> dict[str, np.ndarray]:
    """The arrays of these names in an .npz file; those that it lacks are left out.

    Args:
        source: the content of the file, or where it is.
        keys: which arrays; none: all.
        setting: the key of a recipe that names the first of them, for the error.
        max_bytes: that all of them take, and the content; a header that says more is refused before it is unpacked.
        least: bytes that a number takes in use, if more than in the file.

    Raises: DataError: `name: ...` for damaged content, objects in place of numbers or texts, false sizes.
    """
    arrays: dict[str, np.ndarray] = {}
    left = max_bytes - (0 if isinstance(source, Path) else len(source))
    try:
        with zipfile.ZipFile(source if isinstance(source, Path) else io.BytesIO(source)) as archive:
            inside = {member.filename.removesuffix(".npy"): member.filename for member in archive.infolist()}
            for key in [key for key in keys if key in inside] if keys else inside:
                arrays[key] = _member(archive, inside[key], f"{name}: {key}", left, least)
                left -= max(arrays[key].nbytes, arrays[key].size * least)
    except FileNotFoundError:
        raise DataError(f"{name}: no such file") from None
    except _DAMAGED as error:
        raise DataError(f"{name}: is damaged or no .npz file ({error}); fetch or write it again") from None
    if keys and keys[0] not in arrays:
        listed = listing(sorted(inside)) or "none"
        raise DataError(f"{name}: has no array '{keys[0]}'; it has: {listed}; set {setting} to one of them")
    return arrays


def check_size(size: int, claim: str, max_bytes: int) -> None:
    """Refuses what would take more bytes than are allowed. Raises: DataError, which begins with `claim`."""
    if size > max_bytes:
        raise DataError(
            f"{claim}, {size:,} bytes in memory, more than {max_bytes:,}; make it smaller, or raise data.max_bytes"
        )


def _member(archive: zipfile.ZipFile, member: str, place: str, max_bytes: int, least: int) -> np.ndarray:
    with archive.open(member) as stream:
        start = io.BytesIO(stream.read(_HEADER))
        try:
            version = np.lib.format.read_magic(start)
            header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, fortran, kind = header(start)
        except Exception as error:  # a header is read as a piece of Python, which fails in many ways
            raise DataError(f"{place}: is no array of numpy ({str(error)[:80]}); write it with numpy.savez") from None
        if kind.hasobject:
            raise DataError(f"{place}: holds Python objects, which may be code; write numbers or texts of fixed width")
        count, claim = math.prod(shape), f"{place}: the header says {shape} of {kind}"
        check_size(count * max(kind.itemsize, least), claim, max_bytes)
        body = _read(stream.read, count * kind.itemsize + 1, start.read())
    if not kind.itemsize or min(shape, default=0) < 0 or count * kind.itemsize != len(body):
        raise DataError(f"{claim}, but {len(body):,} bytes follow; write it again")
    return np.frombuffer(body, kind).reshape(shape, order="F" if fortran else "C")


def _sizes(read: Read, name: str) -> tuple[int, ...]:
    start = read(4)
    if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in _TYPES or not start[3]:
        raise DataError(f"{name}: is no IDX file: it begins with {start.hex(' ') or 'nothing'}; give one, gzip or not")
    if start[2] != 8:
        raise DataError(f"{name}: holds {_TYPES[start[2]]}, not unsigned bytes; give images and labels as bytes")
    if start[3] > 4:
        raise DataError(f"{name}: has {start[3]} axes; images have 3, or 4 with channels last, and labels 1")
    axes = read(4 * start[3])
    if len(axes) < 4 * start[3]:
        raise DataError(f"{name}: the header ends early: the file is truncated; fetch it again")
    sizes = struct.unpack(f">{start[3]}I", axes)
    return sizes


def _read(read: Read, most: int, begun: bytes = b"") -> bytearray:
    """So many bytes or what there is, with those that have been read; a false size takes no memory."""
    body = bytearray(begun)
    while len(body) < most and (part := read(min(most - len(body), _CHUNK))):
        body += part
    return body
