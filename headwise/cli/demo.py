"""`headwise demo`: the whole way on data that ships or is made: train, score, answer, look."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

SENTENCES = ("go .", "i lost .", "he's calm .", "i'm home .")
EXPLAINED = "i'm home ."


def demo(
    task: Annotated[
        str, typer.Argument(help="What to learn; the message for an unknown name lists all.")
    ] = "translate",
    folder: Annotated[
        Path | None, typer.Option("--run-folder", help="Run folder to write; default: runs/demo, or runs/demo-TASK.")
    ] = None,
    run: Annotated[Path | None, typer.Option("--run", hidden=True)] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="A setting such as training.max_steps=9; may be repeated.")
    ] = None,
) -> None:
    """Train on the shipped phrasebook, or on data made for another task, in about a minute; then score and draw."""
    from headwise import runtime

    runtime.apply()
    given = folder or run
    if task == "translate":
        _phrasebook(given or Path("runs/demo"), overrides or [])
    else:
        _made(task, given or Path("runs") / f"demo-{task}", overrides or [])


def _made(task: str, run: Path, overrides: list[str]) -> None:
    """A task on data made beside the run's folder."""
    import headwise
    from headwise.cli.evaluate import show
    from headwise.cli.train import trained
    from headwise.data.demos import make
    from headwise.training import recipes
    from headwise.training.loading import beside, examples

    folder = run.with_name(f"{run.name}-data")
    found, path = make(task, folder)
    typer.echo(f"to learn: {found.shows}; data and recipe are in {folder}")
    trained(recipes.read(str(path), overrides), run)
    predictor: Any = headwise.load(run)
    held_out = examples(run, "test", {})
    scores = predictor.evaluate(held_out)
    show(scores, f"{len(held_out):,} held-out examples", beside(run, predictor, held_out, scores))
    typer.echo()
    _draw(predictor, found.given, run)
    typer.echo(f"next:    headwise predict {run} {shlex.quote(found.given)}")
    typer.echo(f"next:    headwise evaluate {run}")
    typer.echo(f"next:    headwise train {path} seed=1")


def _phrasebook(run: Path, overrides: list[str]) -> None:
    """Translation, on the phrasebook that ships."""
    import headwise
    from headwise.cli.evaluate import show
    from headwise.cli.train import trained
    from headwise.data.corpus import load_corpus
    from headwise.tasks.translation.translator import Translator
    from headwise.training import recipes

    recipe: Any = recipes.read("phrasebook", overrides)
    trained(recipe, run)
    translator = headwise.load(run)
    assert isinstance(translator, Translator), "the phrasebook is translated"
    held_out = load_corpus(recipe.data, recipe.tokenizer.normalize, recipe.tokenizer.lowercase).test
    show(translator.evaluate(held_out), f"{len(held_out)} held-out sentences")
    typer.echo()
    for source, output in zip(SENTENCES, translator.translate(SENTENCES), strict=True):
        typer.echo(f"{source:<12} → {output}")
    typer.echo()
    _draw(translator, EXPLAINED, run)


def _draw(predictor: Any, given: str, run: Path) -> None:
    """Says and draws what the model looks at, and how it was trained."""
    from headwise.cli.explain import describe
    from headwise.explain.canvas import save
    from headwise.explain.curves import training_curve
    from headwise.runs.log import read_metrics

    found = predictor.explain(predictor.parse(given))
    describe(found)
    figures = run / "figures"
    paths = found.write(figures)
    paths.append(save(training_curve(read_metrics(run), title=str(run)), figures / "training.png"))
    typer.echo("figures:")
    for path in paths:
        typer.echo(f"  {path}")
