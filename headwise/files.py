"""A file that is the old one or the new one and never half: written beside its place, under its own name, renamed."""

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# a temporary name must not be too long where the name itself is not
_KEPT = 40


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to, put in its place in one step at the end.

    The name is no other writer's. A file that is replaced keeps its permissions. What an error, or a signal that is
    raised as an exception, breaks off leaves nothing behind. To outlast a power failure, the writer calls `fsync`.

    Raises: OSError where the folder cannot be written, or `path` is a folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "a.txt") as temporary:
    ...         _ = temporary.write_text("whole")
    ...     [file.name for file in Path(folder).iterdir()]
    ['a.txt']
    """
    temporary = path.with_name(f".{path.name[:_KEPT]}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        if path.is_file():
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        os.replace(temporary, path)
    except OSError as error:
        # the user knows the file that is asked for
        if error.filename in (None, temporary, str(temporary)):
            error.filename, error.filename2 = str(path), None
        raise
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
