"""`headwise evaluate`: the scores of a run on a file of sentence pairs."""

import json
from pathlib import Path
from typing import Annotated

import typer


def evaluate(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    data: Annotated[Path, typer.Option(help="TSV or JSON lines of pairs, plain or gzip.")],
    target_data: Annotated[Path | None, typer.Option(help="The second of two parallel files.")] = None,
    columns: Annotated[tuple[int, int] | None, typer.Option(help="Source and target column of a TSV, from 0.")] = None,
    source_key: Annotated[str | None, typer.Option(help="Source field, or language, of JSON lines.")] = None,
    target_key: Annotated[str | None, typer.Option(help="Target field, or language, of JSON lines.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first pairs.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Score translations: BLEU and chrF by sacreBLEU with their signatures, perplexity, token accuracy."""
    import headwise
    from headwise import runtime
    from headwise.data.readers import read_pairs

    runtime.apply(fast_products=False)
    pairs = read_pairs(
        data, target_path=target_data, columns=columns, source_key=source_key, target_key=target_key, limit=limit
    )
    scores = headwise.load(run).evaluate(pairs)
    if as_json:
        typer.echo(json.dumps({"pairs": len(pairs), **scores}, ensure_ascii=False))
        return
    show(scores, f"{run} on {len(pairs):,} pairs of {data}")


def show(scores: dict[str, float | str], title: str) -> None:
    """Prints scores as a table, texts such as signatures below it."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from headwise.labels import visible

    typer.echo(visible(title))
    table = Table(show_header=False)
    for name, value in scores.items():
        if not isinstance(value, str):
            table.add_row(Text(name), Text(f"{value:.2f}" if abs(value) >= 1 else f"{value:.4f}"))
    console = Console()
    console.print(table)
    for name, value in scores.items():
        if isinstance(value, str):
            console.print(Text(f"{name}: {value}"), soft_wrap=True)
