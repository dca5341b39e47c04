"""A run from recipe to model: `train`."""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from headwise import runtime
from headwise.config import to_toml
from headwise.errors import CheckpointError, ConfigError, DataError
from headwise.labels import visible
from headwise.models.summary import parts
from headwise.runs.checkpoints import STATE, Checkpoints
from headwise.runs.commits import MANIFEST, commit_file, probe
from headwise.runs.display import Display
from headwise.runs.lock import RunLock
from headwise.runs.log import OnEvent, RunLog, cut_metrics
from headwise.runs.migration import migrated
from headwise.runs.publish import CONFIG, OWN_FILES
from headwise.runs.reading import Saved, read_folder
from headwise.runs.trackers import open_trackers
from headwise.tasks import registry
from headwise.tasks.task import Task
from headwise.training import recipes
from headwise.training.finish import finish, publish_best
from headwise.training.limits import Clock
from headwise.training.loop import Loop
from headwise.training.numerics import settled, unrounded
from headwise.training.randomness import isolated
from headwise.training.recipe import MAY_CHANGE, MAY_MOVE, Recipe, as_recipe, differences, flattened, parse_recipe
from headwise.training.session import Session, Trainer, machine
from headwise.training.signals import StopSignal
from headwise.training.validation import check_monitor

Resume = Literal["auto", "never", "must"]
# the limits that a schedule ends with
_LAID_OUT_OVER = {
    "cosine": ("max_steps",),
    "linear": ("max_steps",),
    "budget": ("max_steps", "max_epochs", "max_cpu_s", "max_minutes"),
}


@dataclass(frozen=True)
class Run:
    """A finished run: its folder, the scores of its model, and how it came about.

    `best` is the step of the model in the folder (the last one of an average); `stopped_because` is max_steps,
    max_epochs, max_cpu_s, max_minutes or patience; `cpu_s` and `minutes` are what it took, earlier parts included.
    """

    folder: Path
    metrics: dict[str, float]
    steps: int
    best: int
    skipped: int
    stopped_because: str
    cpu_s: float = field(compare=False)
    minutes: float = field(compare=False)


def train(
    recipe: Recipe | str | os.PathLike[str] | Mapping[str, Any],
    folder: str | os.PathLike[str],
    *,
    resume: Resume = "auto",
    overrides: Iterable[str] = (),
    allow_data_change: bool = False,
    allow_schedule_change: bool = False,
    on_event: OnEvent | None = None,
) -> Run:
    """Trains a recipe into a run folder, or goes on where the folder's last good checkpoint stands.

    The same recipe, data, machine and number of threads give the same weights bit for bit, however often the run was
    stopped and resumed in between (but for the limits `max_cpu_s` and `max_minutes`, which follow the clock). A run
    that is finished is left as it is, to the byte.

    Args:
        recipe: a TOML file, the name of a recipe that ships, a mapping of the same form, or what `read_recipe` made.
        folder: the run folder; made if it is missing.
        resume: "auto" goes on where there is a checkpoint and starts where there is nothing; "never" and "must"
            refuse the one or the other.
        overrides: `section.key=value` settings on top of the recipe.
        allow_data_change: go on although the data files are not those that the run began with.
        allow_schedule_change: go on although a limit has changed over which the learning rate is laid out.
        on_event: called with every event, as a dict whose "event" is step, validation, skipped, checkpoint, average or
            note.

    Raises:
        ConfigError: a wrong recipe, one that is not the folder's, or a folder that is no run folder.
        DataError: bad or changed data.
        CheckpointError: no checkpoint in the folder is good.
        MachineError: the folder cannot be written, the disk or the memory is full.
        Diverged: ten steps in a row without finite numbers.
        RunBusy: another process writes the folder.
        Stopped: SIGINT or SIGTERM came; all is saved.
    """
    clock = Clock()
    if isinstance(recipe, (str, os.PathLike)):
        recipe, overrides = recipes.read(os.fspath(recipe), list(overrides)), ()
    made, run = as_recipe(recipe, overrides), Path(folder)
    _refuse_foreign(run, resume)
    allowed = {"data": allow_data_change, "schedule": allow_schedule_change}
    with StopSignal() as stop, isolated(made.seed):
        if (done := _finished(made, run, stop)) is not None:
            return done
        probe(run)
        with RunLock(run):
            return _train(made, run, resume, allowed, on_event, stop, clock)


def _finished(recipe: Recipe, run: Path, stop: StopSignal) -> Run | None:
    """The run of this recipe and data, if it is at its end and whole: then nothing in its folder is touched."""
    checkpoints = Checkpoints(run)
    if (facts := checkpoints.finished()) is None:
        return None
    try:
        published = read_folder(run)
        saved = checkpoints.read(checkpoints.entries()[0])
        old = parse_recipe(published.files.get(CONFIG, b""), str(run / CONFIG))
    except CheckpointError:
        return None
    recipe = settled(recipe, old, lambda _: None)
    if differences(old, recipe).keys() - MAY_MOVE:
        return None
    with stop.breakable():
        task = _prepared(recipe)
    if _changed(task, Trainer.read(saved).data):
        return None
    Display().line(f"{run}: finished before: {facts['reason']} after {facts['step']} steps; there is nothing to do")
    times = facts["cpu_s"], facts["wall_s"] / 60.0
    return Run(run, facts["metrics"], facts["step"], facts["steps"][-1], facts["skipped"], facts["reason"], *times)


def _train(
    recipe: Recipe,
    run: Path,
    resume: Resume,
    allowed: Mapping[str, bool],
    on_event: OnEvent | None,
    stop: StopSignal,
    clock: Clock,
) -> Run:
    checkpoints = Checkpoints(run, keep_last=recipe.training.keep_last)
    notes = [f"removed {name}, left by an interrupted write" for name in checkpoints.sweep()]
    saved, recipe = _previous(checkpoints, recipe, resume, allowed, notes)
    training = recipe.training
    cut_metrics(run, saved.facts["step"] if saved is not None else -1)
    display = Display(every_s=training.print_every_s)
    trackers = open_trackers(run, training.trackers, training.tracker_project, flattened(recipe))
    log = RunLog(run, display, listeners=trackers, on_event=on_event)
    with closing(log), runtime.products_as(_products(saved)):
        for note in notes:
            log.note(note)
        with stop.breakable():
            task = _prepared(recipe)
        session = _session(task, recipe, saved, allowed, log)
        del saved
        if session.progress.step:
            clock.go_on(session.progress)
            publish_best(session, checkpoints, log, stop.breakable)
        else:
            for note in (*task.assets.notes, *session.begin(), *unrounded(session.model, training.precision)):
                # words and tags of the files stand in them
                log.note(visible(note))
            log.note(parts(session.model))
        if not session.progress.step and session.validates:
            check_monitor(session, stop.breakable)
        reason = Loop(session, checkpoints, log, stop, clock).run()
        outcome = finish(session, checkpoints, log, stop.breakable, reason)
        progress = session.progress
        times = progress.cpu_s, progress.wall_s / 60.0
        spent = f"{progress.step:,} steps, {times[0]:,.0f} CPU s, {times[1]:,.1f} minutes"
        log.note(f"finished: {reason} after {spent}; the model is in {run}")
        return Run(run, outcome.metrics, progress.step, outcome.steps[-1], progress.skipped, reason, *times)


def _products(saved: Saved | None) -> str:
    """The path of float32 products to train on: of the checkpoint's process, so that a resumed run repeats its bits."""
    before = Trainer.read(saved).machine.get("float32_products") if saved is not None else None
    return str(before or machine(torch.device("cpu"))["float32_products"])


def _prepared(recipe: Recipe) -> Task[Any]:
    kind = registry.task_type(recipe.task)
    return kind(recipe, kind.prepare(recipe))


def _refuse_foreign(run: Path, resume: Resume) -> None:
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
        raise ConfigError(f"{run}: is not empty and is no run folder; choose another one")


def _previous(
    checkpoints: Checkpoints, recipe: Recipe, resume: Resume, allowed: Mapping[str, bool], notes: list[str]
) -> tuple[Saved | None, Recipe]:
    """The checkpoint to go on from and the recipe, settled and compared with the folder's; a start claims that."""
    run = checkpoints.run
    saved: Saved | None = checkpoints.newest(notes.append)
    if saved is not None:
        old = parse_recipe(saved.files.get(CONFIG, b""), str(saved.folder / CONFIG))
        recipe = settled(recipe, old, notes.append)
        _compare(run, old, recipe, notes)
        if not allowed["schedule"]:
            _refuse_other_schedule(run, old, recipe)
        notes.append(f"going on from {saved.folder.name}")
        return saved, recipe
    if resume == "must":
        raise ConfigError(f"{run}: has no checkpoint to go on from")
    if (run / MANIFEST).exists():
        raise ConfigError(f"{run}: has a model but no checkpoint to go on from; choose another folder")
    begun = None
    if (run / CONFIG).exists():
        # begun and stopped before there was a manifest to tell the format
        files = migrated({CONFIG: (run / CONFIG).read_bytes()}, 1)
        begun = parse_recipe(files[CONFIG], str(run / CONFIG))
    recipe = settled(recipe, begun, notes.append)
    if begun is not None:
        _compare(run, begun, recipe, notes)
    commit_file(run / CONFIG, to_toml(recipe).encode())
    return None, recipe


def _compare(run: Path, old: Recipe, new: Recipe, notes: list[str]) -> None:
    changed = differences(old, new)
    told = {key: f"{key} was {before!r} and is {after!r} now" for key, (before, after) in changed.items()}
    if refused := [text for key, text in told.items() if key not in MAY_CHANGE]:
        raise ConfigError(
            f"{run}: was begun with another recipe: {'; '.join(refused)}; put it back, or choose another folder"
        )
    notes.extend(told.values())


def _refuse_other_schedule(run: Path, old: Recipe, new: Recipe) -> None:
    """A limit may change, but not without a word where the learning rate is laid out over it."""
    limits = _LAID_OUT_OVER.get(old.training.schedule, ())
    moved = [name for name in limits if getattr(old.training, name) != getattr(new.training, name)]
    if moved:
        was, now = (getattr(training, moved[0]) for training in (old.training, new.training))
        raise ConfigError(
            f"{run}: training.{moved[0]} was {was} and is {now} now, and the schedule '{old.training.schedule}' ends "
            "there: the learning rate would jump; put it back, begin in another folder, or go on all the same with "
            "--allow-schedule-change (in Python allow_schedule_change=True)"
        )


def _session(task: Task[Any], recipe: Recipe, saved: Saved | None, allowed: Mapping[str, bool], log: RunLog) -> Session:
    session = Session(task, recipe)
    if recipe.training.follows_clock():
        log.note("this run follows the clock: it cannot be repeated bit for bit")
    if saved is None:
        return session
    trainer = Trainer.read(saved)
    _check_data(task, trainer.data, allowed["data"], log.note)
    _check_files(task, saved)
    here = machine(session.device)
    if trainer.machine != here:
        log.note(f"not bit-exact from here: the run began on {trainer.machine}, this is {here}")
    session.restore(saved)
    return session


def _check_data(task: Task[Any], before: Mapping[str, str], allow: bool, note: Callable[[str], None]) -> None:
    if not (changed := _changed(task, before)):
        return
    told = f"the data has changed since this run began: {', '.join(changed)}"
    if not allow:
        raise DataError(
            f"{told}; put the files back, or go on with --allow-data-change (in Python allow_data_change=True)"
        )
    note(f"{told}; going on all the same")


def _changed(task: Task[Any], before: Mapping[str, str]) -> list[str]:
    now = task.assets.digests
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def _check_files(task: Task[Any], saved: Saved) -> None:
    files = task.assets.files
    for name in sorted(files.keys() | (saved.files.keys() - OWN_FILES)):
        if files.get(name) != saved.files.get(name):
            raise CheckpointError(
                f"{saved.folder / name}: is not what the task makes of its data now; "
                "the model was trained with the file in the checkpoint"
            )
