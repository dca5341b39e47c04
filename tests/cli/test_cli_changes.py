"""Data that moves or changes between commands: what goes on, what is told, what is refused; what a dry run leaves."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tiny import PAIRS, TAGGED, TEXT

from headwise.config import Config, DataFile, file_keys
from headwise.runs.checkpoints import Checkpoints
from headwise.runs.commits import MANIFEST, Draft, remove_folder, seal
from headwise.runs.reading import read_folder, read_manifest
from headwise.tasks.text import plain
from headwise.training.train import train

VECTORS = "one 1 2 3 4 5 6 7 8\ntwo 2 2 3 4 5 6 7 8\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Data and recipes of three tasks, and nothing outside that could be written to."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADWISE_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr("headwise.training.trial.TRIAL_S", 0.0)
    (tmp_path / "pairs.tsv").write_text("".join(f"one {n} and two\tun {n} et deux\n" for n in range(60)))
    (tmp_path / "vectors.txt").write_text(VECTORS)
    (tmp_path / "pairs.toml").write_text(PAIRS)
    sentences = [{"words": ["the", "cat", "sees", str(n)], "tags": ["D", "N", "V", "C"]} for n in range(60)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(sentence) + "\n" for sentence in sentences))
    (tmp_path / "tag.toml").write_text(TAGGED)
    (tmp_path / "text.txt").write_text("a cat and a dog and a cat .\n" * 40)
    (tmp_path / "text.toml").write_text(TEXT)
    return tmp_path


def log(run="run"):
    return Path(run, "log.txt").read_text(encoding="utf-8")


def test_word_vectors_move_and_go_but_do_not_change(headwise, folder):
    given = ["train", "pairs.toml", "--run-folder", "run", "vectors.source=vectors.txt"]
    assert headwise(*given)[0] == 0
    (folder / "elsewhere").mkdir()
    os.rename("vectors.txt", "elsewhere/vectors.txt")
    moved = [*given[:-1], "vectors.source=elsewhere/vectors.txt"]
    code, _, err = headwise(*moved, "training.max_steps=4")
    assert code == 0, err
    assert "vectors.source was " in log()
    (folder / "elsewhere" / "vectors.txt").write_text(VECTORS + "three 3 2 3 4 5 6 7 8\n")
    code, _, err = headwise(*moved, "training.max_steps=5")
    assert code == 3
    assert "the data has changed since this run began: vectors.source; restore the files" in err
    # only the first step reads it
    os.remove("elsewhere/vectors.txt")
    code, _, err = headwise(*moved, "training.max_steps=5")
    assert code == 0, err
    code, _, err = headwise(*given[:-1], "training.max_steps=6")
    assert code == 2
    assert "vectors.source was " in err


def _as_of_format_2(folder):
    """The folder as the program wrote it that called norm_order norm."""
    config = (folder / "config.toml").read_text()
    config = config.replace('norm = "layer"\n', "").replace("residual = true\n", "").replace("norm_order", "norm")
    (folder / "config.toml").write_text(config)
    manifest = read_manifest(folder)
    entry = {"bytes": len(config), "sha256": hashlib.sha256(config.encode()).hexdigest()}
    files = {**manifest["files"], "config.toml": entry}
    (folder / MANIFEST).write_bytes(seal({**manifest, "files": files, "format": 2}))


def test_a_run_that_called_norm_order_norm_is_the_same_model_and_goes_on(headwise, folder):
    assert headwise("train", "pairs.toml", "--run-folder", "run", "model.norm_order=post")[0] == 0
    said = headwise("predict", "run", "one 3 and two", "--scores", "--beam", 2)
    for path in (folder / "run", *(entry.path for entry in Checkpoints(folder / "run").entries())):
        _as_of_format_2(path)
    assert 'norm = "post"' in (folder / "run" / "config.toml").read_text()
    assert headwise("predict", "run", "one 3 and two", "--scores", "--beam", 2) == said
    code, _, err = headwise("train", "pairs.toml", "--run-folder", "run", "model.norm=post")
    assert (code, "model.norm = 'post' is written model.norm_order = 'post'" in err) == (2, True)
    code, _, err = headwise(
        "train", "pairs.toml", "--run-folder", "run", "model.norm_order=post", "training.max_steps=4"
    )
    assert code == 0, err
    assert "model.norm" not in log()
    assert 'norm_order = "post"' in (folder / "run" / "config.toml").read_text()


@pytest.mark.parametrize("gone", [False, True])
def test_vectors_of_a_run_that_kept_no_digest_of_them(headwise, folder, gone):
    given = ["train", "pairs.toml", "--run-folder", "run", "vectors.source=vectors.txt"]
    assert headwise(*given)[0] == 0
    newest = Checkpoints(folder / "run").entries()[0].path
    saved = {path.name: path.read_bytes() for path in newest.iterdir() if path.name != MANIFEST}
    trainer = json.loads(saved["trainer.json"])
    del trainer["data"]["vectors.source"]
    remove_folder(newest)
    facts = {"format": 2, "kind": "checkpoint", "step": 3}
    Draft.begin(newest, 0).commit({**saved, "trainer.json": json.dumps(trainer).encode()}, facts)
    if gone:
        (folder / "vectors.txt").unlink()
    code, _, err = headwise(*given, "training.max_steps=4")
    assert code == 0, err
    noted = read_folder(Checkpoints(folder / "run").entries()[0].path).json("trainer.json")["data"]
    assert ("vectors.source" in noted) != gone


@pytest.mark.parametrize(
    ("name", "file", "more", "kept"),
    [
        ("pairs", "pairs.tsv", "nine 9\tneuf 9\n" * 9, "source.tokenizer.json, target.tokenizer.json"),
        ("tag", "train.jsonl", '{"words": ["dogs"], "tags": ["N"]}\n' * 9, "tokenizer.json, words.json"),
        ("text", "text.txt", "zebra q\n" * 9, "text.tokenizer.json"),
    ],
)
def test_changed_data_is_trained_on_with_the_tokens_of_the_run(headwise, folder, name, file, more, kept):
    given = ["train", f"{name}.toml", "--run-folder", "run"]
    assert headwise(*given)[0] == 0
    before = {path.name: path.read_bytes() for path in (folder / "run").glob("*tokenizer.json")}
    (folder / file).write_text(more + (folder / file).read_text())
    assert headwise(*given, "training.max_steps=6")[0] == 3
    code, _, err = headwise(*given, "training.max_steps=6", "--allow-data-change")
    assert code == 0, err
    assert f"the data as it is now would give another {kept}; the run goes on with its own" in log()
    assert {path.name: path.read_bytes() for path in (folder / "run").glob("*tokenizer.json")} == before


def test_less_data_than_the_place_in_it(headwise, folder):
    given = ["train", "pairs.toml", "--run-folder", "run", "training.batch_sentences=2"]
    assert headwise(*given, "training.max_steps=12")[0] == 0
    (folder / "pairs.tsv").write_text("".join(f"one {n} and two\tun {n} et deux\n" for n in range(20)))
    code, _, err = headwise(*given, "training.max_steps=14", "--allow-data-change", "data.valid_fraction=0.05")
    assert code == 0, err
    assert read_folder(Checkpoints(folder / "run").entries()[0].path).json("trainer.json")["sampler"]["epoch"] == 1


def test_a_tag_that_the_run_does_not_know_is_refused(headwise, folder):
    assert headwise("train", "tag.toml", "--run-folder", "run")[0] == 0
    with (folder / "train.jsonl").open("a") as file:
        file.write('{"words": ["oh"], "tags": ["INTJ"]}\n' * 2)
    code, _, err = headwise("train", "tag.toml", "--run-folder", "run", "training.max_steps=4", "--allow-data-change")
    assert code == 3
    assert "train.jsonl:61: tag 'INTJ' is not one of the 4 that the run began with; take such sentences out" in err


@pytest.mark.parametrize(
    ("name", "file", "bad", "own"),
    [
        ("pairs", "pairs.tsv", b"no tab\n", True),
        ("pairs", "pairs.tsv", b"no tab\n", False),
        ("tag", "train.jsonl", b"[]\n", True),
        ("tag", "train.jsonl", b"[]\n", False),
        ("text", "text.txt", b"\xff\n", False),
    ],
)
@pytest.mark.filterwarnings("default::UserWarning")
def test_evaluate_tells_of_skipped_lines_and_of_another_file(headwise, folder, name, file, bad, own):
    shutil.copy(file, f"test-{file}")
    read = f"test-{file}" if own else file
    given = [f"data.test=test-{file}"] * own
    with open(read, "ab") as written:
        written.write(bad)
    assert headwise("train", f"{name}.toml", "--run-folder", "run", 'data.bad_lines="skip"', *given)[0] == 0
    code, out, err = headwise("evaluate", "run", "--json")
    assert code == 0, err
    assert json.loads(out)
    assert err.startswith("warning: ")
    assert f"{read}: 1 bad line skipped: " in err
    assert "has changed" not in err
    with open(read, "ab") as written:
        written.write(bad)
    code, _, err = headwise("evaluate", "run", "--json")
    assert code == 0, err
    assert f"{read}: 2 bad lines skipped: " in err
    assert f"{read}: has changed since the run was trained: scores cannot be compared with earlier ones" in err
    assert ("the test part may hold what was trained on" in err) != own
    # what is given is nobody's
    assert "has changed" not in headwise("evaluate", "run", "--data", read, "--json")[2]


@pytest.mark.parametrize("with_state", [True, False])
@pytest.mark.filterwarnings("default::UserWarning")
def test_a_run_that_does_not_say_its_data_is_evaluated(headwise, folder, with_state):
    assert headwise("train", "pairs.toml", "--run-folder", "run")[0] == 0
    manifest = read_manifest(folder / "run")
    del manifest["data"]
    (folder / "run" / MANIFEST).write_bytes(seal({**manifest, "format": 1}))
    if not with_state:
        shutil.rmtree("run/state")
    (folder / "pairs.tsv").write_text((folder / "pairs.tsv").read_text() + "nine\tneuf\n")
    code, _, err = headwise("evaluate", "run", "--json")
    assert code == 0, err
    assert ("has changed since" in err) == with_state
    assert headwise("predict", "run", "one")[0] == 0


def test_a_dry_run_writes_nothing_and_tells_of_the_first_step(headwise, folder, monkeypatch):
    monkeypatch.setattr(plain, "IN_MEMORY_CHARS", 10)

    def files():
        return sorted((str(path), path.stat().st_mtime_ns) for path in folder.rglob("*"))

    before = files()
    code, out, err = headwise("train", "text.toml", "--dry-run")
    assert (code, err) == (0, "")
    assert "tokens of" in out
    code, out, err = headwise("train", "pairs.toml", "vectors.source=vectors.txt", "--dry-run")
    assert (code, err) == (0, "")
    assert f"  {folder / 'vectors.txt'}: vectors of 8 numbers for 2 of " in out
    assert "  without vector: " in out
    assert files() == before
    assert headwise("train", "text.toml", "--run-folder", "run")[0] == 0
    assert len(list((folder / "cache" / "tokens").iterdir())) == 3


def test_a_dry_run_leaves_no_bytecode(headwise, folder):
    from test_cli_tasks import OUTSIDE

    (folder / "summing_dry.py").write_text(textwrap.dedent(OUTSIDE))
    (folder / "sums.txt").write_text("".join(f"{n % 5} {n % 7}\n" for n in range(40)))
    (folder / "sums.toml").write_text('task = "summing_dry:Summing"\ntrain = "sums.txt"\n[training]\nmax_steps = 2\n')
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    try:
        code, _, err = headwise("train", "sums.toml", "training.monitor=mse", "--dry-run", "--trust")
        assert not sys.dont_write_bytecode
    finally:
        sys.dont_write_bytecode = before
    assert code == 0, err
    assert not (folder / "__pycache__").exists()


TOO_LITTLE = {
    "one pair": ("translate", "few.tsv", "go .\tva !\n"),
    "one pair again and again": ("translate", "few.tsv", "go .\tva !\n" * 30),
    "marks alone": ("translate", "few.tsv", "!" * 90 + "\t" + "?" * 90 + "\n"),
    "one sentence": ("tag", "few.jsonl", '{"words": ["go"], "tags": ["V"]}\n'),
    "ten characters": ("language-model", "few.txt", "abcdefghi\n"),
    "three lines": ("language-model", "few.txt", "a\nb\nc\n"),
}
SMALL = {
    "translate": ["model.d_model=8", "model.num_heads=2", "model.d_ff=8"],
    "tag": ["model.d_model=8", "model.hidden_dim=8"],
    "language-model": ["model.d_model=8", "model.d_ff=8", "model.num_heads=2"],
}


@pytest.mark.parametrize("case", TOO_LITTLE)
def test_init_on_too_little_data(headwise, folder, case):
    task, name, content = TOO_LITTLE[case]
    (folder / name).write_text(content)
    code, _, err = headwise("init", task, "--data", name, *SMALL[task], "--output", "my.toml")
    if code:
        assert code == 3
        assert name in err
        assert not (folder / "my.toml").exists()
        return
    code, _, err = headwise("train", "my.toml", "training.max_steps=1", "--run-folder", "run")
    assert code == 0, err


def test_init_refuses_what_does_not_train(headwise, folder):
    (folder / "few.tsv").write_text("go .\tva !\n")
    code, _, err = headwise("init", "translate", "--data", "few.tsv", "data.valid_fraction=0.5")
    assert code == 3
    assert "the split of 1 sentence pairs leaves none for " in err
    assert not (folder / "recipe.toml").exists()


@pytest.mark.parametrize("name", ["model.safetensors", "source.tokenizer.json", "state/best.json"])
def test_a_folder_in_place_of_a_file_is_named(headwise, folder, name):
    given = ["train", "pairs.toml", "--run-folder", "run", "training.validate_every=1"]
    assert headwise(*given)[0] == 0
    (folder / "run" / name).unlink()
    (folder / "run" / name).mkdir()
    code, _, err = headwise(*given, "training.max_steps=4")
    assert (code, err) == (
        4,
        f"error: run/{name}: is a folder, but the run keeps a file of this name there; move the folder away and give "
        "the same command again\n",
    )
    (folder / "run" / name).rmdir()
    assert headwise(*given, "training.max_steps=4")[0] == 0
    assert (folder / "run" / name).is_file()


def test_a_terminated_command_leaves_no_temporary_file(tmp_path):
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from headwise.files import replacing\n"
        "signal.signal(signal.SIGTERM, lambda number, _: sys.exit(143))\n"
        "with replacing(Path('a.txt')) as temporary:\n"
        "    temporary.write_text('half')\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=False)
    assert done.returncode == 128 + signal.SIGTERM
    assert os.listdir(tmp_path) == []


def test_a_marked_key_of_ones_own_moves(folder):
    from test_cli_tasks import OUTSIDE

    (folder / "summing_marked.py").write_text(textwrap.dedent(OUTSIDE))
    (folder / "sums.txt").write_text("".join(f"{n % 5} {n % 7}\n" for n in range(40)))
    recipe = {"task": "summing_marked:Summing", "train": "sums.txt", "training": {"max_steps": 2, "monitor": "mse"}}
    train(recipe, "run", trust=True)
    os.rename("sums.txt", "moved.txt")
    longer = {**recipe, "train": "moved.txt", "training": {"max_steps": 3, "monitor": "mse"}}
    assert train(longer, "run").steps == 3
    saved = read_folder(Checkpoints(folder / "run").entries()[0].path)
    assert list(saved.json("trainer.json")["data"]) == ["train"]


def test_an_unmarked_key_of_ones_own_is_written_as_it_is_read(headwise, folder, monkeypatch):
    from test_cli_tasks import OUTSIDE

    monkeypatch.syspath_prepend(folder)
    (folder / "summing_unmarked.py").write_text(textwrap.dedent(OUTSIDE).replace("train: DataFile", "train: str"))
    (folder / "sums.txt").write_text("".join(f"{n % 5} {n % 7}\n" for n in range(40)))
    (folder / "sub").mkdir()
    task, settings = "summing_unmarked:Summing", ("training.max_steps=2", "training.monitor=mse")
    code, _, err = headwise("init", task, "--data", "sums.txt", *settings, "--output", "sub/my.toml")
    assert code == 0, err
    code, _, err = headwise("train", "sub/my.toml", "--run-folder", "run")
    assert code == 0, err


def test_another_file_to_validate_is_another_recipe(headwise, folder):
    assert headwise("train", "pairs.toml", "--run-folder", "run")[0] == 0
    shutil.copy("pairs.tsv", "held.tsv")
    given = ["train", "pairs.toml", "--run-folder", "run", "data.valid=held.tsv", "training.max_steps=3"]
    code, _, err = headwise(*given, "--allow-data-change")
    assert code == 2
    assert "data.valid was" in err


def test_a_list_of_files_is_not_one_file():
    class Many(Config):
        train: list[DataFile]
        valid: DataFile | None = None

    assert list(file_keys(Many(train=["a"]))) == ["valid"]
