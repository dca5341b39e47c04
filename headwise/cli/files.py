"""Answers that are files of their own, such as pictures: written into a folder, one for each input."""

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.errors import ConfigError, MachineError
from headwise.files import replacing

if TYPE_CHECKING:
    from headwise.predictors.predictor import Predictor


def in_folder(output: Path) -> bool:
    """Whether a path means a folder: it is one, or it is not there and has no ending.

    >>> in_folder(Path("masks")), in_folder(Path("shares.tsv"))
    (True, False)
    """
    return output.is_dir() or not (output.exists() or output.suffix)


def files_of(
    predictor: "Predictor[Any, Any, Any]", items: Iterable[Any], options: Any, chunk: int, folder: Path
) -> Iterator[Path]:
    """Writes the answer to each input as a file named as it is, and gives the paths; the folder is made.

    Raises:
        ConfigError: a file would take the place of an input, or of the answer to another one.
        MachineError: the folder cannot be written.
    """
    left, written = iter(items), set[Path]()
    while batch := list(islice(left, chunk)):
        for item, output in zip(batch, predictor.predict(batch, options), strict=True):
            path = folder / f"{_named(item.name)}{predictor.ending}"
            if path in written:
                raise ConfigError(f"{item.name}: {path} is the answer to another input; predict them one by one")
            if path.exists() and os.path.exists(item.name) and path.samefile(item.name):
                raise ConfigError(f"{path}: is one of the inputs; name another folder with --output")
            written.add(path)
            _write(path, predictor.file_of(item, output))
            yield path


def _named(name: str) -> str:
    """The name of a file for an input: `cat` of photos/cat.png, `set-3` of set.npz[3]."""
    base, bracket, number = Path(name).name.partition("[")
    return f"{Path(base).stem}-{number.rstrip(']')}" if bracket else Path(base).stem


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        raise MachineError(f"{path}: cannot be written: {error.strerror}") from error
