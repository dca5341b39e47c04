"""The entry of the command line: verbs, `--version`, `--debug`, and faults turned into one line."""

import errno
import importlib
import os
import signal
import sys
import traceback
import warnings
from typing import Annotated, TextIO

import typer

import headwise
from headwise.cli.failures import INTERRUPTED, describe, one_line
from headwise.cli.options import EvaluateCommand, InitCommand, TaskCommand
from headwise.errors import MachineError
from headwise.tasks.families import commands
from headwise.trust import trusting

# verbs in the order of `--help`, each a module, and how its options are read where tasks add some
_NAMES = (
    *(
        "init",
        "train",
        "predict",
        "evaluate",
        "explain",
        "explore",
        "serve",
        "sweep",
        "curve",
        "probe",
        "results",
        "plan",
        "import",
        "export",
    ),
    *("compare", "complexity", "advise", "claims", "check", "list", "config", "doctor", "data", "demo"),
)
# those that no module can be called by
_MODULES = {"import": "importing"}
_OPTIONS = {"init": InitCommand, "predict": TaskCommand, "evaluate": EvaluateCommand}
# options of every verb, which may stand anywhere before `--`
_EVERYWHERE = ("--debug", "--trust")


def _print_version(requested: bool) -> bool:
    if requested:
        typer.echo(headwise.__version__)
        raise typer.Exit
    return requested


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    trust: Annotated[bool, typer.Option("--trust", help="Run the code of a recipe or run, until it changes.")] = False,
) -> None:
    """Attention models: train them on your files, use them, and see what they attend to."""


def application(verb: str = "") -> typer.Typer:
    """The command line; of a verb of the package that one alone, so that the others are not imported."""
    app = typer.Typer(
        name="headwise",
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for name in [verb] if verb in _NAMES else _NAMES:
        module = importlib.import_module(f"headwise.cli.{_MODULES.get(name, name)}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            app.command(name, cls=_OPTIONS.get(name))(getattr(module, name, None) or module.show)
    if verb not in _NAMES:
        for name, command in commands("").items():
            app.command(name)(command)
    return app


def run() -> None:
    """The `headwise` command."""
    # read once, when PyTorch is loaded: idle threads sleep instead of spinning, which on a shared machine can cost
    # several times the work itself
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    # the processes that this one starts would look in the current folder first: a stranger's pickle.py there would run
    os.environ["PYTHONSAFEPATH"] = "1"
    if "RANK" in os.environ:
        # read then too: what PyTorch advises programmers is nothing to the user of a launcher
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    _open_what_is_closed()
    received: list[int] = []

    def end(number: int, _: object) -> None:
        # as an exception, so that temporary files go; training takes these signals for itself
        received.append(number)
        if len(received) > 2:
            os._exit(128 + number)
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if number := getattr(signal, name, None):
            signal.signal(number, end)
    try:
        code = main(sys.argv[1:])
    except KeyboardInterrupt:
        code = INTERRUPTED
    # an import that is broken off may end in another error, or in none
    sys.exit(128 + received[0] if received else code)


def main(arguments: list[str]) -> int:
    """Runs one command and returns its exit code: 0 done, 2 options, 3 data, 4 checkpoint, 5 machine, 6 diverged."""
    words, others = _split(arguments or ["--help"])
    debug = "--debug" in words
    _speak_utf8()
    try:
        _check_folder()
        with warnings.catch_warnings():
            warnings.showwarning = _warning_line
            verb = [argument for argument in words if argument not in _EVERYWHERE]
            with trusting("--trust" in words):
                app = application(next((argument for argument in verb if not argument.startswith("-")), ""))
                return app(verb + others, prog_name="headwise", standalone_mode=False) or 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except BaseException as error:
        if debug:
            traceback.print_exception(error)
        message, code = describe(error)
        # the first of several processes reports errors itself
        if not getattr(error, "reported", False):
            print(f"error: {message}", file=sys.stderr)
        return code
    finally:
        _close_quietly()


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """What stands before `--`, and the rest, which is text and never an option."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:end], arguments[end:]


def _open_what_is_closed() -> None:
    """A stream that was closed before the start (`>&-`) reads and writes nothing, and its number is nobody else's."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8"))  # noqa: SIM115


def _check_folder() -> None:
    try:
        os.getcwd()
    except FileNotFoundError:
        # libraries fail without a word of why
        raise MachineError("the folder that this command was started in is gone; change to another one") from None


def _speak_utf8() -> None:
    """Text files are UTF-8 here, and so are pipes, whatever the locale says."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")


def _warning_line(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    print(f"warning: {one_line(str(message))}", file=file or sys.stderr)


def _close_quietly() -> None:
    """A reader that stops early, such as `head`, is no fault: nothing is said about the closed pipe."""
    try:
        sys.stdout.flush()
    except OSError as error:
        if error.errno != errno.EPIPE:
            print(f"error: standard output: {(error.strerror or str(error)).lower()}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
