"""Files with a line of JSON for each measurement or record."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from headwise.config import Config, build
from headwise.errors import ConfigError, DataError
from headwise.files import replacing

C = TypeVar("C", bound=Config)


def read_lines(path: Path, kind: type[C], what: str, advice: str) -> list[C]:
    """The lines of a file, oldest first; none where there is no file.

    Args:
        what: a line is called in a message; advice: what to do about one that is none.
    Raises: DataError: a line that is none of these, with its number.
    """
    if not path.exists():
        return []
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            values = json.loads(line)
            if not isinstance(values, dict):
                raise ConfigError("must be an object")
            rows.append(build(kind, values, what.partition(" ")[0]))
        except (ConfigError, ValueError) as error:
            raise DataError(f"{path}:{number}: is no {what} ({error}); {advice}") from None
    return rows


def add_line(path: Path, row: Config) -> None:
    """Adds a line to a file, which is replaced in one step; the lines before it stay as they are."""
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    before += "\n" if before and not before.endswith("\n") else ""
    with replacing(path) as temporary:
        temporary.write_text(f"{before}{row.model_dump_json()}\n", encoding="utf-8", newline="\n")


def write_lines(path: Path, rows: Iterable[Config]) -> None:
    """Replaces a file in one step."""
    with replacing(path) as temporary:
        temporary.write_text("".join(f"{row.model_dump_json()}\n" for row in rows), encoding="utf-8", newline="\n")
