"""A run folder from a stranger: no verb runs the Python in it, unless `--trust` says so."""

import os
import shutil
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest
from test_cli_tasks import OUTSIDE

from headwise.training.train import train

RECIPE = 'task = "downloaded.evil:Summing"\ntrain = "sums.txt"\n[training]\nmax_steps = 2\nmonitor = "mse"\n'
VERBS = {
    "predict": ["predict", "downloaded", "1 2"],
    "evaluate": ["evaluate", "downloaded"],
    "explain": ["explain", "downloaded", "1 2"],
    "align": ["align", "downloaded", "pairs.tsv"],
    "results": ["results", "downloaded"],
    "curve": ["curve", "length", "downloaded"],
    "serve": ["serve", "downloaded", "--port", "0"],
    "explore": ["explore", "downloaded", "--port", "0", "--no-browser"],
    "train": ["train", "downloaded/config.toml", "--run-folder", "downloaded"],
    "dry run": ["train", "downloaded/config.toml", "--dry-run"],
    "smoke": ["train", "downloaded/config.toml", "--smoke"],
    "sweep": ["sweep", "downloaded/config.toml", "training.max_steps=1,2"],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a run that names a module within itself."""
    folder = tmp_path_factory.mktemp("made")
    before = os.getcwd()
    os.chdir(folder)
    try:
        Path("sums.txt").write_text("".join(f"{n % 5} {n % 7}\n" for n in range(40)))
        Path("pairs.tsv").write_text("a\tb\n")
        Path("downloaded").mkdir()
        Path("downloaded/evil.py").write_text(textwrap.dedent(OUTSIDE) + "\nopen('ran', 'w').close()\n")
        train(tomllib.loads(RECIPE), "run", trust=True)
        Path("run").rename("new")
        shutil.copytree("new", "downloaded", dirs_exist_ok=True)
        Path("ran").unlink()
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def downloaded(made, tmp_path, monkeypatch):
    """The same for a user who trusts nothing, in a process that has imported nothing of it."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config of another user"))
    forget()
    yield tmp_path
    forget()


def forget():
    """As a new process: nothing of the run is imported."""
    for name in ("downloaded", "downloaded.evil"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_runs_it(headwise, downloaded, verb):
    code, _, err = headwise(*VERBS[verb])
    assert (code, Path("ran").exists()) == (2, False), err
    assert "'downloaded.evil' would run" in err
    assert "evil.py" in err
    assert "--trust" in err
    assert "warning" not in err


def test_trust_runs_it_and_is_remembered(headwise, downloaded):
    assert headwise("predict", "downloaded", "1 2")[0] == 2
    code, out, err = headwise("predict", "downloaded", "1 2", "--trust")
    assert (code, err) == (0, "")
    forget()
    assert headwise("predict", "downloaded", "1 2") == (0, out, "")
    forget()
    with open("downloaded/evil.py", "a") as file:
        file.write("# changed\n")
    assert headwise("predict", "downloaded", "1 2")[0] == 2


def test_a_mechanism_of_a_recipe_is_not_run_by_a_look_at_its_data(headwise, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("evil_mechanism.py").write_text("open('ran', 'w')\n")
    Path("config.toml").write_text(
        'task = "translate"\n[data]\ntrain = "pairs.tsv"\n'
        '[model]\nkind = "transformer"\nmechanism = "evil_mechanism:M"\n'
    )
    Path("pairs.tsv").write_text("go .\tva !\n" * 9)
    for arguments in (
        ["data", "report", "config.toml"],
        ["train", "config.toml"],
        ["train", "config.toml", "--dry-run"],
    ):
        headwise(*arguments)
        assert not Path("ran").exists(), arguments
    code, _, err = headwise("train", "config.toml", "--smoke")
    assert (code, "evil_mechanism.py" in err) == (2, True), err
    assert not Path("ran").exists()
