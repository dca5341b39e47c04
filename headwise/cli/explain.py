"""`headwise explain`: pictures and a table of where a model looks while it answers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from headwise.explain.explanation import Explanation


def explain(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    text: Annotated[str, typer.Argument(help="The input.")],
    target: Annotated[str | None, typer.Option(help="Output to look at; the model's own if not given.")] = None,
    folder: Annotated[Path, typer.Option(help="Where to write the figures.")] = Path("figures"),
    formats: Annotated[str, typer.Option("--format", help="png, svg, pdf; several joined by commas.")] = "png",
    layer: Annotated[str | None, typer.Option(help="Layer of the alignment, by number or name.")] = None,
    top: Annotated[int, typer.Option(min=1, help="Source tokens to list for each target token.")] = 3,
    table: Annotated[bool, typer.Option("--table", help="Print the table alone and draw nothing.")] = False,
) -> None:
    """Draw the alignment and the attention of every layer, and list what each target token looks at."""
    import headwise
    from headwise import runtime

    runtime.apply(fast_products=False)
    predictor = headwise.load(run)
    found: Explanation = predictor.explain(predictor.parse(text), target)
    chosen = int(layer) if layer is not None and layer.removeprefix("-").isdecimal() else layer
    paths = [] if table else found.write(folder, [kind.strip() for kind in formats.split(",")], chosen)
    describe(found, chosen, top)
    for path in paths:
        typer.echo(str(path))


def describe(found: "Explanation", layer: str | int | None, top: int) -> None:
    """Prints the output, the table of the alignment, and how far rows are from summing to one."""
    from headwise.labels import visible

    typer.echo(f"{visible(found.source)} → {visible(found.output)}")
    if found.cross():
        typer.echo(f"\n{found.layer_name(layer)}, mean of its heads: what each target token looks at")
        typer.echo(found.table(layer, top=top))
    typer.echo(f"\nrows sum to one within {found.row_error:.0e}\n")
