"""The errors of this package: what is wrong and what to do; each has an exit code of the command line."""

import difflib
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Literal, TypeVar

Syntax = Literal["python", "recipe", "shell"]
E = TypeVar("E", bound="HeadwiseError")

_LONGEST_NAME = 100
# an error lists at most so many names: every mechanism, not every node of a graph
_MOST_NAMES = 80
# the nearest name is searched for among so many: a table may have 100,000 columns
_MOST_COMPARED = 10_000


class HeadwiseError(Exception):
    """Base of all errors of this package; `exit_code` is what the command line returns for it."""

    exit_code = 1
    # another of several processes reports it
    reported = False

    def reported_by(self: E, this_process: bool) -> E:
        """This error, which this process reports, or another of several does."""
        self.reported = not this_process
        return self


class QuotingWarning(UserWarning):
    """A warning that quotes an input: for its author, not for the log of a service."""


class ConfigError(HeadwiseError):
    """An option, recipe or argument has a value that is not allowed."""

    exit_code = 2


class Untrusted(ConfigError):
    """A recipe or run names code that is not part of an installed package, and the user has not allowed it."""


class ShapeError(HeadwiseError):
    """Tensors do not fit together; the message names the axes."""

    exit_code = 2


class Unsupported(HeadwiseError):
    """A mechanism or kernel cannot compute the call exactly."""

    exit_code = 2


class DataError(HeadwiseError):
    """A data file cannot be read as configured; the message starts with `file:line`.

    Args:
        settings: options that may help, with values; `text` writes them in the syntax of the reader.

    >>> DataError("3 columns, expected 2", {"columns": (0, 1)}).text("shell")
    '3 columns, expected 2; give --columns 0 1'
    """

    exit_code = 3

    def __init__(self, message: str, settings: Mapping[str, object] | None = None) -> None:
        self.message, self.settings = message, dict(settings or {})
        super().__init__(self.text("python"))

    def text(self, syntax: Syntax) -> str:
        """The message, its advice in the syntax of Python, of a recipe's `[data]` or of the command line."""
        if not self.settings:
            return self.message
        verb = "give" if syntax == "shell" else "set"
        joint = " " if syntax == "shell" else ", "
        return f"{self.message}; {verb} " + joint.join(_written(*item, syntax) for item in self.settings.items())


class CheckpointError(HeadwiseError):
    """A checkpoint is damaged, incomplete or does not fit; the message names the file."""

    exit_code = 4


class MachineError(HeadwiseError):
    """The machine fails: disk full, no permission, out of memory."""

    exit_code = 5


class OutOfMemory(MachineError):
    """A step of training needs more memory than there is."""


class Diverged(HeadwiseError):
    """Training produced non-finite numbers too often in a row."""

    exit_code = 6


class RunBusy(HeadwiseError):
    """Another process is writing this run folder."""

    exit_code = 7


def _written(name: str, value: object, syntax: Syntax) -> str:
    values = list(value) if isinstance(value, tuple) else [value]
    if syntax == "python":
        return f"{name}={value!r}"
    if syntax == "shell":
        return f"{flag(name)} {' '.join(map(str, values))}"
    shown = [f'"{item}"' if isinstance(item, str) else str(item) for item in values]
    return f"data.{name} = " + (f"[{', '.join(shown)}]" if isinstance(value, tuple) else shown[0])


def flag(name: str) -> str:
    """An option of a verb as it is typed, from its name; a key of the file tested on needs no `test_` there.

    >>> flag("n_best"), flag("beam_size"), flag("test_kind")
    ('--n-best', '--beam', '--kind')
    """
    return "--beam" if name == "beam_size" else f"--{name.removeprefix('test_').replace('_', '-')}"


def unknown(kind: str, name: str, choices: Iterable[str]) -> str:
    """The message for an unknown name, with the nearest known one.

    >>> unknown("kernel", "fuzed", ["plain", "fused"])
    "unknown kernel 'fuzed'; did you mean 'fused'?"
    """
    names, name = sorted(choices), _short(name)
    nearest = difflib.get_close_matches(name, names[:_MOST_COMPARED], n=1)
    advice = f"did you mean '{nearest[0]}'?" if nearest else f"known: {listing(names)}"
    return f"unknown {kind} '{name}'; {advice}"


def listing(names: Collection[str]) -> str:
    """Names of a user's file for a message: long ones are cut, and only the first of very many are listed.

    >>> listing(["x", "y"])
    'x, y'
    """
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(map(_short, islice(names, _MOST_NAMES))) + more


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..."
