"""A checkpoint that several processes write: parts, one from each, and the table that says which rows are in which."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from headwise.errors import CheckpointError
from headwise.runs.commits import Draft
from headwise.runs.tensors import DTYPE_NAMES, DTYPES, TensorFile, local, shard_rows

TABLE = "parts.json"
_FILE = re.compile(r"\w[\w.-]*\.safetensors")
_PART = re.compile(r"part-[1-9]\d*-of-[1-9]\d*\.safetensors")

Content = tuple[dict[str, Tensor], dict[str, str]]
Count = Annotated[int, Field(ge=0, lt=1 << 63)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Piece(_Strict):
    """Rows of a tensor that are in a part, from `offsets` on."""

    part: str
    offsets: list[Count]
    shape: list[Count]


class Pieced(_Strict):
    """A tensor and its pieces, in order."""

    dtype: str
    shape: list[Count]
    pieces: list[Piece]

    def fits(self) -> bool:
        """Whether the pieces are all rows, one after another, no two pieces in one part."""
        if self.dtype not in DTYPES or len({piece.part for piece in self.pieces}) < len(self.pieces):
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
    """Tensors by name, and text, of a file that one process alone would have written."""

    metadata: dict[str, str]
    tensors: dict[str, Pieced]


class Table(_Strict):
    """The content of parts.json."""

    files: dict[str, File]

    @classmethod
    def of(cls, files: Mapping[str, TensorFile], world: int) -> "Table":
        """The rows of a shared tensor are in the part of their process; other tensors are whole in the first part."""
        described = {
            name: File(
                metadata=dict(file.metadata),
                tensors={key: _pieced(tensor, world) for key, tensor in file.tensors.items()},
            )
            for name, file in files.items()
        }
        return cls(files=described)

    @classmethod
    def read(cls, data: bytes, name: str) -> "Table":
        """The table of a checkpoint. Raises: CheckpointError naming the file and the wrong key."""
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
        return ((name, key, pieced) for name, file in self.files.items() for key, pieced in file.tensors.items())

    def parts(self) -> dict[str, dict[str, tuple[torch.dtype, list[int]]]]:
        """The content of each part: type and shape by key."""
        parts: defaultdict[str, dict[str, tuple[torch.dtype, list[int]]]] = defaultdict(dict)
        for file, tensor, pieced in self.tensors():
            for piece in pieced.pieces:
                parts[piece.part][key_of(file, tensor)] = (DTYPES[pieced.dtype], piece.shape)
        return dict(parts)

    def write_part(self, draft: Draft, files: Mapping[str, TensorFile], part: str) -> dict[str, dict[str, Any]]:
        """Writes the content of a part, and returns its manifest entry by name; none where it has no content.

        Memory: a copy of one tensor that is not on the CPU.

        Raises: OSError.
        """
        content = {
            key_of(file, name): local(files[file].tensors[name].detach())
            for file, name, pieced in self.tensors()
            if any(piece.part == part for piece in pieced.pieces)
        }
        return {part: draft.write(part, TensorFile(content, {}))} if content else {}


class Parts:
    """The parts of one checkpoint, each of which is checked whenever it is read.

    Args:
        name: what errors call the table.
        load: the tensors of a part, its digest checked.
    """

    def __init__(self, table: Table, name: str, load: Callable[[str], dict[str, Tensor]]) -> None:
        self.table, self._name, self._load = table, name, load
        self._described = table.parts()

    @property
    def names(self) -> list[str]:
        return sorted(self._described)

    def read(self, part: str) -> dict[str, Tensor]:
        """The tensors of a part. Raises: CheckpointError naming it, if it is damaged or does not fit the table."""
        tensors, described = self._load(part), self._described[part]
        actual = {key: (tensor.dtype, list(tensor.shape)) for key, tensor in tensors.items()}
        if actual != described:
            wrong = min(key for key in actual.keys() | described.keys() if actual.get(key) != described.get(key))
            raise CheckpointError(f"{self._name}: {part} does not hold '{wrong}' as it is described here")
        return tensors

    def file(self, name: str, like: Callable[[str], Tensor | None] = lambda _: None) -> Content:
        """Tensors and metadata of a file, put together from the parts that have rows of it, one part at a time.

        Args:
            like: by the name of a tensor one that processes share: each of them gets its own rows. Others are whole.
        """
        tensors: dict[str, Tensor] = {}
        copies: defaultdict[str, list[tuple[str, Tensor, slice]]] = defaultdict(list)
        for key, pieced in self.table.files[name].tensors.items():
            shared: Any = like(key)
            if hasattr(shared, "device_mesh") and list(shared.shape) == pieced.shape:
                tensors[key] = torch.zeros_like(shared.detach(), dtype=DTYPES[pieced.dtype])
                mesh = shared.device_mesh
                start, _ = shard_rows(pieced.shape[0], mesh.get_local_rank(), mesh.size())
            else:
                tensors[key], start = torch.empty(pieced.shape, dtype=DTYPES[pieced.dtype]), 0
            rows = torch.atleast_1d(local(tensors[key]))
            for piece in pieced.pieces:
                # a number is one row
                first, count = (piece.offsets[0], piece.shape[0]) if piece.shape else (0, 1)
                begin, end = max(first, start), min(first + count, start + len(rows))
                if begin < end:
                    target = rows[begin - start : end - start]
                    copies[piece.part].append((key, target, slice(begin - first, end - first)))
        for part, targets in copies.items():
            content = self.read(part)
            for key, target, place in targets:
                target.copy_(torch.atleast_1d(content[key_of(name, key)])[place])
        return tensors, dict(self.table.files[name].metadata)


def key_of(file: str, tensor: str) -> str:
    return f"{file}/{tensor}"


def part_name(rank: int, world: int) -> str:
    """The file that process `rank` (from 0) writes."""
    return f"part-{rank + 1}-of-{world}.safetensors"


def _pieced(tensor: Tensor, world: int) -> Pieced:
    shape = list(tensor.shape)
    spans = {0: (0, shape[0] if shape else 0)}
    if hasattr(tensor, "device_mesh") and tensor.numel():
        spans = {rank: shard_rows(shape[0], rank, world) for rank in range(world)}
        # of a tensor with fewer rows than processes, some have none
        spans = {rank: (first, end) for rank, (first, end) in spans.items() if first < end}
    pieces = [
        Piece(
            part=part_name(rank, world),
            offsets=[first, *([0] * (len(shape) - 1))] if shape else [],
            shape=[end - first, *shape[1:]] if shape else [],
        )
        for rank, (first, end) in spans.items()
    ]
    return Pieced(dtype=DTYPE_NAMES[tensor.dtype], shape=shape, pieces=pieces)
