"""The pages about data, tasks, run folders and the command line are true: examples run, tables are complete."""

import json
import os
import re
import shlex
from fnmatch import fnmatch
from pathlib import Path

import pytest
import typer
from fastapi.testclient import TestClient

from headwise import errors, runtime
from headwise.cli import failures
from headwise.cli.main import application, main
from headwise.explorer.api import add_explorer
from headwise.explorer.comparing import bench_routes
from headwise.explorer.films import add_films
from headwise.explorer.pages import add_pages
from headwise.runs import trackers
from headwise.runs.migration import FORMAT
from headwise.service.app import create_app
from headwise.service.loaded import load_runs
from headwise.training.recipe import MAY_CHANGE, FilmConfig
from headwise.training.resume import _LAID_OUT_OVER
from headwise.training.train import train

DOCS = Path(__file__).parent.parent / "docs"


def page(name):
    return (DOCS / name).read_text(encoding="utf-8")


def blocks(name, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page(name), re.MULTILINE | re.DOTALL)


def commands():
    """Every verb, `data report` and others of groups among them, with the parser's own description."""
    found = {}
    for name, command in typer.main.get_command(application()).commands.items():
        inner = getattr(command, "commands", None)
        found |= {name: command} if inner is None else {f"{name} {verb}": one for verb, one in inner.items()}
    return found


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runtime, "apply", lambda threads=None, **options: None)


def test_the_page_of_data_runs():
    space = {}
    for block in blocks("data.md", "python"):
        exec(compile(block, "data.md", "exec"), space)


def test_the_page_of_images_runs():
    (block,) = blocks("images.md", "python")
    exec(compile(block, "images.md", "exec"), {})
    assert Path("looked.png").stat().st_size > 1000


def test_the_page_of_speech_runs():
    (block,) = blocks("speech.md", "python")
    exec(compile(block, "speech.md", "exec"), {})
    assert Path("heard.png").stat().st_size > 1000


def test_the_task_of_the_page_has_every_door(capsys):
    (module,) = blocks("tasks.md", "python")
    assert sum(line.strip() != "" for line in module.splitlines()) <= 90
    # a name of its own, since modules stay
    Path("twice_of_page.py").write_text(module)
    printed = []
    for line in "".join(blocks("tasks.md", "sh")).splitlines():
        assert main(shlex.split(line.replace("twice:", "twice_of_page:"))[1:]) == 0, capsys.readouterr().err
        printed.append(capsys.readouterr().out)
    config, _, of_file, _, of_recipe, _, resumed, lines, objects, scores, attention, demo = printed
    assert "words, each with a tab and 1 or 0" in config
    assert of_file == "train.tsv: 300 words\n"
    assert of_recipe.startswith(f"{Path('train.tsv').resolve()}: 300 words")
    assert "step 30" in resumed
    assert all(0 <= float(line) <= 1 for line in lines.splitlines())
    assert all(len(str(json.loads(line)["output"])) == 3 for line in objects.splitlines())
    assert set(json.loads(scores)) == {"examples", "accuracy"}
    assert "attention, mean of 2 heads" in attention
    assert "demo/figures/attention.png" in demo

    runs = load_runs([Path("run")])
    more = [add_explorer, add_films, bench_routes([]), add_pages]
    client = TestClient(create_app(runs, hosts=["testserver"], more=more))
    with client:
        body = {"texts": ["noon", "deed"], "options": {"digits": 1}}
        assert client.post("/api/v1/twice", json=body).json()["outputs"] == list(map(json.loads, objects.splitlines()))
        assert client.post("/api/v1/twice", json=body | {"options": {"beam_size": 2}}).status_code == 422
        trace = client.post("/api/v1/traces", json={"text": "noon"}).json()
        assert trace["groups"][0]["queries"] == [*"noon"]


class Curves(trackers.Tracker):
    """A tracker as TensorBoard is one, which writes a line a step."""

    name, key = "tensorboard", "tensorboard"

    def __init__(self, run, project, recipe, key):
        self.folder = run / "tensorboard"
        self.folder.mkdir(exist_ok=True)

    def write(self, step, numbers, texts):
        (self.folder / "events").write_text(str(step))

    def close(self):
        pass


MODEL = {"d_model": 4, "d_ff": 4, "num_heads": 1}
TRAINING = {"max_steps": 2, "warmup_steps": 1, "validate_every_epochs": 0, "trackers": ["tensorboard"], "save_every": 1}


def test_the_files_of_a_run_folder_are_those_of_the_page(monkeypatch):
    monkeypatch.setattr(trackers, "TRACKERS", {"tensorboard": Curves})
    Path("pairs.tsv").write_text("".join(f"{a} {b}\t{b} {a}\n" for a in "abcdef" for b in "abcdef"))
    Path("text.txt").write_text("abc abc.\n" * 60)
    layers = {"encoder_layers": 1, "decoder_layers": 1}
    pairs = {
        "task": "translate",
        "data": {"train": "pairs.tsv"},
        "tokenizer": {"kind": "word", "joint": False},
        "model": {"kind": "transformer", **MODEL, **layers},
        "decoding": {"max_len": 3},
        "training": {**TRAINING, "ema_decay": 0.5},
        "film": {"every": 1},
    }
    text = {
        "task": "language-model",
        "data": {"train": "text.txt"},
        "tokenizer": {"kind": "char"},
        "length": 8,
        "show_len": 2,
        "model": {**MODEL, "num_layers": 1, "memory_len": 4, "position": "transformer_xl"},
        "training": {**TRAINING, "batch_tokens": 32},
    }
    for folder, recipe in (("pairs", pairs), ("text", text)):
        train(recipe, folder)
    newest = max(Path("pairs/state").glob("step-*"))
    (newest / "trainer.json").write_text("{}")
    train(pairs, "pairs", overrides=["training.max_steps=3"])

    tables = {title: _first_column("run_folder.md", title) for title in ("file", "in `state/`", "in a checkpoint")}
    # what other runs have, and what a search writes
    elsewhere = {"adapter.safetensors", "decoding.json", "ctranslate2"}
    assert len(tables["file"]) == 13 + len(elsewhere)
    roots = [Path("pairs"), Path("text")]
    states = [root / "state" for root in roots]
    checkpoints = [path for state in states for path in state.glob("step-*")]
    for title, folders in (("file", roots), ("in `state/`", states), ("in a checkpoint", checkpoints)):
        there = {name for folder in folders for name in os.listdir(folder)}
        told = [name.rstrip("/") for name in tables[title]]
        assert not [name for name in there if not any(fnmatch(name, pattern) for pattern in told)], title
        missing = {pattern for pattern in told if not any(fnmatch(name, pattern) for name in there)}
        assert missing <= elsewhere, title


def _first_column(name, title):
    """The names in the first column of the table under this heading."""
    (rows,) = re.findall(rf"^\| {re.escape(title)} \|.*\n\|[-|]+\n((?:\|.*\n)+)", page(name), re.MULTILINE)
    return [found for row in rows.splitlines() for found in re.findall(r"`([^`]+)`", row.split("|")[1])]


def test_what_may_change_is_what_the_page_says():
    text = page("run_folder.md")
    rows = {row[0]: re.findall(r"`(\w+)`", row[1]) for row in re.findall(r"^\| `(training)` \| (.*) \|$", text, re.M)}
    assert "| `film` | all |" in text
    named = {f"{section}.{key}" for section, keys in rows.items() for key in keys}
    assert named | {f"film.{name}" for name in FilmConfig.model_fields} == MAY_CHANGE
    assert f"today {FORMAT}." in text
    limits = {name for names in _LAID_OUT_OVER.values() for name in names}
    assert limits == {"max_steps", "max_epochs", "max_cpu_s", "max_minutes"} == set(_LAID_OUT_OVER["budget"])


def test_every_exit_code_is_in_the_table():
    table = dict(re.findall(r"^\| (\d+) \| (.*) \|$", page("command_line.md"), re.MULTILINE))
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.HeadwiseError)
    ]
    used = {kind.exit_code for kind in kinds} | {0, failures.INTERRUPTED, 128 + 15}
    assert set(map(int, table)) == used
    assert table["3"].startswith("a data file")
    found = [failures.describe(error)[1] for error in (RuntimeError(), MemoryError(), KeyboardInterrupt(), OSError())]
    assert found == [1, 5, 130, 3]


def test_every_verb_is_in_the_table():
    named = re.findall(r"^\| `([a-z]+)` \| ", page("command_line.md"), re.MULTILINE)
    assert set(named) == set(typer.main.get_command(application()).commands)


def test_options_shared_by_verbs_are_those_of_the_table():
    rows = re.findall(r"^\| `(--[a-z-]+)` \| .* \| (.*) \|$", page("command_line.md"), re.MULTILINE)
    table = {option: set(re.findall(r"`([a-z ]+)`", verbs)) for option, verbs in rows}
    assert len(table) == 9
    having = {option: {name for name, command in commands().items() if option in _options(command)} for option in table}
    # a limit of tokens or figures is another thing than one of examples
    assert having == table


def test_one_option_has_one_meaning():
    texts = {}
    for name, command in commands().items():
        for parameter in command.params:
            for option in parameter.opts:
                texts.setdefault(option, {})[name] = getattr(parameter, "help", None)
    for option in ("--target-data", "--limit"):
        assert len(set(texts[option].values())) == 1, texts[option]


def _options(command):
    return {option for parameter in command.params for option in parameter.opts}
