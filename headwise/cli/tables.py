"""Rows of measurements as a command hands them over: a table on the terminal, CSV, a figure."""

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headwise.cli.output import opened
from headwise.files import json_text

if TYPE_CHECKING:
    from headwise.explain.values import Drawing

Rows = Sequence[Mapping[str, Any]]


def tell(rows: Rows, *, as_json: bool, output: Path | None) -> None:
    """Prints rows of the same keys as a table or as lines of JSON, and writes them to a CSV file if one is named."""
    if output is not None:
        write(rows, output)
    if as_json:
        for row in rows:
            typer.echo(json_text(row))
        return
    names = list(rows[0]) if rows else []
    cells = [names, *([_cell(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(names))]
    for line in cells:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def write(rows: Rows, path: Path) -> None:
    """Writes rows of the same keys to a CSV file."""
    with opened(path) as stream:
        writer = csv.DictWriter(stream, list(rows[0]) if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def draw(figure: "Drawing", path: Path) -> None:
    from headwise.explain.canvas import save

    typer.echo(str(save(figure, path)))


def _cell(value: Any) -> str:
    if not isinstance(value, float):
        return "" if value is None else str(value)
    return f"{value:.4f}" if math.isfinite(value) and abs(value) < 10 else f"{value:.2f}"
