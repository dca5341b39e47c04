"""`headwise data make`: files that the recipe of the same name trains on, and that predict and explain read."""

import pytest

from headwise.training import recipes

TINY = ["training.max_epochs=0", "training.max_steps=2", "training.batch_tokens=64", "model.d_model=8"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADWISE_DATA", str(tmp_path / "data"))
    return tmp_path


@pytest.mark.parametrize(
    ("problem", "text", "metric"), [("copy", "a b c", '"exact": '), ("odd", "c a c", '"accuracy": ')]
)
def test_from_nothing_to_a_picture(headwise, folder, problem, text, metric):
    code, out, err = headwise("data", "make", problem, "--count", 40, "--symbols", 4, "--longest", 6)
    assert code == 0, err
    assert out.splitlines()[0].endswith(f"data/synthetic/{problem}/train.tsv: 40 examples")
    assert out.splitlines()[-1] == f"next: headwise train {problem}"
    code, out, err = headwise("train", problem, *TINY, "--run-folder", "run")
    assert code == 0, err
    assert headwise("predict", "run", text)[0] == 0
    longer = folder / "data" / "synthetic" / problem / "longer.tsv"
    code, out, err = headwise("evaluate", "run", "--data", longer, "--json")
    assert (code, metric in out) == (0, True), err
    assert headwise("explain", "run", text, "--table")[0] == 0


def test_what_cannot_be_made(headwise, folder):
    code, out, err = headwise("data", "make", "shuffle")
    assert (code, out) == (2, "")
    assert "unknown problem 'shuffle'; known: backcopy, brackets, copy" in err
    for option, value in {"--amount": 2, "--side": 16, "--lengths": "1,2"}.items():
        assert f"{option} does not apply to 'waves'" in headwise("data", "make", "waves", option, value)[2]
    assert "--lengths 'x': give whole numbers" in headwise("data", "make", "copy", "--lengths", "x")[2]
    assert headwise("data", "make", "sort", "--folder", "here", "--count", 20)[0] == 0
    assert "is other data" in headwise("data", "make", "sort", "--folder", "here", "--count", 30)[2]


def test_every_problem_has_a_recipe():
    from headwise.data.synthetic import PROBLEMS

    for name in PROBLEMS:
        assert f"synthetic/{name}/train.tsv" in recipes.shipped()[name].read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("problem", "options"),
    [
        ("copy", ["--count", "1000000000"]),
        ("copy", ["--count", "10", "--longest", "1000000000"]),
        ("copy", ["--count", "10", "--held-out", "1000000000"]),
        ("copy", ["--count", "1000000", "--longest", "10", "--lengths", "1,1000"]),
        ("pathfinder", ["--count", "10", "--side", "100000"]),
    ],
)
def test_sizes_that_no_memory_has_room_for_are_refused(headwise, tmp_path, problem, options):
    code, _, err = headwise("data", "make", problem, "--folder", str(tmp_path / "drawn"), *options)
    assert code == 2
    assert "of which at most 100,000,000 are drawn; give smaller sizes" in err
    assert not (tmp_path / "drawn").exists()
