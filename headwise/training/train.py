"""A run from recipe to model: `train`."""

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from headwise import runtime
from headwise.errors import CheckpointError, MachineError
from headwise.labels import visible
from headwise.locks import FolderLock
from headwise.models.summary import parts
from headwise.processes import Processes, process_group, together
from headwise.runs.checkpoints import Checkpoints
from headwise.runs.commits import probe
from headwise.runs.display import Display
from headwise.runs.log import OnEvent, RunLog
from headwise.runs.publish import CONFIG
from headwise.runs.reading import Saved, read_folder
from headwise.runs.trackers import open_trackers
from headwise.tasks import registry
from headwise.tasks.task import Given, Task
from headwise.training import parallel, recipes
from headwise.training.finish import finish, publish_best
from headwise.training.limits import Clock
from headwise.training.loop import Loop
from headwise.training.numerics import precision_notes, settle_precision
from headwise.training.progress import Progress
from headwise.training.randomness import isolated
from headwise.training.recipe import Recipe, as_recipe, differences, flattened, parse_recipe
from headwise.training.resume import (
    Opening,
    Resume,
    changed_files,
    check_data,
    data_digests,
    movable,
    own_files,
    refuse_foreign,
    refuse_other_data,
    restore_own_files,
    start_is_gone,
)
from headwise.training.session import Session, Trainer, machine
from headwise.training.signals import StopSignal
from headwise.training.start import files_of_start
from headwise.training.validation import check_monitor
from headwise.trust import trusting


@dataclass(frozen=True)
class Run:
    """A finished run: its folder, the scores of its model, and how it came about.

    `best` is the step of the model in the folder (the last one of an average); `stopped_because` is max_steps,
    max_epochs, max_cpu_s, max_minutes or patience; `cpu_s` and `minutes` are what it took, earlier parts included.
    `comparison` says in words how the model compares with the best baseline on the validation data.
    """

    folder: Path
    metrics: dict[str, float]
    steps: int
    best: int
    skipped: int
    stopped_because: str
    cpu_s: float = field(compare=False)
    minutes: float = field(compare=False)
    comparison: str | None = None


def train(
    recipe: Recipe | str | os.PathLike[str] | Mapping[str, Any],
    folder: str | os.PathLike[str],
    *,
    resume: Resume = "auto",
    overrides: Iterable[str] = (),
    allow_data_change: bool = False,
    allow_schedule_change: bool = False,
    on_event: OnEvent | None = None,
    trust: bool = False,
) -> Run:
    """Trains a recipe into a run folder, or resumes from the folder's last intact checkpoint.

    The same recipe, data, machine and number of threads give the same weights bit for bit, however often the run was
    stopped and resumed in between (except with the limits `max_cpu_s` and `max_minutes`, which depend on time). A
    finished run is left as it is, to the byte.

    Under a launcher such as torchrun its processes train one run together; each calls this with the same arguments,
    and sees the same run folder.

    Args:
        recipe: a TOML file, the name of a shipped recipe, a mapping of the same form, or the result of `read_recipe`.
        folder: the run folder; created if it does not exist.
        resume: "auto" resumes if there is a checkpoint and starts otherwise; "never" refuses a folder that is not
            empty, "must" one without a checkpoint.
        overrides: `section.key=value` settings on top of the recipe.
        allow_data_change: resume although the data files have changed since the run began.
        allow_schedule_change: resume although a limit has changed that the learning rate schedule depends on.
        on_event: called with every event, in the first process; a dict whose "event" is data, step, validation,
            skipped, checkpoint, average or note.
        trust: run code that the recipe names outside the installed packages, and remember it as trusted until it
            changes.

    Raises:
        Untrusted: the recipe names such code, and it is not trusted yet.
        ConfigError: an invalid recipe, another recipe than the folder's, or a folder that is not a run folder.
        DataError: bad or changed data.
        CheckpointError: no checkpoint in the folder is intact.
        MachineError: the folder cannot be written, the disk is full, memory ran out, or a process is gone.
        Diverged: ten steps in a row without finite numbers.
        RunBusy: another process is writing the folder.
        Stopped: SIGINT or SIGTERM arrived; everything is saved.
    """
    clock = Clock()
    with trusting(trust):
        if isinstance(recipe, (str, os.PathLike)):
            recipe, overrides = recipes.read(os.fspath(recipe), list(overrides)), ()
        parsed, run = as_recipe(recipe, overrides), Path(folder)
    allowed = {"data": allow_data_change, "schedule": allow_schedule_change}
    wrapped = parsed.training.parallel in ("ddp", "fsdp")
    with (
        trusting(trust),
        StopSignal() as stop,
        process_group(parsed.training.device, alone_too=wrapped) as processes,
        isolated(parsed.seed),
    ):
        try:
            return _train(parsed, run, processes, resume, allowed, on_event, stop, clock)
        except RuntimeError as error:
            if (gone := processes.gone(error)) is None:
                raise
            raise MachineError(f"{gone}; {_saved_until(run)}") from error


def _saved_until(run: Path) -> str:
    """For the message of a run that has lost a process."""
    steps = [entry.step for entry in Checkpoints(run).entries()]
    if not steps:
        return "nothing was saved yet: run the same command to begin again"
    return f"everything up to step {steps[0]} is saved: run the same command to resume"


def _finished(recipe: Recipe, run: Path, stop: StopSignal) -> Run | None:
    """The run of this recipe and data, if it has ended and is intact: then its folder is left as it is."""
    checkpoints = Checkpoints(run)
    if (facts := checkpoints.finished()) is None:
        return None
    try:
        published = read_folder(run)
        saved = checkpoints.read(checkpoints.entries()[0])
        old = parse_recipe(published.files.get(CONFIG, b""), str(run / CONFIG))
        data, done = Trainer.read(saved).data, _run_of(run, facts)
    except (CheckpointError, LookupError, TypeError):
        return None
    recipe = settle_precision(recipe, old, lambda _: None)
    if differences(old, recipe).keys() - (movable(old, data) & movable(recipe, data)):
        return None
    task = _prepare(recipe, saved, stop)
    if changed_files(data_digests(task, recipe, data), data, recipe):
        return None
    Display().line(f"{run}: finished before: {facts['reason']} after {facts['step']} steps; there is nothing to do")
    return done


def _run_of(run: Path, facts: Mapping[str, Any]) -> Run:
    return Run(
        folder=run,
        metrics=facts["metrics"],
        steps=facts["step"],
        best=facts["steps"][-1],
        skipped=facts["skipped"],
        stopped_because=facts["reason"],
        cpu_s=facts["cpu_s"],
        minutes=facts["wall_s"] / 60.0,
        comparison=facts.get("comparison"),
    )


def _train(
    recipe: Recipe,
    run: Path,
    processes: Processes,
    resume: Resume,
    allowed: Mapping[str, bool],
    on_event: OnEvent | None,
    stop: StopSignal,
    clock: Clock,
) -> Run:
    with ExitStack() as stack:
        notes: list[str] = []
        opening = Opening(recipe, run, resume, allowed, notes)
        if (done := processes.once(lambda: _claim(opening, stop, stack))) is not None:
            return done
        recipe, saved = opening.shared(processes)
        log = stack.enter_context(closing(together(processes, lambda: _log(run, recipe, processes, notes, on_event))))
        stack.enter_context(runtime.products_as(processes.once(lambda: _float32_products(saved))))
        for note in notes:
            log.note(note)
        task = together(processes, lambda: _prepare(recipe, saved, stop))
        refuse_other_data(task, processes)
        session = _session(task, recipe, processes, saved, allowed, log)
        opening.saved = saved = None
        checkpoints = opening.checkpoints
        if session.progress.step:
            clock.resume(session.progress)
            session.progress = processes.once(lambda: _publish_and_retire(session, checkpoints, log, stop))
        else:
            stack.enter_context(runtime.products_for(session.model))
            _begin(session, log, stop)
        reason = Loop(session, checkpoints, log, stop, clock).run()
        done = _run_of(run, processes.once(lambda: finish(session, checkpoints, log, stop.breakable, reason)))
        cost = f"{done.steps:,} steps, {done.cpu_s:,.0f} CPU s, {done.minutes:,.1f} minutes"
        log.note(f"finished: {reason} after {cost}; the model is in {run}")
        return done


def _claim(opening: Opening, stop: StopSignal, stack: ExitStack) -> Run | None:
    """Locks and reads the run folder; returns the run if it has ended."""
    refuse_foreign(opening.run, opening.resume)
    if (done := _finished(opening.recipe, opening.run, stop)) is not None:
        return done
    probe(opening.run)
    opening.begin(stack.enter_context(FolderLock(opening.run)))
    return None


def _log(run: Path, recipe: Recipe, processes: Processes, notes: list[str], on_event: OnEvent | None) -> RunLog:
    """The log; that of a process other than the first writes and shows nothing."""
    if not processes.first:
        return RunLog(None, Display(hidden=True))
    training = recipe.training
    trackers = open_trackers(run, training.trackers, training.tracker_project, flattened(recipe), notes.append)
    return RunLog(run, Display(every_s=training.print_every_s), listeners=trackers, on_event=on_event)


def _publish_and_retire(session: Session, checkpoints: Checkpoints, log: RunLog, stop: StopSignal) -> Progress:
    """Completes what the end of the earlier part may have left undone; returns the counters of the run."""
    publish_best(session, checkpoints, log, stop.breakable)
    progress = session.progress
    protected = progress.protected(entry.step for entry in checkpoints.entries())
    checkpoints.retire({progress.step, *protected}, log.note)
    return progress


def _begin(session: Session, log: RunLog, stop: StopSignal) -> None:
    """Before the first step of a new run: initialises the model, and logs data, model and settings."""
    model, training = session.model, session.recipe.training
    # they may quote words and tags of the files
    data_notes = [visible(note) for note in (*session.task.assets.notes, *session.begin())]
    log.emit({"event": "data", "step": 0, "notes": data_notes})
    for note in (*data_notes, *precision_notes(model, training.precision), parts(model)):
        log.note(note)
    if session.validates:
        check_monitor(session, stop.breakable)
    elif training.patience or training.average_last:
        log.note("training.patience and training.average_last do nothing: there is no validation data")


def _float32_products(saved: Saved | None) -> str:
    """The precision of float32 products: that of the checkpoint's process, so that a resumed run repeats its bits."""
    before = Trainer.read(saved).machine.get("float32_products") if saved is not None else None
    return str(before or machine(torch.device("cpu"))["float32_products"])


def _prepare(recipe: Recipe, saved: Saved | None, stop: StopSignal) -> Task[Any]:
    kind = registry.task_type(recipe.task)
    with stop.breakable():
        if saved is not None and start_is_gone(recipe):
            # the checkpoint has the files that were made from it
            return kind(recipe, kind.prepare_with(recipe, Given(own_files(saved))))
        if (files := files_of_start(recipe)) is not None:
            return kind(recipe, kind.prepare_with(recipe, Given(files, start=True)))
        return kind(recipe, kind.prepare(recipe))


def _session(
    task: Task[Any], recipe: Recipe, processes: Processes, saved: Saved | None, allowed: Mapping[str, bool], log: RunLog
) -> Session:
    if recipe.training.follows_clock():
        log.note("this run follows the clock: it cannot be repeated bit for bit")
    together(processes, lambda: parallel.kind_of(recipe.training, processes))
    if saved is None:
        return Session(task, recipe, processes)
    trainer = together(processes, lambda: Trainer.read(saved))
    digests, changed = together(processes, lambda: check_data(task, recipe, trainer.data, allowed["data"], log.note))
    task = together(processes, lambda: restore_own_files(task, saved, allowed["data"], log.note))
    session = Session(task, recipe, processes)
    here = session.machine()
    if trainer.machine != here:
        log.note(f"not bit-exact from here: the run began on {trainer.machine}, this is {here}")
    session.restore(saved, digests, next_pass=changed)
    return session
