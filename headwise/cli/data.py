"""`headwise data`: what is in a file of sentence pairs."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Look at data.")


@app.callback()
def _group() -> None:
    """Look at data."""


@app.command("report")
def report(
    file: Annotated[Path, typer.Argument(help="TSV or JSON lines of pairs, plain or gzip.")],
    target: Annotated[Path | None, typer.Option(help="The second of two parallel files.")] = None,
    held_out: Annotated[Path | None, typer.Option(help="Another file, to look for overlap and unknown words.")] = None,
    columns: Annotated[tuple[int, int] | None, typer.Option(help="Source and target column of a TSV, from 0.")] = None,
    source_key: Annotated[str | None, typer.Option(help="Source field, or language, of JSON lines.")] = None,
    target_key: Annotated[str | None, typer.Option(help="Target field, or language, of JSON lines.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first pairs.")] = None,
) -> None:
    """Report lengths, vocabulary, duplicates, scripts, faults and padding waste of sentence pairs."""
    from headwise.data.readers import read_pairs
    from headwise.data.report import report as measured

    def read(path: Path, parallel: Path | None) -> list:
        return read_pairs(
            path,
            target_path=parallel,
            columns=columns,
            source_key=source_key,
            target_key=target_key,
            empty="keep",
            limit=limit,
        )

    pairs = read(file, target)
    found = measured(pairs, held_out=read(held_out, None) if held_out else None)
    from headwise.labels import visible

    for line in found.lines():
        typer.echo(visible(line))
