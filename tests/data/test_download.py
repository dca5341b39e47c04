import errno
import hashlib

import pytest
from serving import serving

from headwise.data import download as module
from headwise.data.download import download
from headwise.errors import ConfigError, DataError

BODY = b"a line\n" * 100
SHA256 = "sha256", hashlib.sha256(BODY).hexdigest()
PAGES = {
    "/good": (200, {"Content-Length": str(len(BODY))}, BODY),
    "/unannounced": (200, {}, BODY),
    "/moved": (302, {"Location": "/good"}, b""),
    "/truncated": (200, {"Content-Length": str(len(BODY) + 1)}, BODY),
    "/loop": (302, {"Location": "/loop"}, b""),
    "/to-a-file": (302, {"Location": "file:///etc/hostname"}, b""),
    "/broken": (500, {}, b""),
    "/chunks": (200, {"Transfer-Encoding": "chunked"}, b"zz\r\n"),
    "/huge": (200, {"Content-Length": str(1 << 40)}, b""),
    "/digits": (200, {"Content-Length": "9" * 5000}, b""),
    "/nothing": (200, {"Content-Length": "0"}, b""),
}


@pytest.fixture(scope="module")
def server():
    with serving(PAGES) as address:
        yield address


@pytest.mark.parametrize("page", ["good", "unannounced", "moved"])
def test_a_file_comes_whole(server, page, tmp_path):
    told = []
    path = tmp_path / "new" / "file.txt"
    download(f"{server}/{page}", path, digest=SHA256, max_bytes=len(BODY), progress=lambda *now: told.append(now))
    assert path.read_bytes() == BODY
    assert told[-1] == (len(BODY), None if page == "unannounced" else len(BODY))
    assert [file.name for file in path.parent.iterdir()] == ["file.txt"]


def test_a_file_of_this_machine(tmp_path):
    (tmp_path / "a").write_bytes(BODY)
    download((tmp_path / "a").as_uri(), tmp_path / "b", digest=("sha1", hashlib.sha1(BODY).hexdigest()), max_bytes=700)
    assert (tmp_path / "b").read_bytes() == BODY


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("none", "answers 404 Not Found; try again, or fetch it by other means"),
        ("broken", "answers 500"),
        ("truncated", "broke off after 700 of 701 bytes; run the same command again"),
        ("loop", "answers 302 .*infinite loop"),
        ("to-a-file", "answers 302 .*not allowed"),
        ("chunks", "broke off"),
        ("huge", "1,099,511,627,776 bytes are announced, more than the 1,000 that are allowed"),
        ("digits", "announces a length of 5,000 digits; try again"),
        ("nothing", "its sha256 is e3b0c44.*nothing was kept"),
    ],
)
def test_what_is_refused_leaves_nothing(server, page, message, tmp_path):
    with pytest.raises(DataError, match=message):
        download(f"{server}/{page}", tmp_path / "file", digest=SHA256, max_bytes=1000)
    assert list(tmp_path.iterdir()) == []


def test_an_old_file_stays_where_the_new_one_is_wrong(server, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(DataError, match=f"not {'0' * 64}: changed at its source, or damaged on the way"):
        download(f"{server}/good", path, digest=("sha256", "0" * 64), max_bytes=1000)
    assert path.read_bytes() == b"old"


def test_more_than_is_allowed_breaks_off(server, tmp_path):
    with pytest.raises(DataError, match="gives more than the 699 bytes that are allowed"):
        download(f"{server}/unannounced", tmp_path / "file", max_bytes=699)
    download(f"{server}/unannounced", tmp_path / "file", max_bytes=700)


def test_a_slow_file_is_given_up(server, tmp_path, monkeypatch):
    clock = iter([0.0, 61.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    with pytest.raises(DataError, match=r"took longer than 60 s \(700 bytes came\)"):
        download(f"{server}/good", tmp_path / "file", max_bytes=1000, limit_s=60.0)


def test_no_server(tmp_path):
    with serving({}) as address:
        pass
    with pytest.raises(DataError, match=r"cannot be reached \(.*refused.*\); try again, or fetch it by other means"):
        download(f"{address}/good", tmp_path / "file", max_bytes=1000)


@pytest.mark.parametrize("url", ["ftp://host/file", "data:,text", "file.txt", "javascript:1"])
def test_other_addresses(url, tmp_path):
    with pytest.raises(ConfigError, match="must start with https, http, file"):
        download(url, tmp_path / "file", max_bytes=1000)


def test_a_full_disk(server, tmp_path, monkeypatch):
    class Full:
        def update(self, _):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module.hashlib, "new", lambda _: Full())
    with pytest.raises(OSError, match="No space left") as found:
        download(f"{server}/good", tmp_path / "file", max_bytes=1000)
    # the command line names the file that was asked for
    assert found.value.filename == str(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []
