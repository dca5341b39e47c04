"""The data of a recipe: which files are read, how they are split, what is recorded."""

import hashlib

import pytest

from headwise.config import build
from headwise.data import corpus
from headwise.data.corpus import DataConfig, load_corpus, read_part, resolve
from headwise.errors import ConfigError, DataError


def write(tmp_path, name, first, last):
    path = tmp_path / name
    path.write_text("".join(f"source {n}\ttarget {n}\n" for n in range(first, last)), encoding="utf-8")
    return str(path)


def test_held_out_from_the_training_file(tmp_path):
    config = DataConfig(train=write(tmp_path, "a.tsv", 0, 499), valid_fraction=0.1, test_fraction=0.2)
    found = load_corpus(config, "nfc")
    assert len(found.train) + len(found.valid) + len(found.test) == 499
    assert len(found.test) > len(found.valid) > 20
    assert found.overlaps == {}


def test_files_for_each_part(tmp_path):
    names = [write(tmp_path, name, *span) for name, span in (("a", (0, 11)), ("b", (11, 13)), ("c", (7, 14)))]
    config = DataConfig(train=names[0], valid=names[1], test=names[2])
    found = load_corpus(config, "nfc")
    assert [len(part) for part in (found.train, found.valid, found.test)] == [11, 2, 7]
    assert list(found.overlaps) == ["test"]
    assert found.overlaps["test"].source_lines == (1, 2, 3, 4)
    with open(names[0], "rb") as stream:
        assert found.files["train"] == hashlib.sha256(stream.read()).hexdigest()
    assert list(found.files) == ["train", "valid", "test"]


def test_one_file_given_the_other_held_out(tmp_path):
    config = DataConfig(train=write(tmp_path, "a", 0, 97), valid=write(tmp_path, "b", 97, 100), test_fraction=0.3)
    found = load_corpus(config, "nfc")
    assert len(found.valid) == 3
    assert len(found.train) + len(found.test) == 97


def test_parallel_files_and_limit(tmp_path):
    for name in ("s", "t"):
        (tmp_path / name).write_text("\n".join(name + str(n) for n in range(13)), encoding="utf-8")
    source, target = str(tmp_path / "s"), str(tmp_path / "t")
    options = {"valid_fraction": 0, "test_fraction": 0, "limit": 5}
    config = DataConfig(train=source, train_target=target, valid=source, valid_target=target, **options)
    found = load_corpus(config, "nfc")
    assert [(pair.source, pair.target) for pair in found.train] == [(f"s{n}", f"t{n}") for n in range(5)]
    assert len(found.valid) == 13
    assert found.test == []
    assert read_part(config, "test", "nfc") is None


def test_options_reach_the_reader(tmp_path):
    (tmp_path / "x").write_text("a\tb\tc\n\tb\tc\n", encoding="utf-8")
    config = DataConfig(train=str(tmp_path / "x"), columns=(2, 0), empty="skip", valid_fraction=0, test_fraction=0)
    assert [(pair.source, pair.target) for pair in load_corpus(config, "nfc").train] == [("c", "a")]


def test_shipped_files(tmp_path, monkeypatch):
    assert resolve("some/file.tsv").name == "file.tsv"
    (tmp_path / "corpora").mkdir()
    shipped = write(tmp_path, "corpora/small.tsv", 0, 3)
    monkeypatch.setattr(corpus.resources, "files", lambda package: tmp_path)
    assert str(resolve("headwise:small.tsv")) == shipped
    with pytest.raises(DataError, match=r"headwise:nothing: no such file ships with the package; these do: small.tsv"):
        resolve("headwise:nothing")
    with pytest.raises(DataError, match="no such file ships"):
        resolve("headwise:../readers.py")


def test_config():
    with pytest.raises(ConfigError, match=r"recipe: valid_target is given but valid is not; name both parallel files"):
        build(DataConfig, {"train": "x", "valid_target": "y"}, "recipe")
    with pytest.raises(ConfigError, match=r"valid_fraction: must be below 1"):
        build(DataConfig, {"train": "x", "valid_fraction": 1.0}, "recipe")
    with pytest.raises(ConfigError, match=r"unknown key 'trian'; did you mean 'train'\?"):
        build(DataConfig, {"train": "x", "trian": "y"}, "recipe")
    assert all(field.description for field in DataConfig.model_fields.values())
