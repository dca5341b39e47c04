"""Lists of WAV files and archives of joined audio, good and hostile; their parts."""

import numpy as np
import pytest
from sounds import RATE, archive, listed, tones, wave

from headwise.config import build
from headwise.data.bad_lines import strict
from headwise.errors import ConfigError, DataError
from headwise.tasks.speech import recordings as recording_files
from headwise.tasks.speech.recordings import RecordingsConfig, named, scan_recordings
from headwise.tasks.speech.sounds import parse_sound
from headwise.tasks.speech.utterances import load_recordings, read_recordings

TAKES = {"group_key": "take", "valid_groups": ["1"], "test_groups": ["0"]}


def config(**values):
    return build(RecordingsConfig, {"train": "list.csv"} | values, "data")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    listed(tmp_path, 8)
    (tmp_path / "tones.npz").write_bytes(archive())
    return tmp_path


def test_a_list_and_an_archive_hold_the_same(folder):
    one = list(strict(scan_recordings(folder / "list.csv", config())))
    two = list(strict(scan_recordings(folder / "tones.npz", config())))
    samples, names = tones(8)
    assert [found.label for found in one] == [found.label for found in two] == names
    for first, second, wanted in zip(one, two, samples, strict=True):
        assert first.rate == second.rate == RATE
        np.testing.assert_allclose(first.samples, wanted, atol=2e-4)
        np.testing.assert_allclose(second.samples, wanted, atol=2e-4)
    assert (one[3].name, two[3].name) == (f"{folder / 'list.csv'}:5", f"{folder / 'tones.npz'}[3]")


def test_start_and_end_cut(folder):
    (folder / "cut.jsonl").write_text('{"path": "3.wav", "label": "x", "start": 0.05, "end": 0.1}\n')
    (found,) = scan_recordings(folder / "cut.jsonl", config())
    np.testing.assert_allclose(found.samples, tones(8)[0][3][80:160], atol=2e-4)


def test_parts_of_a_file_read_it_once_and_do_not_keep_it(folder, monkeypatch):
    read = []
    monkeypatch.setattr(
        recording_files, "parse_sound", lambda data, name, *how: read.append(name) or parse_sound(data, name, *how)
    )
    row = '{{"path": "3.wav", "label": "x", "start": {}, "end": {}}}\n'
    (folder / "cut.jsonl").write_text("".join(row.format(at / 100, at / 100 + 0.01) for at in range(3)))
    found = list(scan_recordings(folder / "cut.jsonl", config()))
    assert read == [str(folder / "3.wav")]
    assert [(len(one.samples), one.samples.base) for one in found] == [(RATE // 100, None)] * 3


def test_groups_make_parts_and_the_rest_goes_by_samples(folder):
    loaded = load_recordings(config(train="tones.npz", **TAKES))
    assert [one.group for part in ("train", "valid", "test") for one in loaded.parts[part]] == ["2"] * 2 + ["1"] * 3 + [
        "0"
    ] * 3
    assert "test: 3 recordings, 0.5 s" in loaded.notes
    assert set(loaded.digests) == {"train"}
    other = load_recordings(config(train="tones.npz", valid_fraction=0.4, test_fraction=0.0))
    assert sum(map(len, other.parts.values())) == 8
    with pytest.raises(DataError, match=r"tones.npz: no recording is of group '7'; correct data.test_groups"):
        load_recordings(config(train="tones.npz", **TAKES | {"test_groups": ["7"]}))
    with pytest.raises(ConfigError, match="need group_key"):
        config(test_groups=["1"])
    with pytest.raises(ConfigError, match="group '1' cannot be held out both"):
        config(**TAKES | {"test_groups": ["1"]})


def test_another_rate_is_made_that_of_the_first(folder):
    (folder / "0.wav").write_bytes(wave(np.zeros(300), 3200))
    loaded = load_recordings(config(valid_fraction=0.0, test_fraction=0.0))
    assert (loaded.rate, {one.rate for one in loaded.parts["train"]}) == (3200, {3200})
    assert loaded.notes[0] == "train: 7 of 8 recordings resampled to 3,200 Hz"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"list.csv: is empty"),
        ("path,label\nno.wav,a\n", r"list.csv:2: .*no.wav: no such file"),
        ("path,label\n0.wav,\n", r"list.csv:2: 'label' is empty; fill it"),
        ("path,label\n,a\n", r"list.csv:2: 'path' is empty"),
        ("path,label\n0.wav,a,b\n", r"list.csv:2: 3 columns, the first line has 2"),
        ("file,label\n0.wav,a\n", r"list.csv:1: no column is named 'path'"),
        ("path,label\nlist.csv,a\n", r"list.csv:2: .*list.csv: is no WAV or FLAC file"),
        ("path,label,start\n0.wav,a,x\n", r"list.csv:2: start 'x' is no number of seconds"),
        ("path,label,end\n0.wav,a,9\n", r"list.csv:2: from 0 to 9 s is not within its 0.100 s"),
        ("path,label,start,end\n0.wav,a,0.05,0.02\n", r"list.csv:2: from 0.05 to 0.02 s is not within"),
        ("path,label,start,end\n0.wav,a,0.05,nan\n", r"list.csv:2: from 0.05 to nan s is not within"),
        ("path,label\n.,a\n", r"list.csv:2: .* is a folder"),
    ],
)
def test_hostile_lists_are_refused_by_line(folder, text, message):
    (folder / "list.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        list(strict(scan_recordings(folder / "list.csv", config())))


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"audio": None}, "has no array 'audio'; it has: .*; set data.audio_key to one of them"),
        ({"label": None}, "has no array 'label'"),
        ({"sample_rate": None}, "has no array 'sample_rate'"),
        ({"sample_rate": np.array(3.5)}, "sample_rate must be one whole number"),
        ({"audio": np.zeros((4, 4), np.int16)}, "audio is int16 of 2 axes"),
        ({"audio": np.full(9, 7.0)}, "audio is float64 of 1 axes"),
        ({"offsets": np.array([0.5, 2.0])}, "offsets must be two or more whole numbers"),
        ({"offsets": np.array([0, 5, 5])}, r"offsets must rise from 0 to at most .* \(recording 1\)"),
        ({"offsets": np.array([0, 10**9])}, "offsets must rise"),
        ({"offsets": np.array([0, 5])}, "'label' must be a whole number or text for each of 1 recordings"),
    ],
)
def test_hostile_archives_are_refused(folder, others, message):
    (folder / "tones.npz").write_bytes(archive(**others))
    with pytest.raises(DataError, match=rf"tones.npz: {message}"):
        list(strict(scan_recordings(folder / "tones.npz", config())))


def test_long_ones_and_strange_labels_are_refused(folder):
    with pytest.raises(DataError, match=r"list.csv:3: is 0.13 s long, more than 0.11; cut it, or set data.max_seconds"):
        list(strict(scan_recordings(folder / "list.csv", config(max_seconds=0.11))))
    with pytest.raises(DataError, match=r"npz\[0\]: label 'low', but data.classes names 1, from 0"):
        list(strict(scan_recordings(folder / "tones.npz", config(classes=["one"]))))
    (folder / "tones.npz").write_bytes(archive(label=np.arange(8) % 2))
    found = list(scan_recordings(folder / "tones.npz", config(classes=["zero", "one"])))
    assert [one.label for one in found][:3] == ["zero", "one", "zero"]
    with pytest.raises(DataError, match=r"0.wav: is one recording without a label"):
        list(scan_recordings(folder / "0.wav", config()))
    (one,) = scan_recordings(folder / "0.wav", config(), labelled=False)
    assert one.label is None


def test_a_number_of_very_many_digits_is_no_class():
    assert named("0" * 5000 + "1", "x", config(classes=["zero", "one"])) == "one"
    with pytest.raises(DataError, match=r"x: label '1+', but data.classes names 2, from 0"):
        named("1" * 5000, "x", config(classes=["zero", "one"]))


def test_what_cannot_be_read_is_skipped_and_counted_where_asked(folder):
    (folder / "1.wav").write_bytes(b"RIFF")
    text = (folder / "list.csv").read_text().replace("2.wav,low", "2.wav,").replace("3.wav", "no.wav")
    (folder / "list.csv").write_text(text + "6.wav,low,1,more\n")
    parts = {"valid_fraction": 0.0, "test_fraction": 0.0}
    with pytest.raises(
        DataError, match=r'list.csv:3: .*no WAV or FLAC file.*and 1 more; .* with data.bad_lines = "skip"'
    ):
        load_recordings(config(**parts))
    loaded = load_recordings(config(bad_lines="skip", **parts))
    assert [one.name for one in loaded.parts["train"]] == [f"list.csv:{line}" for line in (2, 6, 7, 8, 9)]
    assert loaded.notes[0].startswith("train: 4 bad recordings skipped; the first: list.csv:3: ")
    # of another file too, which a run is scored on
    with pytest.warns(UserWarning, match="4 bad recordings skipped"):
        assert len(read_recordings(config(bad_lines="skip", valid="list.csv"), "valid")) == 5
    with pytest.raises(DataError, match=r"list.csv: no recordings in it; 9 bad recordings skipped"):
        load_recordings(config(bad_lines="skip", max_seconds=0.01, **parts))
    (folder / "tones.npz").write_bytes(archive(label=np.arange(8) % 3))
    loaded = load_recordings(config(train="tones.npz", bad_lines="skip", classes=["a", "b"], **parts))
    assert (len(loaded.parts["train"]), loaded.notes[0][:32]) == (6, "train: 2 bad recordings skipped;")


def test_a_broken_file_of_many_parts_is_read_once(folder, monkeypatch):
    read = []
    monkeypatch.setattr(recording_files, "parse_sound", lambda data, name, *how: read.append(name) or _broken(name))
    (folder / "cut.csv").write_text("path,label,start,end\n" + "".join(f"0.wav,a,0,0.0{n}\n" for n in range(1, 5)))
    found = list(scan_recordings(folder / "cut.csv", config()))
    assert [str(fault) for fault in found] == [f"{folder / 'cut.csv'}:{line}: broken" for line in range(2, 6)]
    assert len(read) == 1


def _broken(name):
    raise DataError("broken")
