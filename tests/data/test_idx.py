"""IDX and .npz files: read to the byte, and no header that lies takes memory."""

import gzip
import io
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
from pictures import idx, npz

from headwise.data.idx import is_idx, parse_idx, parse_npz
from headwise.errors import DataError

ARRAY = np.arange(2 * 3 * 5, dtype=np.uint8).reshape(2, 3, 5)


@pytest.mark.parametrize("packed", [False, True])
def test_what_was_written_is_read(packed):
    for array in (ARRAY, ARRAY[0, 0], ARRAY.reshape(1, 2, 3, 5)):
        data = idx(array, packed)
        assert is_idx(data)
        np.testing.assert_array_equal(parse_idx(data, "x"), array)


def header(*sizes, kind=8):
    return bytes([0, 0, kind, len(sizes)]) + struct.pack(f">{len(sizes)}I", *sizes)


HOSTILE = {
    "nothing": (b"", "x: is no IDX file: it begins with nothing; give one, gzip or not"),
    "text": (b"hello", "x: is no IDX file: it begins with 68 65 6c 6c"),
    "no axes": (bytes([0, 0, 8, 0]), "x: is no IDX file"),
    "floats": (header(1, kind=13) + bytes(4), "x: holds floats, not unsigned bytes; give images and labels as bytes"),
    "axes": (header(1, 1, 1, 1, 1) + b"a", "x: has 5 axes; images have 3, or 4 with channels last, and labels 1"),
    "short header": (header(2, 3, 5)[:9], "x: the header ends early: the file is truncated; fetch it again"),
    "truncated": (idx(ARRAY)[:-1], "x: the header says 2 x 3 x 5 bytes, but only 29 follow; fetch the file again"),
    "more": (idx(ARRAY) + b"!", "x: more than the 2 x 3 x 5 bytes of the header follow"),
    "product": (
        header(2**31, 2**31, 2**31),
        "x: the header says .* bytes, [^ ]+ bytes in memory, more than 201,326,592; make it smaller, or",
    ),
    "lie": (header(60_000, 50, 60), "x: the header says 60000 x 50 x 60 bytes, but only 0 follow"),
    "packed lie": (gzip.compress(header(60_000, 50, 60)), "but only 0 follow"),
    "bomb": (gzip.compress(header(2, 2) + bytes(1 << 24)), "x: more than the 2 x 2 bytes"),
    "cut gzip": (idx(ARRAY, True)[:-9], "x: the gzip data ends early: the file is truncated; fetch it again"),
    "damaged gzip": (idx(ARRAY, True)[:10] + b"\xff" * 40, "x: the gzip data is damaged"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_headers_are_refused_and_take_no_memory(name):
    data, message = HOSTILE[name]
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=message):
            parse_idx(data, "x")
        assert tracemalloc.get_traced_memory()[1] < 1 << 25
    finally:
        tracemalloc.stop()


def test_what_is_no_idx_file_is_seen_by_its_beginning():
    assert not any(map(is_idx, (b"", b"\0\0\x08", b"PK\x03\x04", b"\x1f\x8bxx", gzip.compress(b"text"))))


def test_arrays_of_npz_are_read():
    found = parse_npz(npz(images=ARRAY, labels=np.array(["a", "b"]), more=ARRAY), "x", ("images", "labels"))
    np.testing.assert_array_equal(found["images"], ARRAY)
    assert found["labels"].tolist() == ["a", "b"]
    turned = parse_npz(npz(images=np.asfortranarray(ARRAY)), "x", ("images", "labels"))
    np.testing.assert_array_equal(turned["images"], ARRAY)


def archive(content, name="images.npy"):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr(name, content)
    return buffer.getvalue()


def claimed(shape, kind="'|u1'"):
    """A header of numpy that says so, and four bytes."""
    text = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(4)


def moved(data):
    """An archive whose directory says that it begins behind where it does, so what it lists lies before the file."""
    place = data.rindex(b"PK\x05\x06") + 16
    (start,) = struct.unpack_from("<I", data, place)
    return data[:place] + struct.pack("<I", start + 3) + data[place + 4 :]


NPZ = {
    "a header that never ends": (archive(claimed("(4,)", "('|u1', (")), "x: images: is no array of numpy"),
    "a place before the beginning": (moved(npz(images=ARRAY)), "x: is damaged or no .npz file"),
    "no zip": (b"PK\x03\x04 but no more", "x: is damaged or no .npz file"),
    "cut": (npz(images=ARRAY)[:-30], "x: is damaged or no .npz file"),
    "other names": (
        npz(x=ARRAY, y=ARRAY),
        "x: has no array 'images'; it has: x, y; set data.images_key to one of them",
    ),
    "empty": (npz(), "x: has no array 'images'; it has: none"),
    "objects": (npz(images=np.array([{}, []], object)), "x: images: holds Python objects, which may be code"),
    "no array": (archive(b"text"), "x: images: is no array of numpy"),
    "huge": (
        archive(claimed("(99999999999, 9)")),
        r"x: images: the header says \(99999999999, 9\) of uint8, [^ ]+ bytes in memory, more than",
    ),
    "lie": (archive(claimed("(9999, 9)")), r"x: images: the header says \(9999, 9\) of uint8, but 4 bytes follow"),
    "negative": (archive(claimed("(-4,)")), "x: images: "),
    "not a shape": (archive(claimed("('a',)")), "x: images: is no array of numpy"),
    "code": (archive(claimed("(4,)", "__import__('os')")), "x: images: is no array of numpy"),
}


@pytest.mark.parametrize("name", NPZ)
def test_hostile_archives_are_refused(name):
    data, message = NPZ[name]
    with pytest.raises(DataError, match=message):
        parse_npz(data, "x", ("images", "labels"))
