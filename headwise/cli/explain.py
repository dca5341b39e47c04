"""`headwise explain`: a picture and a table of where a model looks while it answers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwise.errors import ConfigError

if TYPE_CHECKING:
    from headwise.explain.explanation import Explained


def explain(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    text: Annotated[str, typer.Argument(help="The input.")],
    target: Annotated[str | None, typer.Option(help="The output to look at; default: the output of the model.")] = None,
    folder: Annotated[Path, typer.Option(help="Folder for the pictures.")] = Path("figures"),
    formats: Annotated[str, typer.Option("--format", help="png, svg or pdf, or several separated by commas.")] = "png",
    layer: Annotated[
        str | None, typer.Option(help="Layer of the large map: a number from 0, or a name; default: the clearest.")
    ] = None,
    heads: Annotated[
        str | None, typer.Option(help="Heads of that layer, such as 0 or 1,3; default: the mean of all.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Also draw a picture of each layer.")] = False,
    top: Annotated[int, typer.Option(min=1, help="Number of attended tokens to list for each token.")] = 3,
    table: Annotated[bool, typer.Option("--table", help="Print only the table; draw nothing.")] = False,
) -> None:
    """Draw what a model attends to, on one page, and list it for each token."""
    import headwise
    from headwise import runtime

    runtime.apply(fast_products=False)
    predictor = headwise.load(run)
    found: Explained = predictor.explain(predictor.parse(text), target)
    chosen, only = numbered(layer), heads_of(heads)
    kinds = [kind.strip() for kind in formats.split(",")]
    paths = [] if table else found.write(folder, kinds, chosen, only, every=every)
    describe(found, chosen, only, top)
    for path in paths:
        typer.echo(str(path))


def numbered(layer: str | None) -> str | int | None:
    """A layer as the command line names it: a number, or a name."""
    return int(layer) if layer is not None and layer.removeprefix("-").isdecimal() else layer


def heads_of(text: str | None) -> tuple[int, ...] | None:
    """Numbers of heads, joined by commas; None: all. Raises: ConfigError for anything else."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise ConfigError(f"--heads '{text}': give numbers from 0, separated by commas, such as 0,2")
    return tuple(map(int, parts))


def describe(
    found: "Explained", layer: str | int | None = None, heads: tuple[int, ...] | None = None, top: int = 3
) -> None:
    """Prints the input, the output, and what there is to say of how one led to the other."""
    from headwise.labels import visible

    typer.echo(f"{visible(found.source)} → {visible(found.output)}\n")
    for line in found.lines(layer, heads, top=top):
        typer.echo(line)
    typer.echo("")
