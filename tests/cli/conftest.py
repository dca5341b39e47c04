"""A tiny run trained through the command line, and the command line as a function."""

import io
import sys

import pytest
from tiny import PAIRS

from headwise import runtime
from headwise.cli.main import main

NUMBERS = ["one", "two", "three", "four", "five", "six", "seven"]
CHIFFRES = ["un", "deux", "trois", "quatre", "cinq", "six", "sept"]


@pytest.fixture(autouse=True)
def _settings_of_the_process_stay(monkeypatch):
    """The command line tunes its process; here it shares one with other tests."""
    monkeypatch.setattr(runtime, "apply", lambda threads=None, **options: None)


@pytest.fixture
def headwise(capsys, monkeypatch):
    """Runs a command: (exit code, standard output, standard error)."""

    def run(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture(scope="session")
def pairs_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "pairs.tsv"
    places = [(i, j) for i in range(7) for j in range(7) if i != j]
    lines = [f"{NUMBERS[i]} and {NUMBERS[j]} .\t{CHIFFRES[i]} et {CHIFFRES[j]} ." for i, j in places]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    (path.parent / "recipe.toml").write_text(PAIRS, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def trained(pairs_file):
    """A run folder, trained for three steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime, "apply", lambda threads=None, **options: None)
        folder = pairs_file.parent / "run"
        assert main(["train", str(pairs_file.parent / "recipe.toml"), "--run-folder", str(folder)]) == 0
    return folder
