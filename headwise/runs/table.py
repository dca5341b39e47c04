"""Which rows of which tensor are in which part of a checkpoint that several processes have written."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headwise.errors import CheckpointError
from headwise.runs.tensors import KINDS

TABLE = "parts.json"
_FILE = re.compile(r"\w[\w.-]*\.safetensors")
_PART = re.compile(r"part-[1-9]\d*-of-[1-9]\d*\.safetensors")

Count = Annotated[int, Field(ge=0, lt=1 << 63)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Piece(_Strict):
    """What a part holds of a tensor: so many rows of it, from a place on."""

    part: str
    offsets: list[Count]
    shape: list[Count]


class Pieced(_Strict):
    """A tensor and its pieces, in order."""

    dtype: str
    shape: list[Count]
    pieces: list[Piece]

    @property
    def kind(self) -> torch.dtype:
        """The type of its numbers."""
        return KINDS[self.dtype]

    def fits(self) -> bool:
        """Whether the pieces are rows that follow each other, and all there are, no two of them in one part."""
        if self.dtype not in KINDS or len({piece.part for piece in self.pieces}) < len(self.pieces):
            return False
        if not self.shape:
            return [(piece.offsets, piece.shape) for piece in self.pieces] == [([], [])]
        rest, end = self.shape[1:], 0
        for piece in self.pieces:
            if piece.offsets != [end, *([0] * len(rest))] or not piece.shape or piece.shape[1:] != rest:
                return False
            end += piece.shape[0]
        return bool(self.pieces) and end == self.shape[0]


class File(_Strict):
    """Tensors by name, and text, of what is one file where one process writes."""

    metadata: dict[str, str]
    tensors: dict[str, Pieced]


class Table(_Strict):
    """The content of parts.json."""

    files: dict[str, File]

    @classmethod
    def read(cls, data: bytes, name: str) -> "Table":
        """That of a checkpoint. Raises: CheckpointError naming the file and what is wrong in it."""
        try:
            table = cls.model_validate_json(data)
        except (ValidationError, RecursionError) as error:
            place = ".".join(map(str, error.errors()[0]["loc"])) if isinstance(error, ValidationError) else ""
            raise CheckpointError(f"{name}: {place or 'it'} is not what this program writes") from None
        for file, tensor, pieced in table.tensors():
            if not pieced.fits():
                raise CheckpointError(f"{name}: {file}: the pieces of '{tensor}' do not make up {pieced.shape}")
        if others := [file for file in sorted(table.files) if not _FILE.fullmatch(file)]:
            raise CheckpointError(f"{name}: {others[0]!r} is no name of a file of tensors")
        if others := [part for part in sorted(table.parts()) if not _PART.fullmatch(part)]:
            raise CheckpointError(f"{name}: '{others[0]}' is no name of a part")
        return table

    def tensors(self) -> Iterator[tuple[str, str, Pieced]]:
        """Every tensor with its file and name."""
        return ((name, one, pieced) for name, file in self.files.items() for one, pieced in file.tensors.items())

    def parts(self) -> dict[str, dict[str, tuple[torch.dtype, list[int]]]]:
        """What each part must hold: type and shape by key."""
        found: dict[str, dict[str, tuple[torch.dtype, list[int]]]] = {}
        for file, tensor, pieced in self.tensors():
            for piece in pieced.pieces:
                found.setdefault(piece.part, {})[key_of(file, tensor)] = (pieced.kind, piece.shape)
        return found


class Written(NamedTuple):
    """What the first process knows once all have written: the table, and what the manifest says of each part."""

    table: Table
    entries: dict[str, dict[str, Any]]


def key_of(file: str, tensor: str) -> str:
    """What a tensor is called in the parts."""
    return f"{file}/{tensor}"


def part_name(rank: int, world: int) -> str:
    """The file that process `rank` (from 0) writes."""
    return f"part-{rank + 1}-of-{world}.safetensors"
