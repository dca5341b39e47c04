"""`headwise evaluate`: the scores of a run on its own held-out part, or on a file of examples."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli.options import TaskOptions
from headwise.errors import ConfigError, flag
from headwise.files import json_text
from headwise.labels import decimals
from headwise.processes import Processes, process_group, sharing, together

if TYPE_CHECKING:
    from headwise.training.comparison import Baselines


def evaluate(
    context: typer.Context,
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    split: Annotated[str, typer.Option(help="Which part of the run's own data: test, valid or train.")] = "test",
    data: Annotated[Path | None, typer.Option(help="A file of examples, instead of the run's own data.")] = None,
    target_data: Annotated[Path | None, typer.Option(help="The second of two parallel files.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first examples.")] = None,
    against: Annotated[Path | None, typer.Option(help="Another run: how the two differ on the same examples.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Score a run on the held-out part of its own data, or on a file (--data)."""
    import headwise
    from headwise import runtime
    from headwise.training.loading import baselines_of, examples

    of_data, options = TaskOptions.of(context, "data"), TaskOptions.of(context, "evaluate").values
    of_file = [name for name in of_data.values if name.startswith("test_")]
    if of_file and data is None:
        raise ConfigError(f"{flag(of_file[0])} describes a file of examples; name it with --data")
    data_options = dict(of_data.values) if data is None else _own_file(data, target_data, of_data)
    split = split if data is None else "test"
    runtime.apply(fast_products=False)
    with process_group() as processes, sharing(processes):
        sample = processes.once(lambda: examples(run, split, data_options)[:limit])
        predictor = together(processes, lambda: headwise.load(run))
        scores = scores_of(processes, predictor, against, sample, options)
    if not processes.first:
        return
    compared = None if against else baselines_of(run, predictor, sample, scores)
    if as_json:
        typer.echo(json_text({"examples": len(sample), **scores, **baseline_fields(compared)}))
        return
    other = f", and {against}" if against else ""
    show(scores, f"{run} on {len(sample):,} examples of {data or f'its {split} part'}{other}", compared)


def _own_file(data: Path, target_data: Path | None, options: TaskOptions) -> dict[str, object]:
    """The keys of a file that is read as it stands: what the recipe says of its own files is of those alone."""
    from headwise.config import file_mark

    others = {name: None for name, field in options.kind.model_fields.items() if file_mark(field) is None}
    second = None if target_data is None else os.path.abspath(target_data)
    return {**others, "test": os.path.abspath(data), "test_target": second, "format": None, **options.values}


def scores_of(
    processes: Processes, predictor: Any, against: Path | None, sample: Sequence[Any], settings: Mapping[str, Any]
) -> Mapping[str, float | str]:
    """The scores of a run on these examples, or how they differ from those of another run. Raises: ConfigError."""
    import headwise
    from headwise.predictors.intervals import compare_scores

    if against is not None:
        if settings:
            raise ConfigError(f"{flag(next(iter(settings)))} does not combine with --against: remove one")
        return compare_scores(predictor.resampled(sample), headwise.load(against).resampled(sample))
    options = predictor.options(settings) if settings else None
    scores: Mapping[str, float | str] = predictor.evaluate(sample, options=options)
    return scores


def baseline_fields(compared: "Baselines | None") -> dict[str, Any]:
    if compared is None or not compared.baselines:
        return {}
    comparison = compared.comparison
    fields = None if comparison is None else {**asdict(comparison), "text": str(comparison)}
    return {"baselines": compared.scores(), "comparison": fields}


def number(value: float) -> str:
    """A score as it is printed; "-" for that of nothing, such as the words that are new where none is.

    >>> number(12.345), number(0.12345), number(0.99999), number(float("nan"))
    ('12.35', '0.1235', '>0.9999', '-')
    """
    if math.isnan(value):
        return "-"
    return f"{value:.2f}" if abs(value) >= 1 else decimals(value, 4)


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
