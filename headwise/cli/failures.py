"""What a fault becomes: one line for the user and an exit code for the caller."""

import errno
import sys
from typing import Protocol, runtime_checkable

from headwise.errors import DataError, HeadwiseError, MachineError

INTERRUPTED = 130
_LONGEST = 2000


@runtime_checkable
class _UsageFault(Protocol):
    """What the argument parser raises for wrong options."""

    exit_code: int

    def format_message(self) -> str: ...


_MACHINE_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EMFILE, errno.ENOMEM}
_MEMORY_ADVICE = "out of memory; use a smaller batch (training.batch_tokens=..., --batch ...) or shorter sentences"


def describe(error: BaseException) -> tuple[str, int]:
    """One line that says what is wrong and what to do, and the exit code.

    >>> describe(MemoryError())[1]
    5
    """
    if isinstance(error, DataError):
        return one_line(error.text("shell")), error.exit_code
    if isinstance(error, HeadwiseError):
        return one_line(str(error)), error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", INTERRUPTED
    if isinstance(error, _UsageFault):
        return one_line(f"{error.format_message().rstrip('.')}; `headwise [VERB] --help` says more"), 2
    if isinstance(error, MemoryError) or _is_memory(error):
        return _MEMORY_ADVICE, MachineError.exit_code
    if isinstance(error, OSError):
        return _system(error)
    return f"unexpected {type(error).__name__}: {one_line(str(error))}; add --debug to see where", 1


def _is_memory(error: BaseException) -> bool:
    if not isinstance(error, RuntimeError) or "torch" not in sys.modules:
        return False
    from headwise.runtime import is_out_of_memory

    return is_out_of_memory(error)


def _system(error: OSError) -> tuple[str, int]:
    place = f"{error.filename}: " if error.filename else ""
    reason = error.strerror or str(error)
    if error.errno == errno.ENOSPC:
        reason = "no space left on the disk; free some and run the same command again"
    return one_line(place + reason), MachineError.exit_code if error.errno in _MACHINE_ERRNOS else 3


def one_line(message: str) -> str:
    """A message as one line of bounded length, control characters as escapes."""
    from headwise.labels import visible

    line = visible(" ".join(message.split("\n")))
    # what a file holds may be of any length, and so may be what is said of it
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST // 2]} ... {line[-_LONGEST // 4 :]}"
