"""How processes write a run's checkpoints: the first alone, or each what it has of the model."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path

from headwise.errors import HeadwiseError
from headwise.processes import Group, Processes
from headwise.runs.checkpoints import Checkpoints
from headwise.runs.commits import Draft, Writable, size_of
from headwise.runs.tensors import TensorFile
from headwise.training.parallel import written


def save_checkpoint(
    processes: Processes,
    checkpoints: Checkpoints,
    step: int,
    files: Mapping[str, Writable],
    protected: Collection[int],
    note: Callable[[str], None],
) -> Path:
    """Commits a checkpoint, which all processes ask for; see `Checkpoints.save`.

    Files whose tensors the processes share become parts, one from each of them; the manifest, which the first writes
    when all have told the digests of theirs, makes it a checkpoint.

    Raises: MachineError in all when the disk refuses one of them; then everything is as it was.
    """
    shared = {name: file for name, file in files.items() if isinstance(file, TensorFile) and file.is_shared}
    if not shared or not isinstance(processes, Group) or processes.world == 1:
        return written(processes, files.values(), partial(checkpoints.save, step, files, protected, note))
    needed = sum(map(size_of, files.values()))
    draft = processes.once(partial(checkpoints.draft, step, needed))
    others = {name: file for name, file in files.items() if name not in shared}
    return _committed(processes, checkpoints, draft, shared, partial(checkpoints.commit, step, others, protected, note))


def _committed(
    processes: Group,
    checkpoints: Checkpoints,
    draft: Draft,
    shared: Mapping[str, TensorFile],
    commit: Callable[..., Path],
) -> Path:
    from headwise.runs.distributed import write_parts

    failure, done = None, None
    try:
        done = write_parts(draft, shared, processes.control)
    except HeadwiseError as error:
        failure = error

    def told() -> Path:
        if failure is not None:
            draft.discard()
            raise failure
        return commit(draft, done)

    return processes.once(told)
