import gzip
import hashlib
import zipfile
from pathlib import Path

import pytest

from headwise import textbook as d2l
from headwise.errors import ConfigError, DataError
from headwise.textbook.data import FRA_ENG


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setenv("HEADWISE_DATA", str(folder))
    return folder


def published(monkeypatch, path):
    """A page adds an archive of its own."""
    digest = hashlib.sha1(path.read_bytes()).hexdigest()
    monkeypatch.setitem(d2l.DATA_HUB, "pairs", (path.as_uri(), digest))


@pytest.mark.parametrize("inside", ["pairs/", ""])
def test_an_archive_is_fetched_once_and_unpacked(inside, cache, tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "pairs.zip", "w") as out:
        out.writestr(f"{inside}a.txt", "go\tva")
    published(monkeypatch, tmp_path / "pairs.zip")
    for _ in range(2):
        home = Path(d2l.download_extract("pairs"))
        assert home == cache / "pairs"
        assert (home / "a.txt").read_text() == "go\tva"
        (tmp_path / "pairs.zip").unlink(missing_ok=True)
    assert sorted(path.name for path in cache.iterdir()) == ["pairs", "pairs.zip"]
    assert d2l.download("pairs") == str(cache / "pairs.zip")


def test_the_pairs_of_the_book_come_from_those_that_are_there(cache):
    file = cache / FRA_ENG
    file.parent.mkdir()
    # what is damaged leaves nothing that would pass for the pairs
    file.write_bytes(gzip.compress(b"Go.\tVa !\n")[:-9])
    with pytest.raises(DataError, match=r"fra-eng.tsv.gz: .*damaged"):
        d2l.download_extract("fra-eng")
    file.write_bytes(b"Go.")
    with pytest.raises(DataError, match=r"fra-eng.tsv.gz: .*damaged"):
        d2l.download_extract("fra-eng")
    file.write_bytes(gzip.compress("Go.\tVa\u202f!\n".encode()))
    assert (Path(d2l.download_extract("fra-eng")) / "fra.txt").read_text(encoding="utf-8") == "Go.\tVa\u202f!\n"


def test_what_cannot_be_had(cache, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="unknown file of DATA_HUB 'fra-end'"):
        d2l.download("fra-end")
    monkeypatch.setitem(d2l.DATA_HUB, "pairs", ((tmp_path / "none.zip").as_uri(), "0"))
    with pytest.raises(DataError, match=r"cache/none.zip"):
        d2l.download_extract("pairs")
