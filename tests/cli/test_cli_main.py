import errno
import os
import subprocess
import sys
import warnings

import pytest

import headwise as package
from headwise.cli import main as entry
from headwise.cli.failures import describe
from headwise.errors import CheckpointError, DataError, Diverged, RunBusy

VERBS = ["init", "train", "predict", "evaluate", "explain", "plan", "list", "doctor", "data", "demo"]


def test_help_names_every_verb_and_imports_nothing_heavy():
    code = (
        "import sys\n"
        "from headwise.cli.main import main\n"
        "assert main(['--help']) == 0\n"
        "heavy = {'torch', 'numpy', 'pydantic', 'matplotlib', 'tokenizers', 'sacrebleu'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert all(verb in result.stdout for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(headwise, verb):
    code, out, err = headwise(verb, "--help")
    assert (code, err) == (0, "")
    assert "Usage" in out


def test_version(headwise):
    assert headwise("--version") == (0, package.__version__ + "\n", "")


def test_no_command_is_help(headwise):
    code, out, _ = headwise()
    assert code == 0
    assert "Commands" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nosuch"], "error: No such command 'nosuch'; `headwise --help` and `headwise VERB --help` say more\n"),
        (["plan", "--batch", "0"], "error: Invalid value for '--batch'"),
        (["plan", "--nosuch"], "error: No such option: --nosuch"),
        (["data"], "error: Missing command"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(headwise, arguments, message):
    code, out, err = headwise(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(message)
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "line", "code"),
    [
        (DataError("a.tsv:3: bad\x1b[2J\nline"), r"a.tsv:3: bad\x1b[2J line", 3),
        (CheckpointError("damaged"), "damaged", 4),
        (Diverged("ten steps"), "ten steps", 6),
        (RunBusy("busy"), "busy", 7),
        (OSError(errno.ENOSPC, "x", "a.bin"), "a.bin: no space left on the disk; free some and run the same", 5),
        (PermissionError(errno.EACCES, os.strerror(errno.EACCES), "a.bin"), "a.bin: Permission denied", 5),
        (FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "a.bin"), "a.bin: No such file or directory", 3),
        (MemoryError(), "out of memory; use a smaller batch", 5),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate"), "out of memory; use a smaller batch", 5),
        (KeyboardInterrupt(), "interrupted", 130),
        (RuntimeError("odd"), "unexpected RuntimeError: odd; add --debug to see where", 1),
    ],
)
def test_every_fault_is_one_line_with_its_exit_code(headwise, monkeypatch, error, line, code):
    message, number = describe(error)
    assert message.startswith(line)
    assert number == code

    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr("headwise.cli.list.import_module", fail)
    result = headwise("list", "scores")
    # the argument parser says nothing more about an interrupt
    assert result[2] == ("" if code == 130 else f"error: {message}\n")
    assert result[0] == code


@pytest.mark.parametrize("arguments", [["--debug", "plan", "--mask", "x"], ["plan", "--mask", "x", "--debug"]])
def test_debug_shows_the_traceback(headwise, arguments):
    code, _, err = headwise(*arguments)
    assert code == 2
    assert "Traceback" in err
    assert "\nerror: unknown mask 'x'; known: " in err


def test_what_follows_two_dashes_is_text():
    assert entry._split(["predict", "--debug", "--", "--debug"]) == (["predict", "--debug"], ["--", "--debug"])


def test_warnings_are_one_line(headwise, monkeypatch):
    class Family:
        @staticmethod
        def catalogue():
            warnings.warn("the best model is damaged", stacklevel=2)
            return {}

    monkeypatch.setattr("headwise.cli.list.import_module", lambda name: Family)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert headwise("list", "scores") == (0, "scores\n", "warning: the best model is damaged\n")


def test_a_closed_pipe_is_quiet():
    code = "from headwise.cli.main import run; run()"
    command = [sys.executable, "-c", code, "list", "recipes"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    process.wait()


def test_output_is_utf8_whatever_the_locale_says():
    code = "from headwise.cli.main import main; main(['--version']); print('\\xe9 \\u4f60')"
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, check=True)
    assert result.stdout.decode("utf-8") == f"{package.__version__}\né 你\n"
