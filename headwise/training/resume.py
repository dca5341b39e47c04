"""Whether a run may go on: what its folder holds, and how recipe and data compare with those that it began with."""

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Literal

from headwise.config import file_keys, to_toml
from headwise.errors import CheckpointError, ConfigError, DataError
from headwise.runs.checkpoints import BEST, FINISHED, STATE, Checkpoints
from headwise.runs.commits import MANIFEST, commit_file
from headwise.runs.migration import migrate
from headwise.runs.publish import CONFIG, OWN_FILES
from headwise.runs.reading import Saved
from headwise.tasks.task import Given, Task
from headwise.training.identity import as_begun, changed, digest_name, digests, movable
from headwise.training.numerics import settled
from headwise.training.recipe import MAY_CHANGE, Recipe, differences, parse_recipe
from headwise.training.session import Trainer

Resume = Literal["auto", "never", "must"]
# the limits that a schedule ends with
_LAID_OUT_OVER = {
    "cosine": ("max_steps",),
    "linear": ("max_steps",),
    "budget": ("max_steps", "max_epochs", "max_cpu_s", "max_minutes"),
}


def refuse_foreign(run: Path, resume: Resume) -> None:
    """A folder with anything in it must be a run folder."""
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
    """Nothing that is a folder can be replaced by a file. Raises: CheckpointError before any work is lost on it."""
    for path in (run / name for name in sorted(names)):
        if path.is_dir():
            raise CheckpointError(
                f"{path}: is a folder, but the run keeps a file of this name there; move the folder away and give the "
                "same command again"
            )


def previous(
    checkpoints: Checkpoints, recipe: Recipe, resume: Resume, allowed: Mapping[str, bool], notes: list[str]
) -> tuple[Saved | None, Recipe]:
    """The checkpoint to go on from and the recipe, settled and compared with the folder's; a start claims that."""
    run = checkpoints.run
    refuse_folders(run, OWN_FILES | {f"{STATE}/{BEST}", f"{STATE}/{FINISHED}"})
    saved = checkpoints.first_accepted(_usable, notes.append)
    if saved is not None:
        refuse_folders(run, own_files(saved))
        old = parse_recipe(saved.files.get(CONFIG, b""), str(saved.folder / CONFIG))
        recipe = settled(recipe, old, notes.append)
        _compare(run, old, recipe, notes, Trainer.read(saved).data)
        if not allowed["schedule"]:
            _refuse_other_schedule(run, old, recipe)
        notes.append(f"going on from {saved.folder.name}")
        return saved, recipe
    if resume == "must":
        raise ConfigError(f"{run}: has no checkpoint to resume from")
    if (run / MANIFEST).exists():
        raise ConfigError(f"{run}: has a model but no checkpoint to resume from; choose another folder")
    begun = None
    if (run / CONFIG).exists():
        # begun and stopped before there was a manifest to tell the format
        files = migrate({CONFIG: (run / CONFIG).read_bytes()}, 1)
        begun = parse_recipe(files[CONFIG], str(run / CONFIG))
    recipe = settled(recipe, begun, notes.append)
    if begun is not None:
        # nothing was read yet that could be another file now
        _compare(run, begun, recipe, notes, [digest_name(key) for key in file_keys(recipe)])
    commit_file(run / CONFIG, to_toml(recipe).encode())
    return None, recipe


def _usable(saved: Saved) -> Saved:
    """The checkpoint, if its counters and random state are those of this program."""
    Trainer.read(saved)
    return saved


def _compare(run: Path, old: Recipe, new: Recipe, notes: list[str], known: Collection[str]) -> None:
    """What may change is noted, anything else refused; `known` names the files whose digests say what they are."""
    others = differences(old, new)
    told = {key: f"{key} was {before!r} and is {after!r} now" for key, (before, after) in others.items()}
    free = MAY_CHANGE | movable(old, known) & movable(new, known)
    if refused := [text for key, text in told.items() if key not in free]:
        raise ConfigError(
            f"{run}: was started with another recipe: {'; '.join(refused)}; change it back, or start "
            "in another folder (--run-folder)"
        )
    notes.extend(told.values())


def _refuse_other_schedule(run: Path, old: Recipe, new: Recipe) -> None:
    """A limit may change, but not without a word where the learning rate is laid out over it."""
    schedule = "budget" if old.training.warmup_share else old.training.schedule
    limits = _LAID_OUT_OVER.get(schedule, ())
    moved = [name for name in limits if getattr(old.training, name) != getattr(new.training, name)]
    if moved:
        was, now = (getattr(training, moved[0]) for training in (old.training, new.training))
        raise ConfigError(
            f"{run}: training.{moved[0]} was {was} and is {now} now, and the schedule '{old.training.schedule}' ends "
            "there: the learning rate would jump; change it back, start in another folder, or resume anyway with "
            "--allow-schedule-change (in Python allow_schedule_change=True)"
        )


def check_data(
    task: Task[Any], recipe: Recipe, before: Mapping[str, str], allow: bool, note: Callable[[str], None]
) -> tuple[dict[str, str], bool]:
    """The SHA-256 of the run's files, and whether they have changed. Raises: DataError where they may not."""
    now = digests(task, recipe, before)
    names = changed(now, before, recipe)
    if names:
        told = f"the data has changed since this run began: {', '.join(names)}"
        if not allow:
            raise DataError(
                f"{told}; restore the files, or resume with --allow-data-change (in Python allow_data_change=True)"
            )
        note(f"{told}; resuming anyway")
    return as_begun(now, before, recipe), bool(names)


def own_files(saved: Saved) -> dict[str, bytes]:
    """What the task of a checkpoint had learned from its data, by file name."""
    return {name: data for name, data in saved.files.items() if name not in OWN_FILES}


def as_learned(task: Task[Any], saved: Saved, allow: bool, note: Callable[[str], None]) -> Task[Any]:
    """The task with what it had learned before, such as tokenizers, where other data would teach it something else.

    Raises: CheckpointError where it may not; DataError for data that this cannot express, such as an unknown tag.
    """
    if not (names := other_files(task, saved)):
        return task
    if not allow:
        raise CheckpointError(
            f"{saved.folder / names[0]}: is not what the task makes of its data now; the model was trained with the "
            "file in the checkpoint, which --allow-data-change goes on with (in Python allow_data_change=True)"
        )
    kind = type(task)
    assets = kind.prepare_with(task.config, Given(own_files(saved)))
    note(f"the data as it is now would give another {', '.join(names)}; the run goes on with its own")
    return kind(task.config, assets)


def other_files(task: Task[Any], saved: Saved) -> list[str]:
    """The names of what the task learns from its data now and learned otherwise before."""
    files, before = task.assets.files, own_files(saved)
    return sorted(name for name in files.keys() | before.keys() if files.get(name) != before.get(name))
