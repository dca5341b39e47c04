"""`headwise train`: a recipe becomes a run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from headwise.errors import ConfigError, unknown

if TYPE_CHECKING:
    from headwise.training.recipe import Recipe
    from headwise.training.train import Run


def train(
    recipe: Annotated[str, typer.Argument(help="Recipe file, or a name from `headwise list recipes`.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings such as model.num_heads=8.")] = None,
    run: Annotated[Path | None, typer.Option(help="Run folder; runs/NAME of the recipe if not given.")] = None,
    resume: Annotated[str, typer.Option(help="auto, never (a new run) or must (go on).")] = "auto",
    allow_data_change: Annotated[
        bool, typer.Option("--allow-data-change", help="Go on although the data files have changed.")
    ] = False,
    allow_schedule_change: Annotated[
        bool, typer.Option("--allow-schedule-change", help="Go on although the schedule ends elsewhere now.")
    ] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="Processor threads.")] = None,
) -> None:
    """Train a model as a recipe says; run the same command again to continue an interrupted run."""
    from headwise import runtime
    from headwise.training import recipes

    wanted = recipes.read(recipe, overrides or [])
    runtime.apply(threads)
    done = trained(wanted, run or Path("runs") / Path(recipe).stem, resume, allow_data_change, allow_schedule_change)
    scores = ", ".join(f"{name} {value:.4g}" for name, value in done.metrics.items())
    typer.echo(f"trained: {done.folder} (step {done.best}{': ' if scores else ''}{scores})")
    for verb, rest in (("predict", ' "..."'), ("evaluate", ""), ("explain", ' "..."')):
        typer.echo(f"next:    headwise {verb} {done.folder}{rest}")


def trained(
    recipe: "Recipe",
    folder: Path,
    resume: str = "auto",
    allow_data_change: bool = False,
    allow_schedule_change: bool = False,
) -> "Run":
    """Trains into the folder."""
    from headwise.training.train import Resume
    from headwise.training.train import train as run

    if resume not in get_args(Resume):
        raise ConfigError(unknown("--resume", resume, get_args(Resume)))
    return run(
        recipe,
        folder,
        resume=cast(Resume, resume),
        allow_data_change=allow_data_change,
        allow_schedule_change=allow_schedule_change,
    )
