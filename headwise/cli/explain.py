"""`headwise explain`: a picture and a table of where a model looks while it answers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwise.errors import ConfigError

if TYPE_CHECKING:
    from headwise.explain.explanation import Explanation


def explain(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    text: Annotated[str, typer.Argument(help="The input.")],
    target: Annotated[str | None, typer.Option(help="The output to look at; if not given, the model's own.")] = None,
    folder: Annotated[Path, typer.Option(help="The folder to write pictures to.")] = Path("figures"),
    formats: Annotated[str, typer.Option("--format", help="png, svg or pdf; or several, joined by commas.")] = "png",
    layer: Annotated[str | None, typer.Option(help="Layer of the large map, by number from 0 or by name.")] = None,
    heads: Annotated[str | None, typer.Option(help="Its heads, such as 0 or 1,3; otherwise the mean of all.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Also draw each layer in a picture of its own.")] = False,
    top: Annotated[int, typer.Option(min=1, help="How many tokens to list for each token that looks.")] = 3,
    table: Annotated[bool, typer.Option("--table", help="Print only the table; draw nothing.")] = False,
) -> None:
    """Draw on one page where a model looks, and list what each token looks at."""
    import headwise
    from headwise import runtime

    runtime.apply(fast_products=False)
    predictor = headwise.load(run)
    found: Explanation = predictor.explain(predictor.parse(text), target)
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
        raise ConfigError(f"--heads '{text}': give numbers from 0 joined by commas, such as 0,2")
    return tuple(map(int, parts))


def describe(
    found: "Explanation", layer: str | int | None = None, heads: tuple[int, ...] | None = None, top: int = 3
) -> None:
    """Prints the output, the table of one layer, and how far rows are from summing to one."""
    from headwise.labels import visible

    typer.echo(f"{visible(found.source)} → {visible(found.output)}")
    typer.echo(f"\n{found.caption(layer, heads)}: what each token looks at")
    typer.echo(found.table(layer, heads, top=top))
    typer.echo(f"\nrows sum to one within {found.row_error:.0e}\n")
