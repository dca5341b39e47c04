import io
import random
import stat
import tarfile
import zipfile

import pytest

from headwise.data import archives
from headwise.data.archives import unpack
from headwise.errors import DataError


def zipped(path, *members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in members:
            out.writestr(name, data)
    return path


def tarred(path, *members, mode="w:gz"):
    with tarfile.open(path, mode) as out:
        for name, data in members:
            entry = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            entry.size = len(data)
            out.addfile(entry, io.BytesIO(data))
    return path


def special(name, kind, target=""):
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry


GOOD = ("d/", b""), ("d/a.txt", b"one"), ("d/e/b.txt", b"two"), ("c.txt", b"")


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_files_come_out_where_they_belong(pack, tmp_path):
    members = GOOD if pack is zipped else GOOD[1:]
    found = unpack(pack(tmp_path / "archive", *members), tmp_path / "out")
    assert {str(path.relative_to(tmp_path / "out")): path.read_bytes() for path in found} == {
        "d/a.txt": b"one", "d/e/b.txt": b"two", "c.txt": b"",
    }  # fmt: skip
    only = unpack(tmp_path / "archive", tmp_path / "only", chosen=lambda name: name.endswith("b.txt"), max_bytes=3)
    assert only == [tmp_path / "only" / "d" / "e" / "b.txt"]


def link():
    info = zipfile.ZipInfo("link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


@pytest.mark.parametrize("name", ["../out.txt", "/etc/out.txt", "d/../../out.txt", "c:out.txt", "d\\..\\out.txt", "."])
@pytest.mark.parametrize("pack", [zipped, tarred])
def test_names_outside_the_folder(pack, name, tmp_path):
    path = pack(tmp_path / "archive", ("good.txt", b"x"), (name, b"x"))
    with pytest.raises(DataError, match=r"names a place outside the folder|has a name that is no plain path"):
        unpack(path, tmp_path / "out", chosen=lambda name: False)
    assert [file.name for file in tmp_path.iterdir()] == ["archive"]


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        (special("a", tarfile.SYMTYPE, "/etc/passwd"), "link"),
        (special("a", tarfile.LNKTYPE, "b"), "link"),
        (special("a", tarfile.CHRTYPE), "device"),
        (special("a", tarfile.FIFOTYPE), "device"),
        (link(), "link"),
    ],
    ids=["symlink", "hard link", "device", "pipe", "zip"],
)
def test_links_and_devices(entry, what, tmp_path):
    pack = tarred if isinstance(entry, tarfile.TarInfo) else zipped
    with pytest.raises(DataError, match=f"is a {what}; nothing of such an archive is trusted"):
        unpack(pack(tmp_path / "archive", (entry, b"")), tmp_path / "out")


def test_a_name_twice(tmp_path):
    with pytest.raises(DataError, match=r"member 'A.txt' is there twice"):
        unpack(tarred(tmp_path / "archive", ("a.txt", b"1"), ("A.txt", b"2")), tmp_path / "out")


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_bombs(pack, tmp_path):
    path = pack(tmp_path / "archive", ("a", bytes(600)), ("b", bytes(401)))
    with pytest.raises(DataError, match="'b': unpacks to more than 1,000 bytes"):
        unpack(path, tmp_path / "out", max_bytes=1000)
    with pytest.raises(DataError, match="more than 1 members"):
        unpack(path, tmp_path / "less", max_files=1)


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_bombs_in_headers(form, tmp_path):
    for size in (2_000_000, 5000):
        with tarfile.open(tmp_path / "archive", "w:gz", format=form) as out:
            out.addfile(tarfile.TarInfo("a" * size))
        with pytest.raises(DataError, match=r"facts of more than 1,048,576 bytes|has a name of 5,000 characters"):
            unpack(tmp_path / "archive", tmp_path / "out")


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_what_is_not_wanted_is_not_without_end_either(mode, tmp_path, monkeypatch):
    path = tarred(tmp_path / "archive", ("a", bytes(90_000)), ("b", b"1"), mode=mode)
    assert len(unpack(path, tmp_path / "out", chosen=lambda name: name == "b")) == 1
    monkeypatch.setattr(archives, "MAX_BYTES", 80_000)
    with pytest.raises(DataError, match="unpacks to more than 80,000 bytes, with what is not wanted"):
        unpack(path, tmp_path / "less", chosen=lambda name: name == "b")


def test_a_bomb_that_lies_about_its_size(tmp_path):
    path = zipped(tmp_path / "archive", ("a", bytes(100_000)))
    data = path.read_bytes()
    # both headers say 10 bytes
    path.write_bytes(data.replace((100_000).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    with pytest.raises(DataError, match=r"damaged|more than"):
        unpack(path, tmp_path / "out", max_bytes=50)
    assert sum(file.stat().st_size for file in (tmp_path / "out").iterdir()) <= 50


@pytest.mark.parametrize("data", [b"", b"text", b"PK\x03\x04rest", b"\x1f\x8b\x08\x00"])
def test_no_archive(data, tmp_path):
    (tmp_path / "archive").write_bytes(data)
    with pytest.raises(DataError, match="archive: is no zip or tar archive, or a damaged one"):
        unpack(tmp_path / "archive", tmp_path / "out")


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_a_truncated_archive(pack, tmp_path):
    path = pack(tmp_path / "archive", ("a.txt", bytes(range(256)) * 9))
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DataError, match="fetch it again"):
        unpack(path, tmp_path / "out")


def test_no_such_archive(tmp_path):
    with pytest.raises(DataError, match="archive: no such file"):
        unpack(tmp_path / "archive", tmp_path / "out")


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz"])
@pytest.mark.parametrize("place", [0.3, 0.9])
def test_an_archive_damaged_within(kind, place, tmp_path):
    content = bytes(random.Random(0).choices(b"abcdef", k=60_000))
    path = tarred(tmp_path / "archive", ("a", content), ("b", content[::-1]), mode=f"w:{kind}")
    data = bytearray(path.read_bytes())
    at = int(place * len(data))
    data[at : at + 40] = bytes(range(40))
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"(?s)archive: is no zip or tar archive, or a damaged one .*; fetch it again"):
        unpack(path, tmp_path / "out")


def test_a_fault_of_the_disk_is_told_as_it_is(tmp_path):
    path = tarred(tmp_path / "archive", ("a", b"one"))
    (tmp_path / "out").write_bytes(b"")
    with pytest.raises(FileExistsError):
        unpack(path, tmp_path / "out")
