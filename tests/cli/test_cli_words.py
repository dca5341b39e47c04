"""Word vectors from the command line: a recipe, neighbours, files of vectors, tests, a picture."""

import json

import pytest

from headwise.tasks.text import grammar


@pytest.fixture
def run(headwise, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("\n".join(grammar.sentences(200)) + "\n")
    code, out, err = headwise("init", "word-vectors", "training.max_steps=4", "--data", "text.txt")
    assert code == 0, err
    assert "word-vectors; word tokens, at most 100000; skip-gram" in out
    code, out, err = headwise("train", "recipe.toml", "--run-folder", "run")
    assert code == 0, err
    assert "34 words that occur at least 1 times" in out + err
    return tmp_path / "run"


def test_from_text_to_vectors_that_another_task_starts_from(headwise, run, tmp_path):
    code, out, err = headwise("predict", run, "cat - dog + hay", "zebra", "--json")
    assert code == 0
    assert "1 of 4 words was never seen in training, or too rarely to be learned: zebra" in err
    first, second = map(json.loads, out.splitlines())
    assert len(first["neighbours"]) == 10
    assert second == {"query": "zebra", "neighbours": {}, "unknown": ["zebra"]}
    code, out, _ = headwise("predict", run, "cat", "hay", "--n-best", 2)
    assert [line.split("\t")[0] for line in out.splitlines()] == ["0", "0", "1", "1"]
    assert headwise("predict", run, "--vectors", "--output", "vectors.txt")[0] == 0
    lines = (tmp_path / "vectors.txt").read_text().splitlines()
    assert len(lines) == 34
    assert {len(line.split(" ")) for line in lines} == {33}
    assert headwise("predict", run, "cat", "--vectors")[1].splitlines() == [
        line for line in lines if line.startswith("cat ")
    ]
    code, _, err = headwise("predict", run)
    assert (code, err) == (2, "error: no input: give texts, --file FILE, or - for standard input\n")
    (tmp_path / "pairs.tsv").write_text(
        "".join(f"the {a} sleeps\tdas {b} schläft\n" for a in "ab" for b in "cdefghijk")
    )
    recipe = (
        'task = "translate"\n[data]\ntrain = "pairs.tsv"\nvalid_fraction = 0.0\ntest_fraction = 0.0\n'
        '[tokenizer]\nkind = "word"\njoint = false\n'
        '[vectors]\nsource = "vectors.txt"\n[model]\nkind = "recurrent"\nembed_dim = 32\nhidden_dim = 4\n'
        "[training]\nmax_steps = 1\n"
    )
    (tmp_path / "other.toml").write_text(recipe)
    code, out, err = headwise("train", "other.toml", "--run-folder", "other")
    assert code == 0, err
    assert "vectors of 32 numbers for 3 of 4 types" in out + err


def test_tests_of_several_kinds_and_a_picture(headwise, run, tmp_path):
    (tmp_path / "pairs.tsv").write_text("cat\tdog\t9\ncat\thay\t2\nhay\tcorn\t8\n")
    (tmp_path / "questions.txt").write_text("cat dog hay corn\n")
    kinds = {word: kind for kind, words in grammar.KINDS.items() for word in words}
    (tmp_path / "kinds.tsv").write_text("".join(f"{word}\t{kind}\n" for word, kind in kinds.items()))
    for file, kind, name in [
        ("pairs.tsv", "similarity", "spearman"),
        ("questions.txt", "analogies", "accuracy"),
        ("kinds.tsv", "labels", "probe_accuracy"),
        ("text.txt", "text", "loss"),
    ]:
        code, out, err = headwise("evaluate", run, "--data", file, "--kind", kind, "--json")
        assert (code, err) == (0, ""), err
        assert name in json.loads(out)
    assert set(json.loads(headwise("evaluate", run, "--json")[1])) == {"examples", "loss", "baselines", "comparison"}
    code, _, err = headwise("evaluate", run, "--kind", "labels")
    assert code == 2
    assert "--kind" in err
    code, out, err = headwise("explain", run, "cat - dog + hay", "--folder", "figures")
    assert (code, err) == (0, "")
    assert "nearest by cosine; the picture shows" in out
    assert (tmp_path / "figures/words.png").exists()
    code, _, err = headwise("explain", run, "zebra")
    assert (code, err) == (2, "error: no vector for: zebra\n")
