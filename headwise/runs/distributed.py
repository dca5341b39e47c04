"""Checkpoints in parts by `torch.distributed.checkpoint`: its plans, with safetensors and JSON in place of pickle."""

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.distributed.checkpoint import (
    CheckpointException,
    DefaultLoadPlanner,
    DefaultSavePlanner,
    StorageReader,
    StorageWriter,
    save,
)
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from headwise.errors import HeadwiseError, MachineError
from headwise.runs.commits import Draft, refused
from headwise.runs.table import File, Piece, Pieced, Table, Written, key_of, part_name
from headwise.runs.tensors import KIND_NAMES, TensorFile

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


def write_parts(draft: Draft, files: Mapping[str, TensorFile], group: "ProcessGroup") -> Written | None:
    """Writes what each process of the group has of these files; the first of them gets to know the table.

    Called by all. A tensor that all have whole is written by the first. Memory: a copy of one of the process's own
    tensors, and of none that lies on the processor.

    Raises: MachineError in all of them where one cannot write.
    """
    shared = {key_of(file, name): tensor for file, held in files.items() for name, tensor in held.tensors.items()}
    writer = _Writer(draft)
    planner = DefaultSavePlanner(
        flatten_state_dict=False, flatten_sharded_tensors=False, dedup_save_to_lowest_rank=True
    )
    try:
        metadata = save(shared, storage_writer=writer, planner=planner, process_group=group)
    except CheckpointException as failed:
        raise _told(failed, draft) from None
    if writer.parts is None:
        return None
    return Written(_table(files, metadata, writer.parts), writer.entries)


def fill(tensors: Mapping[str, Tensor], table: Table, read: Callable[[str], Mapping[str, Tensor]]) -> None:
    """Puts the numbers of the parts into tensors by key: all of them, or what this process has of a shared one.

    Args:
        read: the tensors of a part, which it has checked.

    Raises: CheckpointError naming a part that is damaged.
    """
    reader, planner = _Reader(table, read), DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
    metadata = reader.read_metadata()
    planner.set_up_planner(dict(tensors), metadata, is_coordinator=True)
    reader.set_up_storage_reader(metadata, is_coordinator=True)
    # each process plans for itself what it reads, so that nothing has to be agreed
    (plan,) = reader.prepare_global_plan(
        planner.create_global_plan([reader.prepare_local_plan(planner.create_local_plan())])
    )
    reader.read_data(planner.finish_plan(plan), planner)


class _Writer(StorageWriter):
    """Each process writes one safetensors file, which tells its digest."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        # where the pieces are, by key and first place; in the first process, at the end
        self.parts: dict[tuple[str, tuple[int, ...]], str] | None = None
        self.entries: dict[str, dict[str, Any]] = {}

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """A writer is used once."""

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """The folder is there."""

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        # of a tensor with fewer rows than processes, some have none
        return dataclasses.replace(plan, items=[item for item in plan.items if _is_there(item)])

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        names = [part_name(rank, len(plans)) for rank in range(len(plans))]
        return [dataclasses.replace(plan, storage_data=name) for plan, name in zip(plans, names, strict=True)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        tensors = {item.index.fqn: _tensor(planner.resolve_data(item)) for item in plan.items}
        entry = self._draft.write(plan.storage_data, TensorFile(tensors, {})) if tensors else {}
        told = (plan.storage_data, entry)
        done: Future[list[WriteResult]] = Future()
        done.set_result([WriteResult(item.index, tensors[item.index.fqn].nbytes, told) for item in plan.items])
        return done

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        self.parts = {}
        for result in (one for each in results for one in each):
            part, entry = result.storage_data
            self.parts[result.index.fqn, tuple(result.index.offset or ())] = part
            self.entries[part] = entry

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return False


class _Reader(StorageReader):
    """Reads part after part, each whole."""

    def __init__(self, table: Table, read: Callable[[str], Mapping[str, Tensor]]) -> None:
        self._table, self._read = table, read
        self._homes = {
            (key_of(file, tensor), tuple(piece.offsets)): piece.part
            for file, tensor, pieced in table.tensors()
            for piece in pieced.pieces
        }

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """A reader is used once."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        found = {}
        for file, tensor, pieced in self._table.tensors():
            chunks = [
                ChunkStorageMetadata(torch.Size(piece.offsets), torch.Size(piece.shape)) for piece in pieced.pieces
            ]
            size, properties = torch.Size(pieced.shape), TensorProperties(dtype=pieced.kind)
            found[key_of(file, tensor)] = TensorStorageMetadata(properties, size, chunks)
        return Metadata(dict(found))

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """The table is known."""

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        by_part: dict[str, list[ReadItem]] = {}
        for item in plan.items:
            home = self._homes[item.storage_index.fqn, tuple(item.storage_index.offset or ())]
            by_part.setdefault(home, []).append(item)
        for part, items in by_part.items():
            held = self._read(part)
            for item in items:
                places = zip(item.storage_offsets, item.lengths, strict=True)
                found = held[item.storage_index.fqn][tuple(slice(begin, begin + length) for begin, length in places)]
                target = planner.resolve_tensor(item).detach()
                target.copy_(found)
                planner.commit_tensor(item, target)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return False


def _tensor(found: Any) -> Tensor:
    held: Tensor = found.detach()
    return held


def _is_there(item: WriteItem) -> bool:
    told = item.tensor_data
    return told is None or told.chunk.sizes.numel() > 0 or told.size.numel() == 0


def _table(
    files: Mapping[str, TensorFile], metadata: Metadata, parts: Mapping[tuple[str, tuple[int, ...]], str]
) -> Table:
    """Which part has what, as the plan of all processes says."""

    def pieced(key: str, tensor: Tensor) -> Pieced:
        facts = metadata.state_dict_metadata[key]
        assert isinstance(facts, TensorStorageMetadata)
        pieces = [
            Piece(part=parts[key, tuple(chunk.offsets)], offsets=list(chunk.offsets), shape=list(chunk.sizes))
            for chunk in sorted(facts.chunks, key=lambda chunk: tuple(chunk.offsets))
        ]
        return Pieced(dtype=KIND_NAMES[tensor.dtype], shape=list(facts.size), pieces=pieces)

    return Table(
        files={
            name: File(
                metadata=dict(file.metadata),
                tensors={one: pieced(key_of(name, one), tensor) for one, tensor in file.tensors.items()},
            )
            for name, file in files.items()
        }
    )


def _told(failed: CheckpointException, draft: Draft) -> HeadwiseError:
    """The error of this package for what one of the processes met."""
    rank, (error, _) = min(failed.failures.items(), key=lambda item: item[0])
    if isinstance(error, FileNotFoundError):
        return MachineError(
            f"process {rank + 1} does not see {draft.path}; the run folder must lie where every process sees it"
        )
    if isinstance(error, OSError):
        return refused(error, draft.final, draft.needed)
    return error if isinstance(error, HeadwiseError) else MachineError(f"process {rank + 1} failed: {error!r}")
