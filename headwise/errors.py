"""The errors a user can meet. Each says what is wrong and what to do, and carries the exit code of the command line."""

import difflib
from collections.abc import Iterable


class HeadwiseError(Exception):
    """Base of all errors of this package; `exit_code` is what the command line returns for it."""

    exit_code = 1


class ConfigError(HeadwiseError):
    """An option, recipe or argument has a value that is not allowed."""

    exit_code = 2


class ShapeError(HeadwiseError):
    """Tensors do not fit together; the message names the axes."""

    exit_code = 2


class Unsupported(HeadwiseError):
    """A mechanism or kernel was asked for something it cannot compute exactly."""

    exit_code = 2


class DataError(HeadwiseError):
    """A data file cannot be read as asked; the message starts with `file:line`."""

    exit_code = 3


class CheckpointError(HeadwiseError):
    """A checkpoint is damaged, incomplete or does not fit; the message names the file."""

    exit_code = 4


class MachineError(HeadwiseError):
    """The machine refuses: disk full, no permission, no memory."""

    exit_code = 5


class Diverged(HeadwiseError):
    """Training produced non-finite numbers too often in a row."""

    exit_code = 6


class RunBusy(HeadwiseError):
    """Another process is writing this run folder."""

    exit_code = 7


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """The message for an unknown name, with the nearest known one.

    >>> unknown("kernel", "fuzed", ["plain", "fused"])
    "unknown kernel 'fuzed'; did you mean 'fused'?"
    """
    names = sorted(known)
    nearest = difflib.get_close_matches(name, names, n=1)
    advice = f"did you mean '{nearest[0]}'?" if nearest else f"known: {', '.join(names)}"
    return f"unknown {kind} '{name}'; {advice}"
