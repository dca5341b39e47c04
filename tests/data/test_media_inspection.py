"""The report on dialogues, images and recordings: what is counted, odd or unreadable."""

import json

import numpy as np
import pytest
from pictures import folder_of, stripes
from sounds import wave

from headwise.data.inspection import guess
from headwise.tasks import registry
from headwise.tasks.images.images import ImagesConfig
from headwise.tasks.images.report import IMAGES
from headwise.tasks.speech.recordings import RecordingsConfig
from headwise.tasks.speech.report import RECORDINGS
from headwise.tasks.translation.data import DialogueConfig
from headwise.tasks.translation.report import DIALOGUES


def test_turns_and_answers_of_dialogues(tmp_path):
    path = tmp_path / "talk.jsonl"
    rows = [["a", "b"], ["c", "d", "e", "f"], ["a", "b"], ["alone"]]
    path.write_text("".join(json.dumps({"turns": row}) + "\n" for row in rows) + "{\n")
    assert guess(str(path), registry.data_kinds().values()) is DIALOGUES
    (found,) = DIALOGUES.inspect(DialogueConfig(train=str(path)))
    values = found.values()
    assert (values["dialogues"], values["answers"], values["turns"]["greatest"]) == (3, 4, 4)
    assert values["odd"]["duplicates"]["first"] == [{"line": 3}]
    assert sum(kind["count"] for kind in values["bad"].values()) == found.bad.total == 2
    assert f"{path}: 3 dialogues" in found.lines()[0]


def test_sizes_and_classes_of_images(tmp_path):
    pytest.importorskip("PIL")
    images, labels = stripes(7)
    images[2] = 9
    folder_of(tmp_path / "train", images, labels)
    broken = next((tmp_path / "train").rglob("*.png"))
    (broken.parent / "zz.png").write_bytes(broken.read_bytes()[:40])
    (found,) = IMAGES.inspect(ImagesConfig(train=str(tmp_path / "train")))
    values = found.values()
    assert values["images"] == 7 == sum(values["classes"].values()) == sum(values["sizes"].values())
    assert sorted(values["classes"].values()) == sorted(np.bincount(labels).tolist())
    assert values["odd"]["one colour"]["count"] == 1
    assert values["bad"]["images"]["count"] == 1
    assert "zz.png" in values["bad"]["images"]["first"][0]["what"]
    lines = found.lines()
    assert any(line.startswith("classes                  2") for line in lines)
    # numbers are of images: a folder has no lines
    assert {"bad images               1", "odd images               1"} <= set(lines)
    assert any(line.startswith("    image ") and "zz.png" in line for line in lines)


def test_rates_and_seconds_of_recordings(tmp_path):
    for name, samples, rate in (("a", np.full(800, 0.5), 1600), ("b", np.zeros(400), 1600), ("c", [0.5] * 400, 800)):
        (tmp_path / f"{name}.wav").write_bytes(wave(samples, rate))
    (tmp_path / "d.wav").write_bytes(b"RIFF")
    (tmp_path / "list.csv").write_text("path,label\na.wav,x\nb.wav,y\nc.wav,x\nd.wav,y\n")
    (found,) = RECORDINGS.inspect(RecordingsConfig(train=str(tmp_path / "list.csv")))
    values = found.values()
    assert values["recordings"] == 3
    assert values["rates"] == {"1600": 2, "800": 1}
    assert values["labels"] == {"x": 2, "y": 1}
    assert values["seconds"] == {"least": 0.25, "mean": pytest.approx(1.25 / 3, abs=1e-3), "greatest": 0.5}
    assert values["odd"]["silent"]["first"] == [{"line": 2}]
    assert values["bad"]["recordings"]["first"][0]["line"] == 4


def test_long_tables_are_cut_for_people(tmp_path):
    arrays = {"audio": np.ones(120, np.int16), "offsets": np.arange(0, 121, 10)}
    arrays |= {"labels": np.array([f"l{place}" for place in range(12)]), "sample_rate": np.array(1600)}
    np.savez(tmp_path / "a.npz", **arrays)
    (found,) = RECORDINGS.inspect(RecordingsConfig(train=str(tmp_path / "a.npz"), label_key="labels"))
    assert "  and 2 more" in found.lines()
    assert len(found.values()["labels"]) == 12
