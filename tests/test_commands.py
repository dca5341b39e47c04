"""Every command that README and docs show runs, or is at least understood: pages in order, each from top to bottom."""

import contextlib
import functools
import os
import re
import shlex
import shutil
from pathlib import Path

import pytest
import tomli_w
import typer

from headwise import runtime
from headwise.cli.main import application, main
from headwise.training import fitting, recipes, trial

ROOT = Path(__file__).parent.parent
PAGES = {
    path.name: path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
}
# the tasks' page is one story with files of its own, told in test_pages.py; these others are told in cli/, that of
# experiments in test_cli_make.py and test_cli_sweep.py, since it needs data that is made and minutes
ELSEWHERE = {"tasks.md", "images.md", "captions.md", "speech.md", "ranking.md", "experiments.md"}
ELSEWHERE |= {"exchange.md", "forecasting.md", "dialogue.md", "segmentation.md", "service.md", "explorer.md"}

# a run of a few steps in place of a minute
TINY = {
    "limit": ("data", 120),
    "d_model": ("model", 8),
    "d_ff": ("model", 16),
    "num_heads": ("model", 4),
    "max_len": ("decoding", 5),
    "max_steps": ("training", 6),
}
SMALL = "model.d_model=8 model.d_ff=16 training.max_steps=3"
# what is added to a command so that it is quick, by how it begins
QUICKER = {
    "headwise init translate": f" {SMALL} model.num_heads=2 decoding.max_len=5",
    "headwise init tag": " training.max_steps=3",
    "headwise init node-classify": " training.max_epochs=3",
    "headwise init graph-regress": " model.d_model=8 training.max_epochs=3",
    "headwise init word-vectors": " training.max_steps=3",
    "headwise init classify": " training.max_steps=3 model.d_model=8 model.hidden_dim=8",
    "headwise check": " --quick --only empty",
}


def shown(text):
    """The lines of code of a page that are for the shell: fenced or indented."""
    fences = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
    rest = fences.sub(lambda block: _indented(block[2]) if block[1] in ("", "sh") else "", text)
    return [line[4:] for line in rest.splitlines() if re.match(r"    (headwise|mv|cp) ", line)]


def _indented(block):
    return "".join(f"    {line}\n" for line in block.splitlines())


def mentioned(text):
    """Commands inside a sentence."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return [re.sub(r"\s+", " ", command) for command in re.findall(r"`(headwise\s[^`]+)`", text)]


def words(line):
    return shlex.split(line, comments=True)


@functools.cache
def the_command():
    return typer.main.get_command(application())


def understood(arguments):
    """The parser takes the verb, its options and their values."""
    command = the_command()
    # it stands anywhere
    arguments = [argument for argument in arguments if argument != "--trust"]
    context = command.make_context("headwise", arguments)
    while hasattr(command, "commands"):
        name, command, arguments = command.resolve_command(context, arguments)
        context = command.make_context(name, list(arguments), parent=context)


@pytest.mark.parametrize("name", PAGES)
def test_commands_of_a_page_are_understood(name):
    for line in shown(PAGES[name]):
        # the options of an outside task are those of its module, which test_pages.py writes
        if line.startswith("headwise ") and name != "tasks.md":
            understood(words(line)[1:])
    for line in mentioned(PAGES[name]):
        # a sentence may leave out what a command must have, and speak of VERB
        with (
            contextlib.suppress(SystemExit, typer.Exit)
            if "VERB" not in line
            else pytest.raises(Exception, match="VERB")
        ):
            understood_so_far(words(line)[1:])


def understood_so_far(arguments):
    try:
        understood(arguments)
    except Exception as error:
        # a module of the reader's own is not there
        if "Missing" not in str(error) and "no module 'my_module'" not in str(error):
            raise


def test_what_is_wrong_is_not_understood():
    for line in ("headwise trian x", "headwise train x --rum y", "headwise predict", "headwise train x --threads many"):
        with pytest.raises(Exception, match=r"(?i)no such|missing|valid integer"):
            understood(words(line)[1:])


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The folder of recipes that ship, with a phrasebook of a few steps."""
    folder = tmp_path_factory.mktemp("recipes")
    values = recipes.read("phrasebook", []).model_dump(mode="json", exclude_none=True)
    for key, (section, value) in TINY.items():
        values[section][key] = value
    (folder / "phrasebook.toml").write_text("# small\n" + tomli_w.dumps(values), encoding="utf-8")
    return folder


@pytest.fixture
def here(tiny, tmp_path, monkeypatch, untyped):
    """A folder with the files that the pages name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    settings = runtime.Settings(1, False, "ieee", "as it is")
    monkeypatch.setattr(runtime, "apply", lambda threads=None, **options: settings)
    monkeypatch.setattr(runtime, "gigaflops", lambda dtype: 1.0)
    monkeypatch.setattr(recipes, "folder", lambda: tiny)
    monkeypatch.setattr(fitting, "TRIAL_S", 0.0)
    monkeypatch.setattr(trial, "TRIAL_S", 0.0)
    pairs = [f"{a} and {b} .\t{a} et {b} .\n" for a in "abcdefg" for b in "abcdefg"]
    for name in ("pairs.tsv", "test.tsv"):
        Path(name).write_text("".join(pairs))
    for side, names in enumerate((("x.en", "source.txt"), ("x.fr", "target.txt"))):
        for name in names:
            Path(name).write_text("".join(line.rstrip("\n").split("\t")[side] + "\n" for line in pairs))
    Path("nodes.csv").write_text("id,f,label\n" + "".join(f"n{n},{n},{n % 2}\n" for n in range(30)))
    Path("edges.csv").write_text("".join(f"n{n},n{(n + 2) % 30}\n" for n in range(30)))
    Path("molecules.csv").write_text("smiles,target\n" + "".join(f"{'C' * n}O,{n}\n" for n in range(1, 40)))
    Path("reviews.csv").write_text(
        "text,label\n" + "".join(f"{a} and {b},{a < b}\n" for a in "abcdefg" for b in "abcdefg")
    )
    Path("text.txt").write_text("the king met a queen , and a man met the woman .\n" * 60)
    Path("similar.tsv").write_text("king\tqueen\t8\nman\twoman\t9\nking\twoman\t2\n")
    Path("links.txt").write_text("0-0 1-1\n" * len(pairs))
    for name in ("words.conllu", "train.conllu", "dev.conllu"):
        Path(name).write_text("1\tI\t_\tPRON\tPRP\t_\t_\t_\t_\t_\n2\tgo\t_\tVERB\tVBP\t_\t_\t_\t_\t_\n\n" * 9)
    for name in ("train.conll", "dev.conll", "other.conll"):
        Path(name).write_text("".join(f"A{n} B-PER\nLee I-PER\nsaw O\nR{n} B-LOC\n\n" for n in range(40)))
    mechanism = re.search(r"^```python\n(.*?)^```", PAGES["check.md"], re.MULTILINE | re.DOTALL)[1]
    Path("my_module.py").write_text(f"{mechanism}\n\nMyAttention = Decaying\n")
    return tmp_path


def carried_out(line):
    """Runs one line; returns the exit code."""
    kind, *rest = words(line)
    if kind == "mv":
        os.rename(*rest)
    elif kind == "cp":
        shutil.copytree(*rest[1:])
    else:
        return main(rest)
    return 0


def quicker(line):
    """The same command for a run of a hundredth of its steps."""
    line = " ".join(map(shlex.quote, words(line)))
    line = re.sub(r"max_steps=(\d+)00", r"max_steps=\1", line)
    return line + "".join(more for start, more in QUICKER.items() if line.startswith(start))


# drawing, and several runs, take time
SLOW = {"seeing.md", "scale.md", "blocks.md", "attribution.md", "language_model.md", "masked_lm.md"}
RUN = [name for name, text in PAGES.items() if shown(text) and name not in ELSEWHERE]


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in RUN])
def test_commands_of_a_page_run(name, here, capsys):
    # a test reaches no network; cli/test_cli_data.py fetches from this machine
    lines = [quicker(line) for line in shown(PAGES[name]) if not line.startswith("headwise data fetch ")]
    if any(" RUN " in f"{line} " for line in lines):
        assert carried_out("headwise train phrasebook --run-folder RUN") == 0
    for line in lines:
        code = carried_out(line)
        assert code == 0, f"{line}: {capsys.readouterr().err}"
