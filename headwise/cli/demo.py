"""`headwise demo`: the whole way on the phrasebook that ships: train, score, translate, look."""

from pathlib import Path
from typing import Annotated, Any

import typer

SENTENCES = ("go .", "i lost .", "he's calm .", "i'm home .")
EXPLAINED = "i'm home ."


def demo(run: Annotated[Path, typer.Option(help="Run folder to write.")] = Path("runs/demo")) -> None:
    """Train on the shipped phrasebook (about a minute on two free cores), then score, translate and draw."""
    import headwise
    from headwise import runtime
    from headwise.cli.evaluate import show
    from headwise.cli.explain import describe
    from headwise.cli.train import trained
    from headwise.data.corpus import load_corpus
    from headwise.explain.canvas import save
    from headwise.explain.curves import training_curve
    from headwise.predictors.translator import Translator
    from headwise.runs.log import read_metrics
    from headwise.training import recipes

    runtime.apply()
    recipe: Any = recipes.read("phrasebook", [])
    trained(recipe, run)
    translator = headwise.load(run)
    assert isinstance(translator, Translator), "the phrasebook is translated"
    held_out = load_corpus(recipe.data, recipe.tokenizer.normalize, recipe.tokenizer.lowercase).test
    show(translator.evaluate(held_out), f"{len(held_out)} held-out sentences")
    typer.echo()
    for source, output in zip(SENTENCES, translator.translate(SENTENCES), strict=True):
        typer.echo(f"{source:<12} → {output}")
    typer.echo()
    found = translator.explain(EXPLAINED)
    describe(found)
    figures = run / "figures"
    paths = found.write(figures)
    paths.append(save(training_curve(read_metrics(run), title=str(run)), figures / "training.png"))
    typer.echo("figures:")
    for path in paths:
        typer.echo(f"  {path}")
