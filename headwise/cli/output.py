"""Where a command writes what it made: standard output, a file that is complete or not there, a device or a pipe."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from headwise.errors import MachineError
from headwise.files import replacing


@contextmanager
def opened(path: Path | None) -> Iterator[TextIO]:
    """Standard output, or a file that is there only once it is complete.

    A link is followed, and a file that is replaced keeps its permissions. Devices, pipes and sockets are written
    directly: nothing is put in their place.

    Raises: MachineError: there is no such folder, the path is one, or a link that leads to itself.
    """
    if path is None:
        yield sys.stdout
        return
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise MachineError(f"{path}: is a link that leads back to itself; remove it, or name another file")
    if target.is_dir():
        raise MachineError(f"{path}: is a folder; give the name of a file in it")
    if not target.parent.is_dir():
        raise MachineError(f"{path}: there is no folder {target.parent}; make it first")
    if target.exists() and not target.is_file():
        with target.open("w", encoding="utf-8", newline="\n") as stream:
            yield stream
        return
    with replacing(target) as temporary, temporary.open("x", encoding="utf-8", newline="\n") as stream:
        yield stream
