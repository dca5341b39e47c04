"""`headwise data make`: the files of a problem whose examples are drawn."""

from pathlib import Path
from typing import Annotated, Any

import typer

from headwise.errors import ConfigError
from headwise.trust import trusting


def make(
    problem: Annotated[str, typer.Argument(help="A problem, or my_module:MyTask/NAME; an unknown name lists all.")],
    folder: Annotated[Path | None, typer.Option(help="Folder; default: synthetic/PROBLEM in the data folder.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed draws other examples.")] = 1,
    count: Annotated[int, typer.Option(min=1, help="Examples to train on.")] = 10_000,
    symbols: Annotated[int | None, typer.Option(help="Different symbols, of 26 letters; default: 12.")] = None,
    shortest: Annotated[int | None, typer.Option(min=1, help="Symbols of an input at least.")] = None,
    longest: Annotated[int | None, typer.Option(min=1, help="Symbols at most; twice as many in `longer`.")] = None,
    held_out: Annotated[int | None, typer.Option(min=1, help="Of each other part; default: a tenth.")] = None,
    amount: Annotated[int | None, typer.Option(min=0, help="Places of shift, steps of hops, depth of listops.")] = None,
    side: Annotated[int | None, typer.Option(min=1, help="Height and width of pictures, in pixels.")] = None,
    source: Annotated[
        Path | None, typer.Option(help="Folder of text files, or articles as of WikiText, that passages are cut from.")
    ] = None,
    length: Annotated[int | None, typer.Option(min=1, help="Characters of a passage.")] = None,
    lengths: Annotated[str | None, typer.Option(help="Such as 1,2,4,8: files times-N, inputs N times as long.")] = None,
    tagged: Annotated[bool, typer.Option("--tagged", help="Input and answer in one, for a causal tagger.")] = False,
) -> None:
    """Draw the examples of a problem: train, valid, test, and longer inputs than those of training.

    The files are the same for the same seed and sizes. The recipe of the problem's name trains on them.
    """
    from headwise.data.files import data_cache
    from headwise.tasks import generators
    from headwise.training import recipes

    options: dict[str, Any] = {"symbols": symbols, "shortest": shortest, "longest": longest, "held_out": held_out}
    options |= {"amount": amount, "side": side, "source": source, "length": length, "tagged": tagged or None}
    options |= {"lengths": None if lengths is None else read_lengths(lengths)}
    given = {name: value for name, value in options.items() if value is not None}
    place = folder or data_cache() / "synthetic" / problem.rpartition("/")[2]
    # a task that is named here is the user's own word
    with trusting():
        counts = generators.make(problem, place, seed, count, given)
    for path, number in counts.items():
        typer.echo(f"{path}: {number:,} examples")
    if problem in recipes.shipped() and folder is None:
        typer.echo(f"next: headwise train {problem}")


def read_lengths(text: str) -> tuple[int, ...]:
    """Whole numbers between commas. Raises: ConfigError for what are none.

    >>> read_lengths("1,2,4,8")
    (1, 2, 4, 8)
    """
    try:
        return tuple(map(int, text.split(",")))
    except ValueError:
        raise ConfigError(f"--lengths '{text}': give whole numbers, such as 1,2,4,8") from None
