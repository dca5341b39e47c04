"""Image classification from the command line: init, train, resume, predict, evaluate, explain; and what is refused."""

import json

import numpy as np
import pytest
from pictures import encoded, folder_of, grey, stripes

SHORT = ["training.max_steps=3", "training.max_epochs=0", "training.schedule=constant", "training.warmup_share=0"]
SHORT += ["training.batch_sentences=16"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder_of(tmp_path / "set", *stripes(60))
    return tmp_path


def test_from_a_folder_to_answers(headwise, folder):
    code, out, err = headwise("init", "image-classify", *SHORT, "model.width=4", "model.stages=2", "--data", "set")
    assert (code, err) == (0, "")
    assert "image-classify; cnn; at most 3 steps" in out
    recipe = (folder / "recipe.toml").read_text()
    assert 'train = "set"  # folder with a folder of pictures for each class; CSV, IDX or .npz file' in recipe
    assert "batch_sentences = 16" in recipe
    code, out, err = headwise("train", "recipe.toml", "--run-folder", "run")
    assert code == 0, err
    log = folder / "run" / "log.txt"
    assert "a place of the last map sees 13 x 13 pixels of the image of 8 x 8" in log.read_text()
    assert headwise("train", "recipe.toml", "training.max_steps=5", "--run-folder", "run")[0] == 0
    assert "after 5 steps" in log.read_text()
    code, out, err = headwise("predict", "run", "set/rows/001.png", "set/columns/000.png")
    assert (code, err) == (0, "")
    lines = [line.split("\t") for line in out.splitlines()]
    assert len(lines) == 2
    assert all(label in ("rows", "columns") and 0.5 <= float(share) <= 1 for label, share in lines)
    code, out, _ = headwise("predict", "run", "set/rows/001.png", "--n-best", 2, "--json")
    assert set(json.loads(out)["probabilities"]) == {"rows", "columns"}
    code, out, _ = headwise("predict", "run", "-", stdin=b"set/rows/001.png\n")
    assert code == 0
    assert out.split("\t")[0] in ("rows", "columns")
    code, out, err = headwise("evaluate", "run", "--json")
    assert (code, err) == (0, "")
    assert {"accuracy", "macro_f1", "baselines", "per_class", "confused"} <= set(json.loads(out))
    code, out, err = headwise("evaluate", "run", "--data", "set", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["examples"] == 60
    code, _, err = headwise("explain", "run", "set/rows/001.png")
    assert code == 2
    assert "this model has no attention to look at" in err


def test_where_a_transformer_looks(headwise, folder):
    sizes = ["model.d_model=8", "model.d_ff=8", "model.num_heads=2", "model.encoder_layers=1", "model.patch=4"]
    recipe = 'task = "image-classify"\n[data]\ntrain = "set"\n[model]\nkind = "vit"\n[training]\nmax_steps = 2\n'
    (folder / "vit.toml").write_text(recipe)
    assert headwise("train", "vit.toml", *sizes, "--run-folder", "run")[0] == 0
    code, out, err = headwise("explain", "run", "set/rows/001.png", "--heads", 1)
    assert (code, err) == (0, "")
    assert out.startswith("001.png → ")
    assert "encoder.encoder.blocks.0.self_attention, head 1: " in out
    assert "rows sum to one" in out
    assert (folder / "figures" / "attention.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("place", "data", "message"),
    [
        ("set/rows/a.png", b"", "set/rows/a.png: is empty (0 bytes); restore it or remove it"),
        (
            "set/rows/a.png",
            encoded(np.zeros((2, 2), np.uint8), "GIF"),
            "set/rows/a.png: is a GIF file; convert it to PNG or JPEG",
        ),
        ("set/rows/a.png", grey(size=(9, 9)), "set/rows/a.png: has 9 x 9 pixels, those before 8 x 8; set data.size"),
        ("set/a.png", grey(), "set/a.png: stands in no folder of a class; move it into one or remove it"),
    ],
)
def test_faults_of_data_end_with_their_file_and_what_to_do(headwise, folder, place, data, message):
    (folder / "recipe.toml").write_text('task = "image-classify"\n[data]\ntrain = "set"\n[model]\nkind = "cnn"\n')
    (folder / place).write_bytes(data)
    code, _, err = headwise("train", "recipe.toml", "--run-folder", "run")
    assert code == 3
    assert message in err
    assert len(err.splitlines()) == 1


def test_options_that_mean_nothing_here_are_refused(headwise, folder):
    code, _, err = headwise("init", "image-classify", "--data", "set", "--columns", 0, 1)
    assert code == 2
    assert "task 'image-classify' has no option --columns; it has: --data, --target-data, --valid, --test" in err
