"""`headwise train`: a recipe becomes a run."""

import hashlib
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from headwise.errors import ConfigError, unknown
from headwise.processes import launched, process_group, together

if TYPE_CHECKING:
    from headwise.training.train import Run

# a folder's name has room for so much of the overrides
_LONGEST_NAME = 100


def train(
    recipe: Annotated[str, typer.Argument(help="Recipe file, or a name from `headwise list recipes`.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings such as model.num_heads=8.")] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--run-folder", help="Run folder; default: runs/ and the names of recipe and settings."),
    ] = None,
    resume: Annotated[str, typer.Option(help="auto, never (start a new run) or must (only resume).")] = "auto",
    allow_data_change: Annotated[bool, typer.Option("--allow-data-change", help="Resume with changed data.")] = False,
    allow_schedule_change: Annotated[
        bool, typer.Option("--allow-schedule-change", help="Resume although the end of the schedule has changed.")
    ] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="Number of CPU threads.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show data, model, memory and time.")] = False,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Three steps on some data, then test; keep nothing without --run-folder.")
    ] = False,
) -> None:
    """Train a model from a recipe; the same command resumes an interrupted run."""
    from headwise import runtime
    from headwise.training import recipes
    from headwise.training.train import Resume
    from headwise.training.train import train as run

    where = folder or Path("runs") / folder_name(Path(recipe).stem, overrides or [])
    if dry_run or smoke:
        return _try(recipe, overrides or [], folder, where, threads, dry_run=dry_run)
    if resume not in get_args(Resume):
        raise ConfigError(unknown("--resume", resume, get_args(Resume)))
    with process_group("cpu") as processes:
        config = together(processes, lambda: recipes.read(recipe, overrides or []))
    runtime.apply(threads)
    done = run(
        config,
        where,
        resume=cast(Resume, resume),
        allow_data_change=allow_data_change,
        allow_schedule_change=allow_schedule_change,
    )
    if (place := launched()) is None or place[0] == 0:
        _tell(done)


def _try(
    recipe: str, overrides: list[str], run_folder: Path | None, where: Path, threads: int | None, *, dry_run: bool
) -> None:
    from headwise import runtime
    from headwise.training import recipes
    from headwise.training.smoke import EXAMPLES, shorten, smoke
    from headwise.training.trial import preview

    if (place := launched()) is not None and place[1] > 1:
        alone = ConfigError(f"--{'dry-run' if dry_run else 'smoke'} is for one process; leave the launcher out")
        raise alone.reported_by(place[0] == 0)
    config = recipes.read(recipe, overrides) if dry_run else shorten(recipe, overrides)
    runtime.apply(threads)
    if dry_run:
        for line in preview(config, where):
            typer.echo(line)
        return
    with tempfile.TemporaryDirectory() as folder:
        scores = smoke(config, run_folder or Path(folder) / "run")
    summary = ", ".join(f"{name} {value:.4g}" for name, value in scores.items())
    typer.echo(f"works:   {recipe} (on at most {EXAMPLES} examples after a few steps: {summary})")


def _tell(done: "Run") -> None:
    scores = ", ".join(f"{name} {value:.4g}" for name, value in done.metrics.items())
    typer.echo(f"trained: {done.folder} (step {done.best}{': ' if scores else ''}{scores})")
    if done.comparison is not None:
        typer.echo(f"against: {done.comparison}")
    typer.echo(f"took:    {done.steps:,} steps, {done.cpu_s:,.0f} CPU s, {done.minutes:,.1f} minutes of training")
    for verb, argument in (("predict", " INPUT"), ("evaluate", ""), ("explain", " INPUT")):
        typer.echo(f"next:    headwise {verb} {done.folder}{argument}")


def folder_name(recipe: str, overrides: Iterable[str], *, limits: bool = False) -> str:
    """The run folder's name: the recipe's, and the overrides that make another run of it.

    Limits and whatever else may change while a run goes on stay out of it, so that it can be gone on with, unless
    `limits` asks for them.

    >>> folder_name("phrasebook", ["training.max_steps=900", "model.norm=rms"])
    'phrasebook,model.norm=rms'
    """
    from headwise.training.recipe import MAY_CHANGE

    settings = {key.strip(): value.strip() for key, _, value in (setting.partition("=") for setting in overrides)}
    naming = [f"{key}={value}" for key, value in settings.items() if limits or key not in MAY_CHANGE]
    if not naming:
        return recipe
    full_name = ",".join([recipe, *sorted(naming)])
    name = re.sub(r"[^\w.,=+-]+", "_", full_name)
    if name == full_name and len(name) <= _LONGEST_NAME:
        return name
    # what was cut or replaced must not make two runs one
    return f"{name[:_LONGEST_NAME]},{hashlib.sha256(full_name.encode()).hexdigest()[:8]}"
