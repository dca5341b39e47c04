"""Lines of files: what ends a line, which encodings are refused and how, bounded memory."""

import gzip
import io
import re
import tracemalloc

import pytest

from headwise.data import files
from headwise.data.files import TEXT_LINE_BYTES, decode_lines, digested, read_lines, resolve, sha256
from headwise.errors import DataError


def write(tmp_path, data, name="file.txt"):
    path = tmp_path / name
    path.write_bytes(data)
    return path


def texts(path, **options):
    return [text for _, text in read_lines(path, **options)]


def refused(path, message, **options):
    with pytest.raises(DataError, match=message) as caught:
        list(read_lines(path, **options))
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 3


def test_lines_are_numbered_from_one(tmp_path):
    assert list(read_lines(write(tmp_path, b"a\n\nb\n"))) == [(1, "a"), (2, ""), (3, "b")]


def test_last_line_without_newline_counts(tmp_path):
    assert texts(write(tmp_path, b"a\nb")) == ["a", "b"]


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf"])
def test_nothing_in_the_file(tmp_path, data):
    assert "".join(texts(write(tmp_path, data))) == ""


def test_byte_order_mark_is_dropped_only_at_the_start(tmp_path):
    assert texts(write(tmp_path, b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n")) == ["a", "\ufeffb"]


def test_only_newline_ends_a_line(tmp_path):
    inside = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\rh"
    assert texts(write(tmp_path, f"{inside}\r\nnext\r\r\n".encode())) == [inside, "next\r"]


@pytest.mark.parametrize("name", ["file.gz", "file.txt"])
def test_gzip_is_known_by_content(tmp_path, name):
    assert texts(write(tmp_path, gzip.compress(b"a\r\nb\n"), name)) == ["a", "b"]


def test_plain_text_in_a_file_named_gz(tmp_path):
    assert texts(write(tmp_path, b"a\n", "file.gz")) == ["a"]


def test_several_gzip_members_are_one_file(tmp_path):
    assert texts(write(tmp_path, gzip.compress(b"a\nb") + gzip.compress(b"c\n"))) == ["a", "bc"]


@pytest.mark.parametrize("cut", [3, 12, 200, -9, -1])
def test_truncated_gzip(tmp_path, cut):
    data = gzip.compress("".join(f"sentence {n * n}\n" for n in range(997)).encode())
    refused(write(tmp_path, data[:cut]), r"file\.txt:\d+: the gzip data ends early: the file is truncated")


@pytest.mark.parametrize("place", [300, -6])
def test_corrupt_gzip(tmp_path, place):
    data = bytearray(gzip.compress("".join(f"sentence {n * n}\n" for n in range(997)).encode()))
    data[place] ^= 0xFF
    refused(write(tmp_path, bytes(data)), r"file\.txt:\d+: (the gzip data is damaged|byte .* is not UTF-8)")


def test_garbage_after_gzip(tmp_path):
    refused(write(tmp_path, gzip.compress(b"a\n") + b"garbage"), r":2: the gzip data is damaged")


def test_latin_1_names_line_byte_and_hint(tmp_path):
    refused(
        write(tmp_path, b"abc\ncaf\xe9 noir\n"),
        r"file\.txt:2: byte 7 \(0xe9\) is not UTF-8: perhaps Latin-1; convert it with `iconv -f WINDOWS-1252 -t UTF-8`",
    )


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-be"])
def test_utf_16_with_mark(tmp_path, codec):
    data = "go\tva\n".encode(codec)
    data = data if codec == "utf-16" else b"\xfe\xff" + data
    refused(write(tmp_path, data), r":1: byte 0 \(0xf[ef]\) is not UTF-8: UTF-16 text; convert it with `iconv")


def test_utf_32(tmp_path):
    refused(write(tmp_path, "go\tva\n".encode("utf-32")), r":1: .* UTF-32 text; convert it")


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_mark_is_valid_utf_8_with_nul(tmp_path, codec):
    refused(
        write(tmp_path, "go\tva\n".encode(codec)), r":1: NUL byte at byte \d: UTF-16 text without a byte order mark"
    )


def test_utf_16_without_mark_that_is_not_utf_8(tmp_path):
    refused(write(tmp_path, "café noir\tva\n".encode("utf-16-le")), r":1: byte 6 \(0xe9\) .* without a byte order mark")


def test_nul_byte(tmp_path):
    refused(write(tmp_path, b"first\nsec\0ond line\n"), r"file\.txt:2: NUL byte at byte 9: a binary file\? give a text")


def test_binary_bytes(tmp_path):
    refused(write(tmp_path, bytes(range(128, 160)) + bytes(range(1, 9)) * 9), r":1: byte 0 \(0x80\) .* a binary file\?")


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        (b"PK\x03\x04\x14\x00rest", "a zip archive; unpack it first"),
        (b"BZh91AY&SY\xd7", "bzip2 data"),
        (b"\xfd7zXZ\x00", "xz data"),
        (b"\x28\xb5\x2f\xfd\x04", "zstd data"),
        (b"PAR1\x15\x04\x00", "a Parquet file"),
        (b"%PDF-1.5 \xb5", "a PDF document"),
        # without the time, which would differ between processes that collect the tests
        (gzip.compress(gzip.compress(b"a", mtime=0), mtime=0), "gzip data inside gzip; unpack it once"),
    ],
)
def test_known_binary_formats_are_named(tmp_path, data, hint):
    refused(write(tmp_path, data), f":1: .*{hint}")


def test_longest_line_passes_and_one_byte_more_does_not(tmp_path):
    for end in (b"", b"\n", b"\r\n"):
        assert texts(write(tmp_path, b"x" * 11 + end), max_line_bytes=11) == ["x" * 11]
        path = write(tmp_path, b"ok\n" + b"x" * 12 + end)
        refused(
            path,
            r"file\.txt:2: the line is longer than 11 bytes; split it, or raise data.max_line_bytes of",
            max_line_bytes=11,
        )


@pytest.mark.parametrize("packed", [False, True])
def test_huge_line_is_refused_in_little_memory(tmp_path, packed):
    path = tmp_path / "huge"
    with gzip.open(path, "wb", compresslevel=1) if packed else path.open("wb") as stream:
        for _ in range(64):
            stream.write(b"x" * (1 << 20))
    tracemalloc.start()
    refused(path, rf"huge:1: the line is longer than {TEXT_LINE_BYTES:,} bytes")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20


def test_missing_file_and_folder(tmp_path):
    refused(tmp_path / "none.tsv", r"none\.tsv: no such file")
    refused(tmp_path, "is a folder; name a file in it")
    refused(tmp_path / "file\0name", r"file\\x00name': cannot be opened: embedded null byte")


def test_a_file_as_folder(tmp_path):
    refused(write(tmp_path, b"a") / "inner", "cannot be opened: Not a directory")


def test_read_error_is_named():
    class Broken:
        def readline(self, limit):
            raise OSError(5, "Input/output error")

    with pytest.raises(DataError, match=r"disk:1: cannot be read: Input/output error"):
        list(decode_lines(Broken(), "disk"))


def test_stream(tmp_path):
    assert list(decode_lines(io.BytesIO(b"\xef\xbb\xbfa\r\nb"), "<stdin>")) == [(1, "a"), (2, "b")]
    with pytest.raises(DataError, match=re.escape("<stdin>:1: byte 0 (0xff)")):
        list(decode_lines(io.BytesIO(b"\xff\n"), "<stdin>"))


def test_sha256(tmp_path):
    assert sha256(write(tmp_path, b"abc")).startswith("ba7816bf8f01cfea")  # FIPS 180-2, appendix B.1
    with pytest.raises(DataError, match="no such file"):
        sha256(tmp_path / "none")


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path):
    path = write(tmp_path, b"one\n")
    with digested({"train": path}) as digests:
        assert texts(path) == ["one"]
    assert digests == {"train": sha256(path)}
    with pytest.raises(DataError, match=r"file.txt: changed while it was read; start again"), digested({"train": path}):
        path.write_bytes(b"two\n")


def test_shipped_files(tmp_path, monkeypatch):
    assert resolve("some/file.tsv").name == "file.tsv"
    (tmp_path / "corpora").mkdir()
    shipped = tmp_path / "corpora" / "small.tsv"
    shipped.touch()
    monkeypatch.setattr(files.resources, "files", lambda package: tmp_path)
    assert resolve("headwise:small.tsv") == shipped
    with pytest.raises(DataError, match=r"headwise:nothing: no such file ships with the package; these do: small.tsv"):
        resolve("headwise:nothing")
    with pytest.raises(DataError, match="no such file ships"):
        resolve("headwise:../readers.py")
