"""`headwise data make`: the files of a problem whose examples are drawn."""

from pathlib import Path
from typing import Annotated

import typer

from headwise.trust import trusting


def make(
    problem: Annotated[str, typer.Argument(help="A problem, or my_module:MyTask/NAME; an unknown name lists all.")],
    folder: Annotated[Path | None, typer.Option(help="Folder; default: synthetic/PROBLEM in the data folder.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed draws other examples.")] = 1,
    count: Annotated[int, typer.Option(min=1, help="Examples to train on.")] = 10_000,
    symbols: Annotated[int, typer.Option(help="Different symbols, where they are letters: 2 to 26.")] = 12,
    shortest: Annotated[int | None, typer.Option(min=1, help="Symbols of an input at least.")] = None,
    longest: Annotated[int | None, typer.Option(min=1, help="Symbols at most; twice as many in `longer`.")] = None,
    held_out: Annotated[int | None, typer.Option(min=1, help="Of each other part; default: a tenth.")] = None,
    amount: Annotated[int | None, typer.Option(min=0, help="Places of shift, steps of hops, letters of match.")] = None,
) -> None:
    """Draw the examples of a problem: train, valid, test, and longer inputs than those of training.

    The files are the same for the same seed and sizes. The recipe of the problem's name trains on them.
    """
    from headwise.data.files import data_cache
    from headwise.data.synthetic import Sizes
    from headwise.tasks import generators
    from headwise.training import recipes

    sizes = Sizes(count, symbols, shortest, longest, held_out, amount)
    place = folder or data_cache() / "synthetic" / problem.rpartition("/")[2]
    # a task that is named here is the user's own word
    with trusting():
        counts = generators.make(problem, place, seed, sizes)
    for path, number in counts.items():
        typer.echo(f"{path}: {number:,} examples")
    if problem in recipes.shipped() and folder is None:
        typer.echo(f"next: headwise train {problem}")
