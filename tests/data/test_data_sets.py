"""The catalogue, and data sets of this machine in the forms that the real ones have."""

import gzip
import hashlib
import io
import tomllib
import wave
import zipfile

import numpy as np
import pytest

from headwise.data import data_sets
from headwise.data.data_sets import DataSet, File, fetch, state
from headwise.data.forms import FORMS, content_digest, recordings
from headwise.data.idx import parse_npz
from headwise.errors import ConfigError, DataError
from headwise.training import recipes


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def made(*files, **more):
    about = {"title": "t", "task": "tag", "home": "https://home", "licence": "MIT", "citation": "c"}
    return DataSet(**about, files=files, **more)


@pytest.mark.parametrize("name", data_sets.names())
def test_every_data_set_is_described(name):
    data = data_sets.find(name)
    assert data.by_hand or all(file.url for file in data.files)
    for file in data.files:
        assert file.form in FORMS
        assert len(file.sha256) == 64
        assert file.url is None or file.url.startswith(("https://", "http://fashion-mnist."))


def test_every_data_file_of_a_recipe_is_in_the_catalogue():
    named = [
        (path.stem, value)
        for path in recipes.shipped().values()
        for value in tomllib.loads(path.read_text(encoding="utf-8")).get("data", {}).values()
        # drawn by `headwise data make`, or put together by the commands in the comments of the recipe
        if isinstance(value, str) and "/" in value and not value.startswith(("synthetic/", f"{path.stem}/"))
    ]
    assert len(named) > 9
    for recipe, value in named:
        name, _, file = value.partition("/")
        assert file in {one.name for one in data_sets.find(name).files}, recipe


def test_an_unknown_data_set():
    with pytest.raises(ConfigError, match="unknown data set 'coro'; did you mean 'cora'"):
        data_sets.find("coro")


LINES = b"".join(b"%d\tb\tc\n" % n for n in range(150))
FEW = b"".join(LINES.splitlines(keepends=True)[:100])
TWO = LINES.replace(b"\tc", b"")
EXPECTED = {"copied": LINES, "packed": LINES, "head": FEW, "two_columns": TWO}


@pytest.mark.parametrize("form", EXPECTED)
@pytest.mark.parametrize("packed", [False, True])
def test_files_are_fetched_once_in_their_form(form, packed, tmp_path):
    source = tmp_path / "source"
    source.write_bytes(LINES)
    if packed:
        with zipfile.ZipFile(tmp_path / "source.zip", "w") as out:
            out.writestr("other-a.txt", b"no")
            out.writestr("top/a.txt", LINES)
        source = tmp_path / "source.zip"
    name = "a.gz" if form in ("packed", "two_columns") else "a"
    member = "a.txt" if packed else None
    file = File(name=name, size_bytes=9, sha256=sha256(EXPECTED[form]), url=source.as_uri(), member=member, form=form)
    place = tmp_path / "data" / "set"
    assert state(made(file), place) == "missing"
    assert list(fetch(made(file), place)) == [(place / name, "fetched")]
    found = (place / name).read_bytes()
    assert (gzip.decompress(found) if name == "a.gz" else found) == EXPECTED[form]
    source.unlink()
    assert list(fetch(made(file), place)) == [(place / name, "there")]
    assert state(made(file), place) == "there"
    # nothing else is left behind
    assert [path.name for path in place.iterdir()] == [name]
    assert [path.name for path in place.parent.iterdir()] == ["set"]


def test_files_of_one_archive(tmp_path):
    with zipfile.ZipFile(tmp_path / "both.zip", "w") as out:
        out.writestr("a", b"1")
        out.writestr("b", b"2")
    url = "https://nowhere.invalid/path/both.zip"
    files = [
        File(name=name, size_bytes=1, sha256=sha256(data), url=url, member=name)
        for name, data in (("a", b"1"), ("b", b"2"))
    ]
    # what was downloaded by other means stands in for the address
    assert [what for _, what in fetch(made(*files), tmp_path / "set", tmp_path)] == ["fetched"] * 2
    (tmp_path / "set" / "b").unlink()
    assert state(made(*files), tmp_path / "set") == "partly"
    assert [what for _, what in fetch(made(*files), tmp_path / "set", tmp_path)] == ["there", "fetched"]


def test_another_content_is_refused_and_nothing_is_replaced(tmp_path):
    (tmp_path / "source").write_bytes(b"new")
    place = tmp_path / "data" / "set"
    file = File(name="a", size_bytes=3, sha256=sha256(b"old"), url=(tmp_path / "source").as_uri())
    with pytest.raises(DataError, match=rf"content has SHA-256 {sha256(b'new')}, expected .*see https://home"):
        list(fetch(made(file), place))
    assert not place.exists()
    place.mkdir()
    (place / "a").write_bytes(b"mine")
    with pytest.raises(DataError, match=r"a: its content has SHA-256 .*; remove it to fetch it again"):
        list(fetch(made(file), place))
    assert (place / "a").read_bytes() == b"mine"
    # a set that moves on is taken as it is
    (place / "a").unlink()
    assert [what for _, what in fetch(made(file, moving=True), place)] == ["fetched"]


@pytest.mark.parametrize("form", ["copied", "head"])
def test_an_archive_unpacks_to_no_more_than_the_catalogue_allows(form, tmp_path, monkeypatch):
    monkeypatch.setattr(data_sets, "_LEAST_BYTES", 1000)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_BZIP2) as out:
        out.writestr("a", bytes(2**20))
    file = File(name="a", size_bytes=5, sha256="0", url=(tmp_path / "bomb.zip").as_uri(), member="a", form=form)
    with pytest.raises(DataError, match=r"'a': unpacks to more than 1,020 bytes; not unpacked"):
        list(fetch(made(file), tmp_path / "data" / "set"))
    # no part of it, and no folder for it
    assert list((tmp_path / "data").iterdir()) == []
    with pytest.raises(DataError, match="content has SHA-256"):
        list(fetch(made(file, download_bytes=2**20), tmp_path / "data" / "set"))
    assert list((tmp_path / "data").iterdir()) == []


def test_what_cannot_be_fetched_says_what_to_do(tmp_path):
    with pytest.raises(DataError, match=r"set/a: is not there, and cannot be fetched: ask the authors"):
        list(fetch(made(File(name="a", size_bytes=1, sha256="0"), by_hand="ask the authors"), tmp_path / "set"))
    url = (tmp_path / "none.zip").as_uri()
    with pytest.raises(DataError, match=r"none.zip: cannot be reached .*; --from FOLDER takes none.zip from a folder"):
        list(fetch(made(File(name="a", size_bytes=1, sha256="0", url=url)), tmp_path / "set"))
    with zipfile.ZipFile(tmp_path / "none.zip", "w") as out:
        out.writestr("b", b"")
    with pytest.raises(DataError, match=r"no 'a' in it; the archive has changed; see https://home"):
        list(fetch(made(File(name="a", size_bytes=1, sha256="0", url=url, member="a")), tmp_path / "set"))


def wav(samples, rate=8000, channels=1):
    raw = io.BytesIO()
    with wave.open(raw, "wb") as out:
        out.setparams((channels, 2, rate, 0, "NONE", ""))
        out.writeframes(np.array(samples, "<i2").tobytes())
    return raw.getvalue()


def test_recordings_become_arrays(tmp_path):
    folder = tmp_path / "recordings"
    folder.mkdir()
    for name, samples in (("1_theo_0", [5]), ("0_theo_10", [1, -2]), ("0_theo_9", [7, 8, 9]), ("0_ann_0", [])):
        (folder / f"{name}.wav").write_bytes(wav(samples))
    recordings(tmp_path, tmp_path / "all.npz")
    arrays = parse_npz(tmp_path / "all.npz", "all.npz")
    assert arrays["audio"].tolist() == [7, 8, 9, 1, -2, 5]
    assert arrays["offsets"].tolist() == [0, 0, 3, 5, 6]
    assert (arrays["labels"].tolist(), arrays["take"].tolist()) == ([0, 0, 0, 1], [0, 9, 10, 0])
    assert arrays["speakers"][arrays["speaker_ids"]].tolist() == ["ann", "theo", "theo", "theo"]
    assert (arrays["audio"].dtype, arrays["sample_rate"].item()) == (np.int16, 8000)
    # packed again, the bytes differ and the content does not
    np.savez(tmp_path / "again.npz", **arrays)
    assert content_digest(tmp_path / "again.npz") == content_digest(tmp_path / "all.npz")
    np.savez(tmp_path / "other.npz", **{**arrays, "take": arrays["take"].astype(np.int64)})
    assert content_digest(tmp_path / "other.npz") != content_digest(tmp_path / "all.npz")


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("1_theo_0.wav", b"RIFF", "is no WAV file, or a damaged one"),
        ("1_theo_0.wav", b"", "is no WAV file, or a damaged one"),
        ("1_theo_0.wav", wav([1], rate=16000), r"are \(1, 2, 16000\), expected \(1, 2, 8000\)"),
        ("1_theo_0.wav", wav([1, 2], channels=2), r"are \(2, 2, 8000\)"),
        ("theo_1_0.wav", wav([1]), "is not named digit_speaker_take.wav"),
        ("1_theo.wav", wav([1]), "is not named digit_speaker_take.wav"),
        ("1_theo_0.txt", b"", "no recordings in it"),
    ],
)
def test_recordings_that_are_none(name, data, message, tmp_path):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=message):
        recordings(tmp_path, tmp_path / "all.npz")


@pytest.mark.parametrize(
    ("name", "data"),
    [("a.gz", b"no gzip"), ("a.gz", gzip.compress(b"x", mtime=0)[:-4]), ("a.npz", b"no zip"), ("a.npz", b"")],
)
def test_contents_that_cannot_be_read(name, data, tmp_path):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=f"{name}: (cannot be read|is damaged) .*fetch (it|or write it) again"):
        content_digest(tmp_path / name)
