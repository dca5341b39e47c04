"""How measurements are summed up and printed: medians with their range, and medians of ratios within rounds."""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def spread(values: Sequence[float], digits: int = 0) -> str:
    """`median [smallest..largest]`.

    >>> spread([3.0, 1.0, 2.0])
    '2 [1..3]'
    """
    shown = [f"{value:,.{digits}f}" for value in (statistics.median(values), min(values), max(values))]
    return f"{shown[0]} [{shown[1]}..{shown[2]}]"


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Median over rounds of ours divided by theirs.

    >>> ratio([2.0, 6.0], [1.0, 2.0])
    2.5
    """
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table in aligned columns: the first to the left, numbers to the right."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    for row in (header, ["-" * width for width in widths], *rows):
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        print("  ".join([row[0].ljust(widths[0]), *cells[1:]]))
    print(flush=True)


def write_json(path: Path | None, content: Any) -> None:
    """Keeps the figures, if a file is named."""
    if path is not None:
        path.write_text(json.dumps(content, indent=1) + "\n")
