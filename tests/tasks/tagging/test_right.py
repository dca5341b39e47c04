"""Which words a tagger has right, word by word, and the curve over places that `headwise curve place` prints."""

import csv
import json

import pytest

import headwise
from headwise.cli.main import main
from headwise.training.loading import examples


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A tagger trained for two steps, on sentences of one to four words."""
    folder = tmp_path_factory.mktemp("tagging")
    texts = ["a x", "b y x", "x", "a b y x", "y b", "b a a"]
    tags = {"a": "FIRST", "b": "FIRST", "x": "LAST", "y": "LAST"}
    rows = [{"words": text.split(), "tags": [tags[word] for word in text.split()]} for text in texts]
    for name in ("train", "test"):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows * 5))
    (folder / "recipe.toml").write_text(
        'task = "tag"\n[data]\ntrain = "train.jsonl"\nvalid = "test.jsonl"\ntest = "test.jsonl"\n'
        '[tokenizer]\nkind = "word"\nmin_frequency = 1\n[model]\nkind = "token"\nd_model = 8\nd_ff = 8\n'
        "[training]\nmax_steps = 2\n"
    )
    headwise.train(str(folder / "recipe.toml"), str(folder / "run"))
    return folder / "run"


def test_each_word_is_right_or_wrong(run):
    sample = examples(run, "test", {})
    tagger = headwise.load(run)
    right = tagger.right(sample)
    assert [len(row) for row in right] == [len(item.words) for item in sample]
    flat = [flag for row in right for flag in row]
    assert sum(flat) / len(flat) == pytest.approx(tagger.evaluate(sample)["accuracy"])
    for flags, tags, item in zip(right, tagger.tag(sample), sample, strict=True):
        assert flags == [tags[at] == item.tags[at] for at in range(len(tags))]
    assert tagger.right([]) == []


def test_the_curve_over_places_adds_up_to_the_accuracy(run, tmp_path, capsys):
    assert main(["curve", "place", str(run), "--parts", "3", "--output", str(tmp_path / "rows.csv")]) == 0
    capsys.readouterr()
    rows = list(csv.DictReader((tmp_path / "rows.csv").read_text().splitlines()))
    assert (rows[0]["shortest"], rows[0]["longest"], rows[0]["words"]) == ("1", "1", "30")
    assert sum(int(row["words"]) for row in rows) == 75
    right = sum(int(row["words"]) * float(row["accuracy"]) for row in rows)
    expected = headwise.load(run).evaluate(examples(run, "test", {}))["accuracy"]
    assert right / 75 == pytest.approx(expected, abs=1e-3)
    assert main(["curve", "place", str(run), "--figure", str(tmp_path / "place.svg")]) == 0
    assert (tmp_path / "place.svg").stat().st_size > 999
