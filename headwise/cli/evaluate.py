"""`headwise evaluate`: the scores of a run on its own held-out part, or on a file of examples."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli.options import Columns
from headwise.cli.output import json_line
from headwise.errors import ConfigError
from headwise.processes import Processes, joined, sharing, together

if TYPE_CHECKING:
    from headwise.training.comparison import Baselines


def evaluate(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    split: Annotated[str, typer.Option(help="Which part of the run's own data: test, valid or train.")] = "test",
    data: Annotated[Path | None, typer.Option(help="A file of examples, instead of the run's own data.")] = None,
    target_data: Annotated[Path | None, typer.Option(help="The second of two parallel files.")] = None,
    columns: Columns = None,
    kind: Annotated[str | None, typer.Option(help="What --data holds, where a model has several scores.")] = None,
    source_key: Annotated[str | None, typer.Option(help="Source field, or language, of JSON lines.")] = None,
    target_key: Annotated[str | None, typer.Option(help="Target field, or language, of JSON lines.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first examples.")] = None,
    tokenize: Annotated[str | None, typer.Option(help="sacreBLEU's tokenizer, such as zh or char.")] = None,
    against: Annotated[
        Path | None, typer.Option(help="Another run: print the difference of the two on the same examples.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Score a run on the held-out part of its own data, or on a file (--data)."""
    import headwise
    from headwise import runtime
    from headwise.training.loading import baselines_of, examples

    if kind is not None and data is None:
        raise ConfigError("--kind says what a file holds; name it with --data")
    given: dict[str, object] = {"source_key": source_key, "target_key": target_key, "columns": columns}
    if data is None:
        given = {name: value for name, value in given.items() if value is not None}
    else:
        split, given = "test", given | _own_file(data, target_data, kind)
    runtime.apply(fast_products=False)
    with joined() as processes, sharing(processes):
        found = processes.once(lambda: examples(run, split, given)[:limit])
        predictor = together(processes, lambda: headwise.load(run))
        scores = scores_of(processes, predictor, against, found, tokenize)
    if not processes.first:
        return
    compared = None if against else baselines_of(run, predictor, found, scores)
    if as_json:
        typer.echo(json_line({"examples": len(found), **scores, **baseline_fields(compared)}))
        return
    other = f", and {against}" if against else ""
    show(scores, f"{run} on {len(found):,} examples of {data or f'its {split} part'}{other}", compared)


def _own_file(data: Path, target_data: Path | None, kind: str | None) -> dict[str, object]:
    """The keys of a file that is read as it stands: what the recipe says of its own files is of those alone."""
    second = None if target_data is None else os.path.abspath(target_data)
    return {"test": os.path.abspath(data), "test_target": second, "format": None, "test_kind": kind}


def scores_of(
    processes: Processes, predictor: Any, against: Path | None, found: Sequence[Any], tokenize: str | None
) -> Mapping[str, float | str]:
    """The scores of a run on these examples, or how they differ from those of another run. Raises: ConfigError."""
    import headwise
    from headwise.predictors.intervals import compared

    if against is not None:
        if tokenize is not None:
            raise ConfigError("--tokenize means nothing beside --against; leave it out")
        return compared(predictor.resampled(found), headwise.load(against).resampled(found))
    options = None if tokenize is None else predictor.options({"tokenize": tokenize})
    scores: Mapping[str, float | str] = predictor.evaluate(found, options=options)
    return scores


def baseline_fields(compared: "Baselines | None") -> dict[str, Any]:
    """The fields of JSON on baselines; none without any."""
    if compared is None or not compared.baselines:
        return {}
    comparison = compared.comparison
    fields = None if comparison is None else {**asdict(comparison), "text": str(comparison)}
    return {"baselines": compared.scores(), "comparison": fields}


def number(value: float) -> str:
    """A score as it is printed; "-" for that of nothing, such as the words that are new where none is.

    >>> number(12.345), number(0.12345), number(float("nan"))
    ('12.35', '0.1235', '-')
    """
    if math.isnan(value):
        return "-"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.4f}"


def show(scores: Mapping[str, float | str], title: str, compared: "Baselines | None" = None) -> None:
    """Prints scores as a table, those of baselines behind them, texts such as signatures and the comparison below."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from headwise.labels import visible

    typer.echo(visible(title))
    table = Table(show_header=False)
    for name, value in scores.items():
        if not isinstance(value, str):
            table.add_row(Text(name), Text(number(value)))
    for baseline in () if compared is None else compared.baselines:
        for name, value in baseline.scores.items():
            table.add_row(Text(f"{name} of {visible(baseline.name)}"), Text(number(value)))
    console = Console()
    console.print(table)
    for name, value in scores.items():
        if isinstance(value, str):
            console.print(Text(f"{name}: {visible(value)}"), soft_wrap=True)
    if compared is not None:
        lines = [*compared.notes, *([] if compared.comparison is None else [compared.comparison.warning])]
        for line in lines:
            console.print(Text(visible(line)), soft_wrap=True)
