"""`headwise results`: a page of Markdown from run folders, and the records that outlast them."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from headwise.cli.output import opened
from headwise.errors import ConfigError


def results(
    runs: Annotated[list[Path] | None, typer.Argument(help="Run folders; seeds of one recipe become a row.")] = None,
    split: Annotated[str, typer.Option(help="Part of each run's data that is scored: test, valid or train.")] = "test",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first examples.")] = None,
    published: Annotated[Path | None, typer.Option(help="CSV: data, metric, system, published value, source.")] = None,
    records: Annotated[
        Path | None,
        typer.Option(help="JSON file that keeps the rows: those of these runs are put into it, the page has all."),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="File to write; default: standard output.")] = None,
) -> None:
    """Score finished runs and write a page: scores, time, parameters, seeds, beside baselines and published figures."""
    from headwise import runtime
    from headwise.training import ledger
    from headwise.training import results as made

    named = runs or []
    _check(named, records, limit)
    runtime.apply(fast_products=False)
    figures = made.published(published)
    if records is not None:
        # what is wrong with the file is told before runs are scored, which takes minutes
        ledger.read_rows(records)
    new = ledger.distinct((run, ledger.account(run, split, limit)) for run in named)
    if records is None:
        rows = ledger.merge_rows([], new)
        options = "" if split == "test" else f" --split {split}"
        text = made.page(rows, figures, f"headwise results {' '.join(run.name for run in named)}{options}")
    else:
        command = f"headwise results --records {shlex.quote(records.as_posix())}"
        text = made.page(ledger.add_rows(records, new), figures, command, from_records=True)
    with opened(output) as stream:
        stream.write(text)


def _check(named: list[Path], records: Path | None, limit: int | None) -> None:
    """Raises: ConfigError for nothing to tell, and for rows of parts of the data among those that are kept."""
    if records is None and not named:
        raise ConfigError("name run folders, or the file of their records: --records FILE")
    if records is not None and not named and not records.exists():
        raise ConfigError(f"{records}: there is no such file; name run folders whose rows it shall keep")
    if records is not None and limit is not None:
        raise ConfigError("--records keeps scores of whole parts; leave --limit out")
