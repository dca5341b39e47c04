"""How a run begins or resumes: its folder, and its recipe and data compared with those it was started with."""

import hashlib
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Literal

from headwise.config import file_keys, to_toml, value_of
from headwise.data.files import digest, resolve
from headwise.errors import CheckpointError, ConfigError, DataError
from headwise.locks import FolderLock
from headwise.processes import Processes, together
from headwise.runs.checkpoints import BEST, FINISHED, STATE, Checkpoints
from headwise.runs.commits import MANIFEST, canonical, commit_file
from headwise.runs.log import truncate_metrics
from headwise.runs.migration import migrate
from headwise.runs.publish import CONFIG, OWN_FILES
from headwise.runs.reading import Saved, read_folder
from headwise.tasks.task import Given, Task
from headwise.training.numerics import settle_precision
from headwise.training.recipe import MAY_CHANGE, Recipe, differences, parse_recipe, read_recipe
from headwise.training.recipes import digest_name, named_files
from headwise.training.session import Trainer

Resume = Literal["auto", "never", "must"]
# the limits that a schedule ends with
_LAID_OUT_OVER = {
    "cosine": ("max_steps",),
    "linear": ("max_steps",),
    "budget": ("max_steps", "max_epochs", "max_cpu_s", "max_minutes"),
}


class Opening:
    """The recipe of a run with its precision settled, and the checkpoint to resume from.

    Args:
        allowed: by "data" and "schedule" whether a change of these is.
    """

    def __init__(
        self, recipe: Recipe, run: Path, resume: Resume, allowed: Mapping[str, bool], notes: list[str]
    ) -> None:
        self.recipe, self.run, self.resume = recipe, run, resume
        self.checkpoints = Checkpoints(run, keep_last=recipe.training.keep_last)
        self.saved: Saved | None = None
        self._allowed, self._notes = allowed, notes

    def begin(self, lock: FolderLock) -> None:
        """Reads the folder, or writes the recipe into an empty one."""
        self.checkpoints.check = lock.check
        self._notes += [f"removed {name}, left by an interrupted write" for name in self.checkpoints.sweep()]
        self.saved, self.recipe = _previous(self.checkpoints, self.recipe, self.resume, self._allowed, self._notes)
        truncate_metrics(self.run, self.saved.facts["step"] if self.saved is not None else -1)

    def shared(self, processes: Processes) -> tuple[Recipe, Saved | None]:
        """The recipe and the checkpoint of the first process, for all; the others read the checkpoint themselves.

        Raises: CheckpointError in a process that does not see the run folder.
        """
        name, values = processes.once(self._description)
        if not processes.first:
            self.recipe = read_recipe(values)
        together(processes, lambda: None if processes.first or name is None else self._read(processes, name))
        return self.recipe, self.saved

    def _read(self, processes: Processes, name: str) -> None:
        try:
            # the first has verified all parts; this one verifies those that it reads
            self.saved = read_folder(self.checkpoints.folder / name, every_part=False)
        except CheckpointError as error:
            advice = "the run folder must lie where every process sees it"
            raise CheckpointError(f"process {processes.rank + 1} of {processes.world}: {error}; {advice}") from None

    def _description(self) -> tuple[str | None, dict[str, Any]]:
        name = self.saved.folder.name if self.saved is not None else None
        return name, self.recipe.model_dump(mode="json", exclude_none=True)


def refuse_other_data(task: Task[Any], processes: Processes) -> None:
    """Raises: DataError where the processes of a run have read different data."""
    files = {name: hashlib.sha256(data).hexdigest() for name, data in task.assets.files.items()}
    described = processes.gather(canonical({"data": dict(task.assets.digests), "files": files}))
    if others := [str(rank + 1) for rank, data in enumerate(described) if data != described[0]]:
        raise DataError(
            f"process {', '.join(others)} of {processes.world} has read other data than the first; give all of them "
            "the same files"
        ).reported_by(processes.first)


def refuse_foreign(run: Path, resume: Resume) -> None:
    """Raises: ConfigError: the folder is not empty and is not a run folder."""
    try:
        names = {name for name in os.listdir(run) if not name.startswith(".")}
    except OSError:
        names = set()
    if not names:
        return
    if resume == "never":
        raise ConfigError(f"{run}: is not empty; choose another folder, or resume the run in it")
    if CONFIG not in names and STATE not in names:
        raise ConfigError(f"{run}: is not empty and is not a run folder; choose another one")


def refuse_folders(run: Path, names: Collection[str]) -> None:
    """Raises: CheckpointError: a folder has the name of a file of the run, which could not replace it."""
    for path in (run / name for name in sorted(names)):
        if path.is_dir():
            raise CheckpointError(
                f"{path}: is a folder, but the run keeps a file of this name there; move the folder away and give the "
                "same command again"
            )


def _previous(
    checkpoints: Checkpoints, recipe: Recipe, resume: Resume, allowed: Mapping[str, bool], notes: list[str]
) -> tuple[Saved | None, Recipe]:
    """The checkpoint to resume from and the recipe, compared with that of the folder; a new run writes its recipe."""
    run = checkpoints.run
    refuse_folders(run, OWN_FILES | {f"{STATE}/{BEST}", f"{STATE}/{FINISHED}"})
    saved = checkpoints.first_accepted(_check_trainer, notes.append)
    if saved is not None:
        refuse_folders(run, own_files(saved))
        old = parse_recipe(saved.files.get(CONFIG, b""), str(saved.folder / CONFIG))
        recipe = settle_precision(recipe, old, notes.append)
        _compare(run, old, recipe, notes, Trainer.read(saved).data)
        if not allowed["schedule"]:
            _refuse_other_schedule(run, old, recipe)
        notes.append(f"going on from {saved.folder.name}")
        return saved, recipe
    if resume == "must":
        raise ConfigError(f"{run}: has no checkpoint to resume from")
    if (run / MANIFEST).exists():
        raise ConfigError(f"{run}: has a model but no checkpoint to resume from; choose another folder")
    started: Recipe | None = None
    if (run / CONFIG).exists():
        # stopped before there was a manifest with the format
        files = migrate({CONFIG: (run / CONFIG).read_bytes()}, 1)
        started = parse_recipe(files[CONFIG], str(run / CONFIG))
    recipe = settle_precision(recipe, started, notes.append)
    if started is not None:
        # no file was read yet, so all may move
        _compare(run, started, recipe, notes, [digest_name(key) for key in file_keys(recipe)])
    commit_file(run / CONFIG, to_toml(recipe).encode())
    return None, recipe


def _check_trainer(saved: Saved) -> Saved:
    """The checkpoint. Raises: CheckpointError: its counters or random state are invalid."""
    Trainer.read(saved)
    return saved


def _compare(run: Path, old: Recipe, new: Recipe, notes: list[str], digest_names: Collection[str]) -> None:
    """Notes changes that are allowed, and refuses others; `digest_names` are the files that have one."""
    changes = {
        key: f"{key} was {before!r} and is {after!r} now" for key, (before, after) in differences(old, new).items()
    }
    allowed = MAY_CHANGE | movable(old, digest_names) & movable(new, digest_names)
    if refused := [text for key, text in changes.items() if key not in allowed]:
        raise ConfigError(
            f"{run}: was started with another recipe: {'; '.join(refused)}; change it back, or start "
            "in another folder (--run-folder)"
        )
    notes.extend(changes.values())


def _refuse_other_schedule(run: Path, old: Recipe, new: Recipe) -> None:
    """Raises: ConfigError: a limit has changed that the learning rate schedule depends on."""
    schedule = "budget" if old.training.warmup_share else old.training.schedule
    limits = _LAID_OUT_OVER.get(schedule, ())
    changed = [name for name in limits if getattr(old.training, name) != getattr(new.training, name)]
    if changed:
        was, now = (getattr(training, changed[0]) for training in (old.training, new.training))
        raise ConfigError(
            f"{run}: training.{changed[0]} was {was} and is {now} now, and the schedule '{old.training.schedule}' ends "
            "there: the learning rate would jump; change it back, start in another folder, or resume anyway with "
            "--allow-schedule-change (in Python allow_schedule_change=True)"
        )


def check_data(
    task: Task[Any], recipe: Recipe, before: Mapping[str, str], allow: bool, note: Callable[[str], None]
) -> tuple[dict[str, str], bool]:
    """The SHA-256 of the run's files, and whether they have changed. Raises: DataError where they may not."""
    now = data_digests(task, recipe, before)
    names = changed_files(now, before, recipe)
    if names:
        problem = f"the data has changed since this run began: {', '.join(names)}"
        if not allow:
            raise DataError(
                f"{problem}; restore the files, or resume with --allow-data-change (in Python allow_data_change=True)"
            )
        note(f"{problem}; resuming anyway")
    # a file of the first step keeps the digest with which it was read
    return {**now, **{name: before[name] for name in _read_at_start(recipe) if name in before}}, bool(names)


def data_digests(task: Task[Any], recipe: Recipe, before: Mapping[str, str]) -> dict[str, str]:
    """The SHA-256 of every file of a resumed run; that of `before` where a file of the first step is gone.

    Raises: DataError: a file is missing that is still needed.
    """
    digests, at_start = dict(task.assets.digests), _read_at_start(recipe)
    for name, path in named_files(recipe).items():
        if name in digests:
            continue
        if name not in at_start or path.exists():
            digests[name] = digest(path)
        elif name in before:
            digests[name] = before[name]
    return digests


def changed_files(now: Mapping[str, str], before: Mapping[str, str], recipe: Recipe) -> list[str]:
    """The names of the files whose digests differ.

    A file of the first step without an earlier digest, as in older runs, passes.
    """
    unknown = _read_at_start(recipe) - before.keys()
    names = (before.keys() | now.keys()) - unknown
    return sorted(name for name in names if before.get(name) != now.get(name))


def movable(recipe: Recipe, digest_names: Collection[str]) -> set[str]:
    """The keys of files that may have moved: files of the first step only if their digest is known or they are gone."""
    values = {key: (value_of(recipe, key), mark) for key, mark in file_keys(recipe).items()}
    return {
        key
        for key, (value, mark) in values.items()
        if value is not None and (not mark.at_start or digest_name(key) in digest_names or not resolve(value).exists())
    }


def start_is_gone(recipe: Recipe) -> bool:
    """Whether a file of the first step is missing."""
    values = [value_of(recipe, key) for key, mark in file_keys(recipe).items() if mark.at_start]
    return any(value is not None and not resolve(value).exists() for value in values)


def _read_at_start(recipe: Recipe) -> set[str]:
    return {digest_name(key) for key, mark in file_keys(recipe).items() if mark.at_start}


def own_files(saved: Saved) -> dict[str, bytes]:
    """The files that the task of a checkpoint has made from its data, by name."""
    return {name: data for name, data in saved.files.items() if name not in OWN_FILES}


def restore_own_files(task: Task[Any], saved: Saved, allow: bool, note: Callable[[str], None]) -> Task[Any]:
    """The task with the files it made when the run began, such as tokenizers, where changed data would give others.

    Raises: CheckpointError where that is not allowed; DataError for data that they cannot express, such as an unknown
        tag.
    """
    now, before = task.assets.files, own_files(saved)
    names = sorted(name for name in now.keys() | before.keys() if now.get(name) != before.get(name))
    if not names:
        return task
    if not allow:
        raise CheckpointError(
            f"{saved.folder / names[0]}: is not what the task makes of its data now; the model was trained with the "
            "file in the checkpoint, which --allow-data-change goes on with (in Python allow_data_change=True)"
        )
    kind = type(task)
    assets = kind.prepare_with(task.config, Given(before))
    note(f"the data as it is now would give another {', '.join(names)}; the run goes on with its own")
    return kind(task.config, assets)
