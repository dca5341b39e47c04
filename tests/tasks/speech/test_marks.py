"""Labels in time: files of three forms, arrays, frames; what is refused."""

import numpy as np
import pytest
from sounds import RATE, archive, timed, tones, wave

from headwise.config import build
from headwise.data.bad_lines import strict
from headwise.errors import DataError
from headwise.tasks.speech.marks import Mark, check_marks, frame_labels, parse_marks, runs, within
from headwise.tasks.speech.recordings import scan_recordings
from headwise.tasks.speech.utterances import MarkedConfig, concatenated, load_recordings


def config(**values):
    return build(MarkedConfig, {"train": "timed.csv", "marks_key": "marks"} | values, "data")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    timed(tmp_path, 6)
    return tmp_path


def read(path, **values):
    return list(strict(scan_recordings(path, config(**values))))


def test_seconds_samples_and_units_of_htk_say_the_same():
    wanted = (Mark(0.0, 0.5, "h#"), Mark(0.5, 0.75, "sh"))
    assert parse_marks(b"0.5\t0.75\tsh\n\\\t0\t4000\n0\t0.5\th#\n\n", "a", 1) == wanted
    assert parse_marks(b"0 4000 h#\r\n4000 6000 sh\r\n", "a", 8000) == wanted
    assert parse_marks(b"0 5000000 h#\n5000000 7500000 sh\n", "a", 10_000_000) == wanted
    # between tabs a label may hold blanks
    assert parse_marks(b"0\t1\ta b\n", "a", 1)[0].label == "a b"
    assert parse_marks(b"", "a", 1) == ()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"0\t1\n", "a:1: '0.1' is not start, end and label; put tabs"),
        (b"0 1 x\n2 1 y\n", "a:2: from 2 to 1 is no stretch of time"),
        (b"1 1 x\n", "a:1: from 1 to 1 is no stretch"),
        (b"-1 1 x\n", "a:1: from -1 to 1 is no stretch"),
        (b"0 nan x\n", "a:1: from 0 to nan is no stretch"),
        (b"0 inf x\n", "a:1: from 0 to inf is no stretch"),
        (b"a 1 x\n", "a:1: 'a' and '1' are no times"),
        (b"0 1_0 x\n", "a:1: '0' and '1_0' are no times"),
        ("٠ 1 x\n".encode(), "a:1: '٠' and '1' are no times"),
        (b"0\t1\t \n", "a:1: '.*' is not start, end and label"),
        (b"0 1 x\n0.5 2 y\n", r"a:2: begins at 0.5 s, within 'x' \(0 to 1 s\); give each moment one label"),
        (b"0 1 \xff\n", "a:1: .*UTF-8"),
        (b"0 1 x\0\n", "a:1: .*NUL"),
    ],
)
def test_hostile_label_files_are_refused_by_line(data, message):
    with pytest.raises(DataError, match=message):
        parse_marks(data, "a", 1)


def test_a_frame_has_the_label_of_its_middle():
    marks = (Mark(0.0, 0.0149, "a"), Mark(0.016, 0.03, "b"))
    # middles are 5, 15, 25 and 35 ms
    assert frame_labels(marks, 4, 1600) == ["a", None, "b", None]
    assert frame_labels(marks, 4, 1600, "rest") == ["a", "rest", "b", "rest"]
    assert frame_labels((), 2, 1600, "rest") == ["rest", "rest"]
    # at 11,025 Hz a frame is 110 samples, a little less than 10 ms
    assert frame_labels((Mark(4.9885, 9.0, "x"),), 500, 11025) == [None] * 500
    assert frame_labels((Mark(4.983, 9.0, "x"),), 500, 11025) == [None] * 499 + ["x"]


def test_frames_and_stretches_turn_into_each_other():
    labels = ["a", "a", "b", None, "b", ""]
    found = runs(labels, 0.01)
    assert [mark.label for mark in found] == ["a", "b", "b"]
    assert frame_labels(found, 6, 1600) == ["a", "a", "b", None, "b", None]
    assert within(runs(["a", "b", "c"], 0.5), 0.25, 0.75) == (Mark(0.0, 0.25, "a"), Mark(0.25, 0.5, "b"))
    with pytest.raises(DataError, match=r"x.txt: labels reach to 0.05 s, its recording has 0.01 s; mend the times, or"):
        check_marks(found, 0.01, "x.txt")


def test_a_list_names_label_files(folder):
    one, two = read(folder / "timed.csv")[:2]
    assert one.marks == (Mark(0.0, 0.06, "high"), Mark(0.06, 0.11, "low"))
    assert (one.label, two.label) == ("high low", "low high")
    # times of a part count from its beginning
    (folder / "cut.csv").write_text("path,marks,start,end\ntwo0.wav,two0.txt,0.05,0.08\n")
    (part,) = read(folder / "cut.csv")
    assert [(round(mark.start, 4), round(mark.end, 4), mark.label) for mark in part.marks] == [
        (0.0, 0.01, "high"),
        (0.01, 0.03, "low"),
    ]
    (folder / "two0.txt").write_text("0 96 0\n96 176 1\n")
    assert read(folder / "cut.csv", marks_unit="samples", classes=["high", "low"])[0].marks == part.marks


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 1\n", r"timed.csv:2: .*two0.txt:1: '0 1' is not start, end and label"),
        ("0 176 a\n", r"timed.csv:2: .*two0.txt: labels reach to 176 s, its recording has 0.11 s; .*marks_unit"),
        (None, r"timed.csv:2: .*two0.txt: no such file"),
        ("0 0.1 strange\n", r"timed.csv:2: .*two0.txt: label 'strange', but data.classes names 2"),
    ],
)
def test_bad_label_files_are_told_with_their_row_or_skipped(folder, text, message):
    (folder / "two0.txt").unlink()
    if text is not None:
        (folder / "two0.txt").write_text(text)
    with pytest.raises(DataError, match=message):
        read(folder / "timed.csv", classes=["low", "high"])
    loaded = load_recordings(config(classes=["low", "high"], bad_lines="skip", valid_fraction=0.4, test_fraction=0.0))
    assert sum(map(len, loaded.parts.values())) == 5
    assert loaded.notes[0].startswith("train: 1 bad recording skipped; the first: timed.csv:2: ")
    assert {"train", "train.recordings", "train.marks"} == set(loaded.digests)


def test_arrays_label_samples_or_frames(folder):
    samples, names = tones(8)
    each = [np.full(len(sound), name) for sound, name in zip(samples, names, strict=True)]
    whole = np.concatenate(each)
    whole[:48] = "high"
    (folder / "a.npz").write_bytes(archive(marks=whole))
    first = read(folder / "a.npz")[0]
    assert first.marks == (Mark(0.0, 0.03, "high"), Mark(0.03, 0.1, "low"))
    frames = np.concatenate([labels[8 :: RATE // 100][: len(labels) * 100 // RATE] for labels in each])
    frames[:3] = ""
    (folder / "a.npz").write_bytes(archive(marks=frames, label=None))
    found = read(folder / "a.npz")
    assert found[0].marks == (Mark(0.03, 0.1, "low"),)
    assert [one.label for one in found] == names
    (folder / "a.npz").write_bytes(archive(marks=(frames == "high").astype(np.int64)))
    with pytest.raises(DataError, match=r"a.npz\[1\]: label '1', but data.classes names 1"):
        read(folder / "a.npz", classes=["low"])
    for wrong in (frames[1:], np.zeros(len(frames)), frames[:, None], np.zeros((), np.int64)):
        (folder / "a.npz").write_bytes(archive(marks=wrong))
        with pytest.raises(DataError, match=r"a.npz: 'marks' is .*; give a whole number or text for each of the"):
            read(folder / "a.npz")
    (folder / "a.npz").write_bytes(archive())
    with pytest.raises(DataError, match=r"a.npz: has no array 'marks'"):
        read(folder / "a.npz")


def test_without_labels_in_time_a_recording_has_its_own(folder):
    (folder / "plain.csv").write_text("path,label\ntwo0.wav,x\ntwo1.wav,y\n")
    with pytest.raises(DataError, match=r"timed.csv:1: no column is named 'label'.*data.label_key, or data.marks_key"):
        read(folder / "timed.csv", marks_key=None)
    one, two = read(folder / "plain.csv", marks_key=None)
    assert (one.label, one.marks) == ("x", (Mark(0.0, 0.11, "x"),))
    both = concatenated([one, two])
    assert [mark.label for mark in both.marks] == ["x", "y"]
    assert both.marks[1].start == one.seconds
    assert both.marks[1].end == pytest.approx(both.seconds)
    (folder / "a.npz").write_bytes(archive())
    assert read(folder / "a.npz", marks_key=None)[0].marks == (Mark(0.0, 0.1, "low"),)
    assert concatenated([read(folder / "plain.csv", marks_key=None)[0]] * 2).label == "x x"
    (folder / "none.wav").write_bytes(wave(np.zeros(160)))
    (bare,) = scan_recordings(folder / "none.wav", config(), labelled=False)
    assert bare.marks is None
