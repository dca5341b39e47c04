"""How a run begins: the first process reads its folder, and the others begin with the same."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headwise.errors import CheckpointError, DataError
from headwise.locks import FolderLock
from headwise.processes import Processes, together
from headwise.runs.checkpoints import Checkpoints
from headwise.runs.commits import canonical
from headwise.runs.log import cut_metrics
from headwise.runs.reading import Saved, read_folder
from headwise.tasks.task import Task
from headwise.training.recipe import Recipe, read_recipe
from headwise.training.resume import Resume, previous


class Opening:
    """The recipe as it is settled, and the checkpoint to go on from.

    Args:
        notes: takes what there is to tell.
    """

    def __init__(
        self, recipe: Recipe, run: Path, resume: Resume, allowed: Mapping[str, bool], notes: list[str]
    ) -> None:
        self.recipe, self.run, self.resume = recipe, run, resume
        self.checkpoints = Checkpoints(run, keep_last=recipe.training.keep_last)
        self.saved: Saved | None = None
        self._allowed, self._notes = allowed, notes

    def begin(self, lock: FolderLock) -> None:
        """Reads what is in the folder, and claims it where that is nothing."""
        keep_last = self.recipe.training.keep_last
        self.checkpoints = Checkpoints(self.run, keep_last=keep_last, check=lock.check)
        self._notes += [f"removed {name}, left by an interrupted write" for name in self.checkpoints.sweep()]
        found, self.recipe = previous(self.checkpoints, self.recipe, self.resume, self._allowed, self._notes)
        cut_metrics(self.run, found.facts["step"] if found is not None else -1)
        self.saved = found

    def shared(self, processes: Processes) -> tuple[Recipe, Saved | None]:
        """The recipe and the checkpoint of the first process, for all; the others read the checkpoint themselves.

        Raises: CheckpointError in a process that does not see the run folder.
        """
        name, values = processes.once(self._told)
        if not processes.first:
            self.recipe = read_recipe(values)
        together(processes, lambda: None if processes.first or name is None else self._read(processes, name))
        return self.recipe, self.saved

    def _read(self, processes: Processes, name: str) -> None:
        try:
            # the first has verified all parts; this one verifies those that it reads
            self.saved = read_folder(self.checkpoints.folder / name, every_part=False)
        except CheckpointError as error:
            told = "the run folder must lie where every process sees it"
            raise CheckpointError(f"process {processes.rank + 1} of {processes.world}: {error}; {told}") from None

    def _told(self) -> tuple[str | None, dict[str, Any]]:
        name = self.saved.folder.name if self.saved is not None else None
        return name, self.recipe.model_dump(mode="json", exclude_none=True)


def refuse_other_data(task: Task[Any], processes: Processes) -> None:
    """Raises: DataError where the processes of a run have read different data."""
    learned = {name: hashlib.sha256(data).hexdigest() for name, data in task.assets.files.items()}
    found = processes.gather(canonical({"data": dict(task.assets.digests), "learned": learned}))
    if others := [str(rank + 1) for rank, one in enumerate(found) if one != found[0]]:
        raise DataError(
            f"process {', '.join(others)} of {processes.world} has read other data than the first; give all of them "
            "the same files"
        ).reported_by(processes.first)
