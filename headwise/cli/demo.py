"""`headwise demo`: the whole way on data that ships or is made: train, score, answer, look."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.errors import ConfigError, unknown
from headwise.trust import trusting

if TYPE_CHECKING:
    from headwise.tasks.demo import Demo


def demo(
    task: Annotated[
        str | None,
        typer.Argument(help="What to learn; default: the phrasebook; the message for an unknown name lists all."),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--run-folder", help="Run folder to write; default: runs/demo, or runs/demo-TASK.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="A setting such as training.max_steps=9; may be repeated.")
    ] = None,
) -> None:
    """Train on the shipped phrasebook, or on data made for another task, in about a minute; then score and draw."""
    import headwise
    from headwise import runtime
    from headwise.cli.evaluate import show
    from headwise.training import recipes
    from headwise.training.loading import baselines_of, examples
    from headwise.training.train import train

    runtime.apply()
    name, small = _demo(task)
    place = folder or Path("runs") / ("demo" if small.first else f"demo-{name}")
    small, recipe = small.make(name, place.with_name(f"{place.name}-data"))
    typer.echo(f"to learn: {small.shows}; the recipe is {recipe}")
    train(recipes.read(recipe, overrides or []), place)
    predictor: Any = headwise.load(place)
    held_out = examples(place, "test", {})
    scores = predictor.evaluate(held_out)
    show(scores, f"{len(held_out):,} held-out examples", baselines_of(place, predictor, held_out, scores))
    typer.echo()
    items = [predictor.parse(text) for text in (*small.others, small.given)]
    for text, item, output in zip((*small.others, small.given), items, predictor.predict(items), strict=True):
        typer.echo(f"{text:<12} → {predictor.write(item, output, 'text')[0]}")
    typer.echo()
    _draw(predictor, items[-1], place)
    typer.echo(f"next:    headwise predict {place} {shlex.quote(small.given)}")
    typer.echo(f"next:    headwise evaluate {place}")
    typer.echo(f"next:    headwise train {recipe} seed=1")


def _demo(task: str | None) -> "tuple[str, Demo]":
    """The demo of a task, by its name; the first one where none is named. Raises: ConfigError for a task without."""
    from headwise.tasks import registry

    # a task that is named here is the user's own word
    with trusting():
        kinds = [registry.task_type(name) for name in registry.task_names()]
        demos = {kind.name: kind.demo for kind in kinds if kind.demo is not None}
        if task is not None and ":" in task and (outside_demo := registry.task_type(task).demo) is not None:
            demos[task] = outside_demo
    if task is None:
        return next((name, demo) for name, demo in demos.items() if demo.first)
    if task not in demos:
        raise ConfigError(unknown("demo", task, demos))
    return task, demos[task]


def _draw(predictor: Any, item: Any, run: Path) -> None:
    """Says and draws what the model looks at, and how it was trained."""
    from headwise.cli.explain import describe
    from headwise.explain.canvas import save
    from headwise.explain.curves import training_curve
    from headwise.runs.log import read_metrics

    explanation = predictor.explain(item)
    describe(explanation)
    figures = run / "figures"
    paths = explanation.write(figures)
    paths.append(save(training_curve(read_metrics(run), title=str(run)), figures / "training.png"))
    typer.echo("figures:")
    for path in paths:
        typer.echo(f"  {path}")
