import errno
import os
import signal
import subprocess
import sys
import time
import warnings

import pytest

import headwise as package
from headwise.cli import main as entry
from headwise.cli.failures import describe
from headwise.errors import CheckpointError, DataError, Diverged, RunBusy

VERBS = [
    "init",
    "train",
    "predict",
    "evaluate",
    "explain",
    "explore",
    "serve",
    "sweep",
    "curve",
    "results",
    "align",
    "plan",
    "list",
    "doctor",
]
VERBS += ["data", "demo"]


def test_help_names_every_verb_and_imports_nothing_heavy():
    code = (
        "import sys\n"
        "from headwise.cli.main import main\n"
        "assert main(['--help']) == 0\n"
        "heavy = {'torch', 'numpy', 'pydantic', 'matplotlib', 'tokenizers', 'sacrebleu'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert main(['list', 'mechanisms']) == 0\n"
        "heavy = {'torch', 'numpy', 'matplotlib', 'tokenizers', 'sacrebleu'} & set(sys.modules)\n"
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
        (["nosuch"], "error: No such command 'nosuch'; `headwise [VERB] --help` says more\n"),
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

    monkeypatch.setattr("headwise.cli.list.unknown", fail)
    result = headwise("list", "nothing")
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
    def line(value):
        warnings.warn("the best model\x1b[2J is damaged", stacklevel=2)
        return "{}"

    monkeypatch.setattr("headwise.cli.list.json_text", line)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert headwise("list", "--json") == (0, "{}\n", "warning: the best model\\x1b[2J is damaged\n")


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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a" + ".a" * 5000 + " = 1", "nested too deep"),
        ("x = " + "9" * 5000, "a number with too many digits"),
        ("x = " + "[" * 5000 + "]" * 5000, "nested too deep"),
        ('task = "translate"\nseed = 99999999999999999999', "seed: a number beyond 64 bits"),
        ('task = "tr\\u001b[31m"', "unknown task 'tr\\x1b[31m'"),
    ],
)
def test_recipes_made_to_harm_are_refused_in_a_line(headwise, tmp_path, content, message):
    path = tmp_path / "recipe.toml"
    path.write_text(content)
    code, out, err = headwise("train", path)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_a_line_of_an_error_ends(headwise, tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text('task = "' + "x" * 100_000 + '"')
    code, _, err = headwise("train", path)
    assert code == 2
    assert len(err) < 3000


def test_sizes_that_no_machine_has_are_refused_at_once(headwise, tmp_path):
    code, _, err = headwise("train", "phrasebook", "model.d_model=99999999999", "--run-folder", tmp_path / "run")
    assert code == 2
    assert "model.d_model: must be 1048576 or less, not 99999999999" in err


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "<&-", ">&- 2>&- <&-"])
def test_closed_streams_are_no_fault(closed):
    command = f"{sys.executable} -c 'from headwise.cli.main import run; run()' list scores {closed}"
    assert subprocess.run(["sh", "-c", command], check=False).returncode == 0


@pytest.mark.slow
def test_a_folder_that_is_gone(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    command = f"cd {gone} && rmdir {gone} && {sys.executable} -c 'from headwise.cli.main import run; run()' list scores"
    done = subprocess.run(["sh", "-c", command], check=False, capture_output=True, text=True)
    assert done.returncode == 5
    assert done.stderr == "error: the folder that this command was started in is gone; change to another one\n"


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
@pytest.mark.parametrize("becomes", ["nothing", "another error"])
def test_a_signal_that_an_import_swallows_is_still_the_exit_code(monkeypatch, name, code, becomes):
    number = getattr(signal, name)
    former = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}

    def work(arguments):
        try:
            os.kill(os.getpid(), number)
            time.sleep(10)
        except BaseException:
            return 0 if becomes == "nothing" else 1

    monkeypatch.setattr(entry, "main", work)
    try:
        with pytest.raises(SystemExit) as end:
            entry.run()
    finally:
        for each, handler in former.items():
            signal.signal(each, handler)
    assert end.value.code == code
