"""Options that several verbs share, each with its one meaning."""

from typing import Annotated

import typer

Columns = Annotated[
    tuple[int, int] | None,
    typer.Option(metavar="INT INT", help="Source and target or label column, from 0: --columns 0 1."),
]
