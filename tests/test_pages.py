"""The pages about data, tasks and the command line are what the code does: examples run, tables are complete."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from headwise import errors, runtime
from headwise.cli import failures
from headwise.cli.main import app, main

DOCS = Path(__file__).parent.parent / "docs"


def page(name):
    return (DOCS / name).read_text(encoding="utf-8")


def blocks(name, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page(name), re.MULTILINE | re.DOTALL)


def commands():
    """Every verb, `data report` among them, with the parser's own description."""
    root = typer.main.get_command(app)
    found = {name: command for name, command in root.commands.items() if name != "data"}
    return found | {"data report": root.commands["data"].commands["report"]}


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runtime, "apply", lambda threads=None, **options: None)


def test_the_page_of_data_runs(capsys):
    space = {}
    for block in blocks("data.md", "python"):
        exec(compile(block, "data.md", "exec"), space)
    Path("x.en").write_text("a\n")
    Path("x.fr").write_text("b\n")
    Path("words.conllu").write_text("1\tI\t_\tPRON\tPRP\t_\t_\t_\t_\t_\n")
    for line in "".join(blocks("data.md", "sh")).splitlines():
        assert main(shlex.split(line)[1:]) == 0, capsys.readouterr().err


def test_the_task_of_the_page_trains_and_predicts(capsys):
    (module,) = blocks("tasks.md", "python")
    (recipe,) = blocks("tasks.md", "toml")
    # a name of its own, since modules stay
    Path("sums_of_page.py").write_text(module)
    Path("sums.toml").write_text(recipe.replace("sums:Sums", "sums_of_page:Sums"))
    Path("sums.txt").write_text("".join(f"{n % 5} {n % 7}\n" for n in range(70)))
    told = []
    for line in "".join(blocks("tasks.md", "sh")).splitlines():
        assert main(shlex.split(line.replace("sums:Sums", "sums_of_page:Sums"))[1:]) == 0, capsys.readouterr().err
        told.append(capsys.readouterr().out)
    assert "hidden = 16  (whole number, at least 1)" in told[0]
    assert "step 80" in told[2]
    assert [0 < float(line) < 14 for line in told[3].splitlines()] == [True, True]
    assert '"mae"' in told[4]


def test_every_exit_code_is_in_the_table():
    table = dict(re.findall(r"^\| (\d+) \| (.*) \|$", page("command_line.md"), re.MULTILINE))
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.HeadwiseError)
    ]
    used = {kind.exit_code for kind in kinds} | {0, failures.INTERRUPTED, 128 + 15}
    assert set(map(int, table)) == used
    assert table["3"] == "a data file cannot be read as asked"
    found = [failures.describe(error)[1] for error in (RuntimeError(), MemoryError(), KeyboardInterrupt(), OSError())]
    assert found == [1, 5, 130, 3]


def test_every_verb_is_in_the_table():
    named = re.findall(r"^\| `([a-z]+)` \| ", page("command_line.md"), re.MULTILINE)
    assert set(named) == set(typer.main.get_command(app).commands)


def test_options_shared_by_verbs_are_those_of_the_table():
    rows = re.findall(r"^\| `(--[a-z-]+)` \| .* \| (.*) \|$", page("command_line.md"), re.MULTILINE)
    table = {option: set(re.findall(r"`([a-z ]+)`", verbs)) for option, verbs in rows}
    assert len(table) == 10
    having = {option: {name for name, command in commands().items() if option in _options(command)} for option in table}
    # a limit of tokens or figures is another thing than one of examples
    assert having == table


def test_one_option_has_one_meaning():
    texts = {}
    for name, command in commands().items():
        for parameter in command.params:
            for option in parameter.opts:
                texts.setdefault(option, {})[name] = getattr(parameter, "help", None)
    for option in ("--target-data", "--columns", "--source-key", "--target-key", "--limit"):
        assert len(set(texts[option].values())) == 1, texts[option]


def _options(command):
    return {option for parameter in command.params for option in parameter.opts}
