"""`headwise import`, `init --start` and `export`, from a folder of transformers and back to one."""

import random

import pytest

transformers = pytest.importorskip("transformers")

from their_models import WORDS, made  # noqa: E402

from headwise.cli.main import main  # noqa: E402


@pytest.mark.slow
def test_from_a_folder_to_a_fine_tuned_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    made(tmp_path / "theirs", "marian")
    (tmp_path / "theirs" / "README.md").write_text("---\nlanguage: en\nlicense: apache-2.0\n---\n# A model\n")
    draw = random.Random(0)
    texts = [" ".join(draw.choices(WORDS, k=3)) for _ in range(80)]
    (tmp_path / "pairs.tsv").write_text("".join(f"{text}\t{text}\n" for text in texts))
    assert main(["import", "theirs", "--to", "run"]) == 0
    assert "license: apache-2.0" in capsys.readouterr().out
    assert "| license | apache-2.0 |" in (tmp_path / "run" / "README.md").read_text()
    assert main(["predict", "run", "w1 w2"]) == 0
    assert main(["evaluate", "run", "--data", "pairs.tsv", "--limit", "5"]) == 0
    capsys.readouterr()
    # there is no data of its own
    assert main(["evaluate", "run"]) == 3
    assert "name a file with --data" in capsys.readouterr().err
    for start in ("run", "theirs"):
        assert main(["init", "translate", "--data", "pairs.tsv", "--start", start, "--output", f"{start}.toml"]) == 0
    assert main(["train", "theirs.toml", "training.max_steps=3", "--run-folder", "tuned"]) == 0
    card = (tmp_path / "tuned" / "README.md").read_text()
    assert "starts from theirs (SHA-256 " in card
    assert "license: apache-2.0" in card
    capsys.readouterr()
    assert main(["export", "tuned", "--to", "huggingface", "out", "--split", "train"]) == 0
    assert "outputs identical" in capsys.readouterr().out
    assert main(["export", "--check", "out"]) == 0


def test_a_run_folder_that_is_there_stays(tmp_path, capsys):
    made(tmp_path / "theirs", "marian")
    assert main(["import", str(tmp_path / "theirs"), "--to", str(tmp_path)]) == 2
    assert "is not empty; give another --to" in capsys.readouterr().err


def test_minutes_do_not_fit_a_start(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.tsv").write_text("a\tb\n" * 9)
    assert main(["init", "translate", "--data", "pairs.tsv", "--start", "x", "--minutes", "1"]) == 2
    assert "--minutes chooses the size" in capsys.readouterr().err


def test_a_folder_without_a_model_is_named(tmp_path, capsys):
    assert main(["import", str(tmp_path)]) != 0
    assert f"{tmp_path / 'config.json'}: missing" in capsys.readouterr().err
