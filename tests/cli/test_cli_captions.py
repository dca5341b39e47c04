"""Captions from the command line: init, train, predict, evaluate and explain, with no verb of their own."""

import json

import pytest

SHORT = ["training.max_steps=2", "training.max_epochs=0", "training.schedule=constant", "training.warmup_share=0"]
SHORT += ["encoder.width=4", "encoder.stages=2", "model.d_model=8", "model.d_ff=8", "model.num_heads=2"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_from_drawn_shapes_to_answers(headwise, folder):
    code, out, err = headwise("data", "make", "shapes", "--count", 20, "--folder", "set")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "set/train.csv: 20 examples"
    code, out, err = headwise(
        "init", "caption", *SHORT, "--data", "set/train.csv", "--valid", "set/valid.csv", "--test", "set/test.csv"
    )
    assert (code, err) == (0, "")
    recipe = (folder / "recipe.toml").read_text()
    assert "[encoder]  # what reads the image: vit, pixels, cnn or attention_cnn" in recipe
    code, out, err = headwise("train", "recipe.toml", "--run-folder", "run")
    assert code == 0, err
    picture = "set/pictures/00003.png"
    code, out, err = headwise("predict", "run", picture, "set/pictures/00004.png")
    assert (code, err, len(out.splitlines())) == (0, "", 2)
    code, out, _ = headwise("predict", "run", picture, "--n-best", 2, "--json")
    assert len(json.loads(out)["captions"]) == 2
    code, out, err = headwise("evaluate", "run", "--data", "set/test.csv", "--json")
    assert (code, err) == (0, "")
    assert {"bleu", "chrf", "exact", "loss", "baselines"} <= set(json.loads(out))
    code, out, err = headwise("explain", "run", picture, "--target", "a red square")
    assert (code, err) == (0, "")
    assert (folder / "figures" / "attention.png").read_bytes().startswith(b"\x89PNG")


def test_options_that_pictures_have_no_use_for(headwise, folder):
    code, _, err = headwise("init", "caption", "--data", "set", "--columns", 0, 1)
    assert code == 2
    code, _, told = headwise("data", "make", "shapes", "--longest", 3)
    assert code == 2
    assert "--longest does not apply to 'shapes'; leave it out" in told
    assert "task 'caption' has no option --columns; it has: --data, --valid, --test" in err
