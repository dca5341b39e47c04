"""Labels of pixels from the command line: init, train, predict into folders and lines, evaluate, explain; refusals."""

import json

import numpy as np
import pytest
from pictures import encoded, npz, stripes
from PIL import Image

SHORT = ["training.max_steps=3", "training.max_epochs=0", "training.schedule=constant", "training.warmup_share=0"]
SHORT += ["training.batch_sentences=16"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pixels, _ = stripes(60)
    for kind, arrays in (("pictures", pixels), ("masks", np.where(pixels > 150, 3, 0).astype(np.uint8))):
        (tmp_path / kind).mkdir()
        for number, array in enumerate(arrays):
            (tmp_path / kind / f"{number:02}.png").write_bytes(encoded(array))
    rows = [f"pictures/{number:02}.png,masks/{number:02}.png" for number in range(60)]
    (tmp_path / "set.csv").write_text("path,mask\n" + "\n".join(rows) + "\n")
    return tmp_path


def trained(headwise, *settings):
    code, _, err = headwise("init", "image-segment", *SHORT, *settings, "--data", "set.csv")
    assert (code, err) == (0, "")
    code, _, err = headwise("train", "recipe.toml", "--run-folder", "run")
    assert code == 0, err


def test_from_a_table_to_masks(headwise, folder):
    trained(headwise, "model.width=4")
    recipe = (folder / "recipe.toml").read_text()
    assert 'train = "set.csv"  # CSV, TSV or JSON lines of paths; a folder of pictures; an .npz file' in recipe
    assert headwise("train", "recipe.toml", "training.max_steps=5", "--run-folder", "run")[0] == 0
    assert "after 5 steps" in (folder / "run" / "log.txt").read_text()
    pictures = ["pictures/01.png", "pictures/02.png"]
    code, out, err = headwise("predict", "run", *pictures, "--output", "said")
    assert (code, err) == (0, "")
    assert out.splitlines() == ["said/01.png", "said/02.png"]
    with Image.open("said/01.png") as mask:
        assert (mask.mode, mask.size) == ("P", (8, 8))
        assert set(np.unique(np.asarray(mask))) <= {0, 3}
    # what is written can be scored against
    code, out, err = headwise("predict", "run", *pictures)
    assert (code, err) == (0, "")
    for line in out.splitlines():
        shares = dict(share.split(" ") for share in line.split("\t"))
        assert shares.keys() <= {"0", "3"}
        assert sum(map(float, shares.values())) == pytest.approx(1, abs=1e-3)
    code, out, _ = headwise("predict", "run", "pictures/01.png", "--json")
    assert json.loads(out)["height"] == 8
    assert headwise("predict", "run", *pictures, "--output", "shares.tsv")[0] == 0
    assert len((folder / "shares.tsv").read_text().splitlines()) == 2
    code, out, err = headwise("evaluate", "run", "--json")
    assert (code, err) == (0, "")
    assert {"pixel_accuracy", "mean_iou", "baselines", "iou_of_each"} <= set(json.loads(out))
    code, out, err = headwise("evaluate", "run", "--data", "pictures", "--target-data", "masks", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["examples"] == 60


def test_pictures_of_every_size_in_an_archive(headwise, folder):
    trained(headwise, "model.width=4")
    (folder / "odd.npz").write_bytes(npz(images=np.zeros((2, 11, 5), np.uint8)))
    code, out, err = headwise("predict", "run", "odd.npz", "--output", "said/")
    assert (code, err) == (0, "")
    assert out.splitlines() == ["said/odd-0.png", "said/odd-1.png"]
    with Image.open("said/odd-1.png") as mask:
        assert mask.size == (5, 11)


def test_no_input_is_replaced_and_no_answer_lost(headwise, folder):
    trained(headwise, "model.width=4")
    before = (folder / "pictures" / "01.png").read_bytes()
    code, _, err = headwise("predict", "run", "pictures/01.png", "--output", "pictures")
    assert code == 2
    assert "pictures/01.png: is one of the inputs; name another folder with --output" in err
    assert (folder / "pictures" / "01.png").read_bytes() == before
    code, _, err = headwise("predict", "run", "pictures/01.png", "masks/01.png", "--output", "said")
    assert code == 2
    assert "masks/01.png: said/01.png is the answer to another input; predict them one by one" in err
    (folder / "file").write_text("x")
    code, _, err = headwise("predict", "run", "pictures/01.png", "--output", "file/in")
    assert code == 5
    assert "file/in/01.png: cannot be written: " in err


def test_what_a_pixel_looks_at_is_drawn(headwise, folder):
    small = ["model.kind=vit", "model.patch=4", "model.d_model=8", "model.d_ff=8", "model.num_heads=2"]
    recipe = 'task = "image-segment"\n[data]\ntrain = "set.csv"\n[model]\nkind = "cnn"\n[training]\nmax_steps = 2\n'
    (folder / "vit.toml").write_text(recipe)
    assert headwise("train", "vit.toml", *small, "model.encoder_layers=1", "--run-folder", "run")[0] == 0
    both = '{"path": "pictures/01.png", "mask": "masks/01.png"}'
    code, out, err = headwise("explain", "run", both, "--target", "7,0", "--heads", 1)
    assert (code, err) == (0, "")
    assert out.startswith("01.png → ")
    assert " at 7,0" in out
    assert "encoder.encoder.blocks.0.self_attention, head 1: " in out
    assert (folder / "figures" / "attention.png").stat().st_size > 1000
    code, _, err = headwise("explain", "run", "pictures/01.png", "--target", "8,0")
    assert code == 2
    assert "pixel '8,0' is not there; give its row and column from 0, such as 3,5, of 8 x 8" in err


@pytest.mark.parametrize(
    ("place", "data", "message"),
    [
        ("masks/03.png", b"", "masks/03.png: is empty (0 bytes); restore it or remove it"),
        ("masks/03.png", encoded(np.zeros((8, 9), np.uint8)), "masks/03.png: has 8 x 9 pixels, its picture"),
        (
            "masks/03.png",
            encoded(np.zeros((8, 8, 3), np.uint8)),
            "masks/03.png: is a mask in colours (RGB); ",
        ),
        ("set.csv", b"path,mask\npictures/00.png\n", "set.csv:2: 1 column, the first line has 2"),
    ],
)
def test_faults_of_data_end_with_their_file_and_what_to_do(headwise, folder, place, data, message):
    (folder / "recipe.toml").write_text('task = "image-segment"\n[data]\ntrain = "set.csv"\n[model]\nkind = "cnn"\n')
    (folder / place).write_bytes(data)
    code, _, err = headwise("train", "recipe.toml", "--run-folder", "run")
    assert code == 3
    assert "set.csv:" in err
    assert message in err
    assert len(err.splitlines()) == 1
