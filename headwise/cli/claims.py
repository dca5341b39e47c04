"""`headwise claims`: sentences about attention as experiments: what they say, run, and what came out."""

import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from headwise.cli.compare import run_folder
from headwise.cli.output import opened
from headwise.cli.tables import draw
from headwise.errors import ConfigError, unknown
from headwise.files import json_text

app = typer.Typer(help="Sentences of the literature about attention as experiments that anybody can run.")

Records = Annotated[Path, typer.Option(help="The file that keeps what runs found: a line of JSON each.")]
_FILE = Path("claims.jsonl")


@app.command("list")
def show_all(
    records: Records = _FILE,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each claim.")] = False,
) -> None:
    """Every claim, and the verdict of its newest run."""
    from headwise.compare.claim import newest, read_records
    from headwise.compare.claims import CLAIMS

    latest = newest(read_records(records), CLAIMS.values())
    width = max(map(len, CLAIMS))
    for name, claim in CLAIMS.items():
        record = latest.get(name)
        judged = f"{record.verdict} ({record.variant}, {record.ran})" if record is not None else "not run"
        if as_json:
            typer.echo(json_text({"name": name, "sentence": claim.sentence, "verdict": record and record.verdict}))
        else:
            typer.echo(f"{name:<{width}}  {claim.sentence}\n{'':<{width}}  {judged}")


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(help="A claim of `headwise claims list`.")],
    records: Records = _FILE,
    figure: Annotated[Path | None, typer.Option(help="Draw its conditions: a .png, .svg or .pdf file.")] = None,
) -> None:
    """A claim: its source, the rule of its verdict, and what its newest run found."""
    from headwise.compare.claim import earlier, newest, read_records
    from headwise.compare.claims import CLAIMS
    from headwise.compare.report import draw as picture_of
    from headwise.compare.report import section

    claim, kept = CLAIMS[_known(name)], read_records(records)
    record = newest(kept, [claim]).get(name)
    typer.echo(section(claim, record, None, earlier(kept, [claim]).get(name, ())))
    if figure is None:
        return
    if record is None:
        raise ConfigError(f"--figure {figure}: '{name}' has no record in {records}; run it first")
    draw(picture_of(claim, record), figure)


@app.command("run")
def run(
    names: Annotated[list[str], typer.Argument(help="Claims of `headwise claims list`, or all.")],
    full: Annotated[
        bool, typer.Option("--full", help="The whole experiment; else one of at most two minutes.")
    ] = False,
    records: Records = _FILE,
    runs: Annotated[
        Path, typer.Option(help="Folder of the run folders and drawn data of claims that train; they are kept.")
    ] = Path("runs/claims"),
    jobs: Annotated[int, typer.Option(min=1, help="Runs that train at once, each in a process of its own.")] = 1,
) -> None:
    """Run the experiments of claims, judge each by its rule, and keep what was found.

    What is trained stays in --runs: the same command again goes on where it was broken off.
    """
    from headwise.compare.bench import Bench
    from headwise.compare.claim import add_record, read_records, run_claim
    from headwise.compare.claims import CLAIMS

    chosen = list(CLAIMS) if names == ["all"] else [_known(name) for name in names]
    # what is wrong with the file is said before minutes are spent
    read_records(records)
    for name in chosen:
        bench = Bench(full, runs, partial(run_folder, runs), jobs, lambda text: typer.echo(text, err=True))
        record = run_claim(CLAIMS[name], full=full, bench=bench)
        add_record(records, record)
        typer.echo(f"{name}: {record.verdict}. {record.why} ({record.cpu_s:g} CPU s)")


@app.command("page")
def page(
    records: Records = _FILE,
    output: Annotated[Path | None, typer.Option(help="File to write; default: standard output.")] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Draw claims that do not hold everywhere into this folder, and link them.")
    ] = None,
) -> None:
    """All claims with their verdicts and numbers as a page of Markdown."""
    from headwise.compare.claim import earlier, newest, read_records
    from headwise.compare.claims import CLAIMS
    from headwise.compare.report import draw as picture_of
    from headwise.compare.report import page as text
    from headwise.compare.report import picture_names
    from headwise.explain.canvas import save

    history = read_records(records)
    latest = newest(history, CLAIMS.values())
    links = None
    if figures is not None:
        links = Path(os.path.relpath(figures, output.parent if output is not None else None)).as_posix()
        for name, file in picture_names(latest).items():
            save(picture_of(CLAIMS[name], latest[name]), figures / file)
    with opened(output) as stream:
        stream.write(text(CLAIMS.values(), latest, links, earlier(history, CLAIMS.values())))


def _known(name: str) -> str:
    from headwise.compare.claims import CLAIMS

    if name not in CLAIMS:
        raise ConfigError(unknown("claim", name, CLAIMS))
    return name
