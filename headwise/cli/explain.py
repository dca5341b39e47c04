"""`headwise explain`: pictures and a table of where a model looks while it translates a sentence."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwise.errors import ConfigError

if TYPE_CHECKING:
    from headwise.explain.translation import Explanation


def explain(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    sentence: Annotated[str, typer.Argument(help="What to translate.")],
    output_text: Annotated[str | None, typer.Option(help="Translation to look at; the model's own if absent.")] = None,
    folder: Annotated[Path, typer.Option(help="Where to write the figures.")] = Path("figures"),
    formats: Annotated[str, typer.Option("--format", help="png, svg, pdf; several joined by commas.")] = "png",
    layer: Annotated[str | None, typer.Option(help="Layer of the alignment, by number or name.")] = None,
    top: Annotated[int, typer.Option(min=1, help="Source tokens to list for each target token.")] = 3,
) -> None:
    """Draw the alignment and the attention of every layer, and list what each target token looks at."""
    import headwise
    from headwise import runtime
    from headwise.explain.translation import explain_translation

    if not sentence.strip():
        raise ConfigError("the sentence is empty; there is nothing to look at")
    runtime.apply(fast_products=False)
    found = explain_translation(headwise.load(run), sentence, output_text)
    chosen = int(layer) if layer is not None and layer.removeprefix("-").isdecimal() else layer
    paths = found.write(folder, [kind.strip() for kind in formats.split(",")], chosen)
    describe(found, chosen, top)
    for path in paths:
        typer.echo(str(path))


def describe(found: "Explanation", layer: str | int | None, top: int) -> None:
    """Prints the translation, the table of the alignment, and how far rows are from summing to one."""
    from headwise.labels import visible

    typer.echo(f"{visible(found.source)} → {visible(found.output)}")
    if found.cross():
        typer.echo(f"\n{found.layer_name(layer)}, mean of its heads: what each target token looks at")
        typer.echo(found.table(layer, top=top))
    typer.echo(f"\nrows sum to one within {found.row_error:.0e}\n")
