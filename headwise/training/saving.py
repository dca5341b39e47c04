"""How processes write the files of a run together: the first writes, or each writes the rows that it has."""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from headwise.errors import HeadwiseError, MachineError
from headwise.processes import Processes
from headwise.runs.checkpoints import Checkpoints
from headwise.runs.commits import Draft, Writable, size_of, write_error
from headwise.runs.parts import TABLE, Table, part_name
from headwise.runs.tensors import TensorFile

T = TypeVar("T")


def save_checkpoint(
    processes: Processes,
    checkpoints: Checkpoints,
    step: int,
    files: Mapping[str, Writable],
    protected: Collection[int],
    note: Callable[[str], None],
) -> Path:
    """Commits a checkpoint; called by all processes; see `Checkpoints.save`.

    Files whose tensors the processes share become parts, one from each of them; the first makes them a checkpoint by
    the manifest, which has the digests of all.

    Raises: MachineError in all when the disk refuses one of them; then everything is as it was.
    """
    shared = {name: file for name, file in files.items() if isinstance(file, TensorFile) and file.is_shared}
    if not shared or processes.world == 1:
        return write_at_first(processes, files.values(), partial(checkpoints.save, step, files, protected, note))
    draft = processes.once(partial(checkpoints.draft, step, sum(map(size_of, files.values()))))
    table = Table.of(shared, processes.world)
    outcomes = processes.gather(_write_part(draft, table, shared, processes))
    others: dict[str, Writable] = {name: file for name, file in files.items() if name not in shared}
    others[TABLE] = table.model_dump_json().encode()

    def commit() -> Path:
        written: dict[str, dict[str, int | str]] = {}
        for outcome in outcomes:
            if isinstance(outcome, HeadwiseError):
                draft.discard()
                raise outcome
            written |= outcome
        return checkpoints.commit(step, others, protected, note, draft, written)

    return processes.once(commit)


def _write_part(
    draft: Draft, table: Table, files: Mapping[str, TensorFile], processes: Processes
) -> dict[str, dict[str, int | str]] | HeadwiseError:
    """The manifest entry of this process's part, or the error that it met."""
    name = f"process {processes.rank + 1}"
    try:
        return table.write_part(draft, files, part_name(processes.rank, processes.world))
    except FileNotFoundError:
        return MachineError(f"{name} does not see {draft.path}; the run folder must lie where every process sees it")
    except OSError as error:
        return write_error(error, draft.final, draft.needed)
    except Exception as error:
        return MachineError(f"{name} failed: {error!r}")


def write_at_first(processes: Processes, files: Iterable[Writable], work: Callable[[], T]) -> T:
    """The result of `work` in the first process, which writes these files in their order; the others send their rows.

    Memory: in the first process one whole tensor more than it has, in the others nothing.
    """
    shared = [file for file in files if isinstance(file, TensorFile)]

    def write() -> T:
        try:
            return work()
        finally:
            send()

    def send() -> None:
        for file in shared:
            file.send_rows()

    if not processes.first:
        send()
    return processes.once(write)
