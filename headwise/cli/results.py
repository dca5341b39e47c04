"""`headwise results`: a page of Markdown from run folders."""

from pathlib import Path
from typing import Annotated

import typer

from headwise.cli.output import opened


def results(
    runs: Annotated[list[Path], typer.Argument(help="Run folders; those of one recipe and other seeds become a row.")],
    split: Annotated[str, typer.Option(help="Part of each run's data that is scored: test, valid or train.")] = "test",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first examples.")] = None,
    published: Annotated[
        Path | None, typer.Option(help="CSV of published figures: data, metric, system, value, source.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="File to write; default: standard output.")] = None,
) -> None:
    """Score finished runs and write a page: scores, time, parameters, seeds, beside baselines and published figures."""
    from headwise import runtime
    from headwise.training import results as made
    from headwise.training.accounts import account

    runtime.apply(fast_products=False)
    figures = made.published(published)
    options = "" if split == "test" else f" --split {split}"
    command = f"headwise results {' '.join(run.name for run in runs)}{options}"
    text = made.page([account(run, split, limit) for run in runs], figures, command)
    with opened(output) as stream:
        stream.write(text)
