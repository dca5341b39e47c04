"""`headwise data tokenize`: token files from a recipe, which then trains, resumes and is scored as from the text."""

import json

import pytest
from tiny import PAIRS, TEXT


@pytest.fixture
def recipe(tmp_path):
    (tmp_path / "text.txt").write_text("".join(f"{'abc' * (1 + n % 3)} has {n % 7}.\n" for n in range(200)))
    (tmp_path / "recipe.toml").write_text(TEXT.replace("text.txt", str(tmp_path / "text.txt")))
    return tmp_path / "recipe.toml"


def test_from_a_recipe_to_scores(headwise, recipe, tmp_path):
    made = tmp_path / "made"
    code, out, err = headwise("data", "tokenize", recipe, "--output", made, "--workers", 1)
    assert (code, err) == (0, "")
    chars = [len("".join(f"{'abc' * (1 + n % 3)} has {n % 7}.\n" for n in range(200)))]
    lines = out.splitlines()
    assert lines[0].startswith("train: ")
    assert lines[0].endswith(" characters in 1 file")
    assert sum(int(line.split(" of ")[1].split()[0].replace(",", "")) for line in lines[:3]) == chars[0]
    assert lines[3] == f"next: headwise train {recipe} data.train={made}"
    # settings of the tokenizer have to be said again
    given = (recipe, f"data.train={tmp_path / 'text.txt'}", "tokenizer.lowercase=true")
    code, out, err = headwise("data", "tokenize", *given, "--output", tmp_path / "my files", "--workers", 1)
    assert (
        out.splitlines()[3]
        == f"next: headwise train {recipe} tokenizer.lowercase=true 'data.train={tmp_path}/my files'"
    )
    code, out, err = headwise("data", "tokenize", recipe, "--output", made, "--json")
    assert (code, json.loads(out)["format"]) == (0, "headwise-tokens")
    weights = []
    for name, data in (("text", tmp_path / "text.txt"), ("files", made)):
        run = tmp_path / name
        code, out, err = headwise("train", recipe, f"data.train={data}", "--run-folder", run)
        assert code == 0, err
        weights.append((run / "model.safetensors").read_bytes())
        code, out, err = headwise("evaluate", run, "--json")
        assert (code, err) == (0, "")
        weights.append(json.loads(out))
    assert weights[:2] == weights[2:]
    # another text is scored beside what was trained on, wherever that is
    (tmp_path / "more.txt").write_text("abc has 5.\n" * 9)
    told = [
        headwise("evaluate", tmp_path / name, "--data", tmp_path / "more.txt", "--json") for name in ("text", "files")
    ]
    assert told[0] == told[1]
    assert told[0][0] == 0
    assert "-gram model" in told[0][1]
    # resuming takes the run's tokenizer for that of the folder
    code, out, err = headwise(
        "train", recipe, f"data.train={made}", "training.max_steps=5", "--run-folder", tmp_path / "files"
    )
    assert (code, "finished: max_steps after 5 steps" in err) == (0, True)
    # and knows the folder of another text
    (tmp_path / "text.txt").write_text("other words\n" * 300)
    assert headwise("data", "tokenize", recipe, "--output", tmp_path / "other", "--workers", 1)[0] == 0
    more = ["train", recipe, f"data.train={tmp_path / 'other'}", "training.max_steps=7", "--run-folder", run]
    code, out, err = headwise(*more)
    assert (code, "since this run began: train; restore the files" in err) == (3, True)
    code, out, err = headwise(*more, "--allow-data-change")
    assert code == 3
    assert (
        "other: its tokens are of another tokenizer than the run's, learned from another text; name the folder" in err
    )


def test_what_cannot_be_tokenized(headwise, recipe, tmp_path):
    (tmp_path / "pairs.toml").write_text(PAIRS)
    (tmp_path / "pairs.tsv").write_text("a\tb\n" * 30)
    code, _, err = headwise("data", "tokenize", tmp_path / "pairs.toml", "--output", tmp_path / "made")
    assert (code, err.count("\n")) == (2, 1)
    assert "pairs.toml: token files are for recipes that learn from windows of plain text" in err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "diary.txt").write_text("mine")
    code, _, err = headwise("data", "tokenize", recipe, "--output", tmp_path / "full")
    assert (code, err.count("\n")) == (2, 1)
    assert "is not empty and holds no token files; name another folder with --output" in err
    code, _, err = headwise("train", recipe, f"data.train={tmp_path / 'full'}", "--run-folder", tmp_path / "run")
    assert code == 3
    assert "full: is a folder without index.json; name a text file, or a folder of token files" in err
