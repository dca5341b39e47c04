"""What `headwise data report` says of labelled texts: lengths, vocabulary, and the words that training lacks."""

import json

import pytest

from headwise.cli.main import main
from headwise.data.splits import source_place
from headwise.tasks.text.labelled import LabelledConfig
from headwise.tasks.text.report import LABELLED


def written(path, texts):
    rows = [f"{text},{'yes' if place % 2 else 'no'}" for place, text in enumerate(texts)]
    path.write_text("\n".join(["text,label", *rows]) + "\n")
    return str(path)


def unknown_share(reference, probe, frequency):
    """The share of the running words of `probe` that occur fewer times in `reference`, counted one by one."""
    seen = [word for text in reference for word in text.split(" ")]
    asked = [word for text in probe for word in text.split(" ")]
    return sum(seen.count(word) < frequency for word in asked) / len(asked)


def test_the_words_of_a_held_out_file_are_looked_up_in_train(tmp_path):
    train, test = ["a b c", "a b", "a"], ["a z b", "c z c c", "a"]
    config = LabelledConfig(train=written(tmp_path / "train.csv", train), test=written(tmp_path / "test.csv", test))
    first, second = LABELLED.inspect(config)
    assert first.facts["words"]["words"]["maximum"] == 3
    cutoffs = second.facts["words"]["cutoffs"]
    assert [cutoff["frequency"] for cutoff in cutoffs] == [1, 2, 3, 5]
    for cutoff in cutoffs:
        assert cutoff["unknown"] == pytest.approx(unknown_share(train, test, cutoff["frequency"]))
    assert "texts (unknown: not in the texts of train)" in second.lines()
    assert any("25.0 % of held-out words are unknown" in line for line in second.lines())


def test_without_such_a_file_a_tenth_of_train_is_looked_up_in_the_rest(tmp_path):
    texts = [f"word{number % 37} word{number}" for number in range(200)]
    (report,) = LABELLED.inspect(LabelledConfig(train=written(tmp_path / "train.csv", texts)))
    probe = [text for text in texts if source_place(text, 0) < 0.1]
    reference = [text for text in texts if text not in probe]
    assert len(probe) > 5
    assert report.facts["words"]["cutoffs"][0]["unknown"] == pytest.approx(unknown_share(reference, probe, 1))
    assert report.facts["words"]["running_words"] == 400


def test_the_limit_of_train_limits_what_is_known(tmp_path):
    train = written(tmp_path / "train.csv", ["a", "b"])
    config = LabelledConfig(train=train, test=written(tmp_path / "test.csv", ["b"]), limit=1)
    assert LABELLED.inspect(config)[1].facts["words"]["cutoffs"][0]["unknown"] == 1.0


def test_one_text_and_none(tmp_path):
    (report,) = LABELLED.inspect(LabelledConfig(train=written(tmp_path / "one.csv", ["a b"])))
    assert report.facts["lengths"]["maximum"] == 3
    assert report.facts["words"]["words"]["maximum"] == 2
    (report,) = LABELLED.inspect(LabelledConfig(train=written(tmp_path / "none.csv", [])))
    assert report.good == 0
    assert "words" not in report.facts


def test_the_command_prints_and_gives_json(tmp_path, capsys):
    path = written(tmp_path / "train.csv", ["a b c", "d"])
    assert main(["data", "report", path]) == 0
    assert "  vocabulary   4 words, 4 running words" in capsys.readouterr().out
    assert main(["data", "report", path, "--json"]) == 0
    (file,) = json.loads(capsys.readouterr().out)["files"]
    assert file["words"]["words"]["median"] == 1
    assert file["lengths"]["maximum"] == 5
