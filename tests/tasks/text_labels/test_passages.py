"""Passages: each is in the document that it is said to be of, and no part has text of another."""

import csv
import gzip
import random

import pytest

from headwise.errors import ConfigError, DataError
from headwise.tasks.text_labels.passages import documents, make_passages, make_retrieval


def words(seed, count=400):
    numbers = random.Random(seed)
    return " ".join("".join(numbers.choices("abcdefghij", k=5)) for _ in range(count))


@pytest.fixture
def folder(tmp_path):
    texts = {f"{'ab'[number % 2]}/{number}.txt": words(number) for number in range(12)}
    for name, text in texts.items():
        path = tmp_path / "texts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # lines, blanks and tabs are one blank each
        path.write_text(text.replace(" ", "\n\t ", 7), encoding="utf-8")
    (tmp_path / "texts" / ".hidden.txt").write_text("not read")
    (tmp_path / "texts" / "notes.pdf").write_bytes(b"\xff\xfe")
    return tmp_path / "texts", texts


def read(path):
    with path.open(encoding="utf-8", newline="") as stream:
        return [(row["text"], row["label"]) for row in csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)]


def test_documents_of_a_folder_and_articles_of_a_file(folder, tmp_path):
    source, texts = folder
    assert documents(source) == texts
    wiki = tmp_path / "wiki.tokens.gz"
    text = " \n = Cats = \n \n Cats purr .\n\n = = Food = = \n Fish .\n = Dogs = \n Bark .\n"
    wiki.write_bytes(gzip.compress(text.encode()))
    assert documents(wiki) == {"Cats": "Cats purr . = = Food = = Fish .", "Dogs": "Bark ."}


def test_passages_are_of_their_folder_and_of_their_part(folder, tmp_path):
    source, texts = folder
    files = make_passages(tmp_path / "out", 1, 60, source=source, length=50)
    assert list(files.values()) == [60, 6, 6]
    places = {}
    for path in files:
        for text, label in read(path):
            (name,) = (name for name, whole in texts.items() if text in whole)
            assert name.startswith(f"{label}/")
            share = texts[name].index(text) / len(texts[name])
            places.setdefault(path.stem, []).append(share)
    assert max(places["train"]) < 0.8
    assert min(places["valid"] + places["test"]) > 0.78


def test_pairs_are_of_one_document_or_two_and_documents_of_one_part(folder, tmp_path):
    source, texts = folder
    files = make_retrieval(tmp_path / "out", 1, 80, source=source, length=40)
    used = {}
    labels = []
    for path in files:
        for text, label in read(path):
            first, second = text.split(" | ")
            names = [next(name for name, whole in texts.items() if passage in whole) for passage in (first, second)]
            assert (names[0] == names[1]) == (label == "same")
            if label == "same":
                begins = [texts[names[0]].index(passage) for passage in (first, second)]
                assert abs(begins[0] - begins[1]) >= min(len(first), len(second))
            used.setdefault(path.stem, set()).update(names)
            labels.append(label)
    assert not used["train"] & (used["valid"] | used["test"])
    assert not used["valid"] & used["test"]
    assert 25 < labels.count("same") < 70


def test_what_cannot_be_cut(folder, tmp_path):
    source, _ = folder
    with pytest.raises(DataError, match=r"no such file or folder; headwise data fetch wikitext-2, or give another"):
        documents(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"has 0 text files .* two or more are needed"):
        documents(tmp_path / "empty")
    with pytest.raises(ConfigError, match=r"length \(5000\) is too long"):
        make_passages(tmp_path / "out", source=source, length=5000)
    with pytest.raises(ConfigError, match="0 documents have two passages of 5000 characters"):
        make_retrieval(tmp_path / "out", source=source, length=5000)
    assert not (tmp_path / "out").exists()
