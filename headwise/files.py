"""Files that are replaced in one step; JSON without numbers that JSON does not have."""

import contextlib
import json
import math
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# characters of the name in a temporary name, which must not become too long
_NAME_LENGTH = 40


def user_cache() -> Path:
    """The folder of what Headwise keeps for a user and can make again: headwise in the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "headwise"


def json_text(value: Any, *, ascii: bool = False) -> str:
    """A value as JSON; NaN and infinities are null.

    >>> json_text({"recall": float("nan"), "pairs": (2, "ä")})
    '{"recall": null, "pairs": [2, "ä"]}'
    """
    try:
        return json.dumps(value, ensure_ascii=ascii, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=ascii, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to, put in its place in one step at the end.

    The path is unique. A file that is replaced keeps its permissions. An exception leaves nothing behind. To survive a
    power failure, the writer calls `fsync`.

    Raises: OSError where the folder cannot be written, or `path` is a folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "a.txt") as temporary:
    ...         _ = temporary.write_text("whole")
    ...     [file.name for file in Path(folder).iterdir()]
    ['a.txt']
    """
    temporary = path.with_name(f".{path.name[:_NAME_LENGTH]}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        if path.is_file():
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        os.replace(temporary, path)
    except OSError as error:
        # name the file that the user knows
        if error.filename in (None, temporary, str(temporary)):
            error.filename, error.filename2 = str(path), None
        raise
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
