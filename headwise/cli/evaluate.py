"""`headwise evaluate`: the scores of a run on its own held-out part, or on a file of examples."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli.options import TaskOptions
from headwise.cli.predict import for_search, report_search
from headwise.errors import ConfigError, flag
from headwise.files import json_text
from headwise.labels import decimals
from headwise.processes import process_group, sharing, together

if TYPE_CHECKING:
    from headwise.predictors.rows import Rows
    from headwise.training.comparison import Baselines


Against = Annotated[
    Path | None, typer.Option(help="Another run, or such a file: how the two differ on the same examples.")
]


def evaluate(
    context: typer.Context,
    run: Annotated[Path, typer.Argument(help="Run folder, or a file that --rows wrote.")],
    split: Annotated[str, typer.Option(help="Which part of the run's own data: test, valid or train.")] = "test",
    data: Annotated[Path | None, typer.Option(help="A file of examples, instead of the run's own data.")] = None,
    target_data: Annotated[Path | None, typer.Option(help="The second of two parallel files.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first examples.")] = None,
    rows: Annotated[Path | None, typer.Option(help="Write what was counted of each example to this file.")] = None,
    against: Against = None,
    metric: Annotated[str | None, typer.Option(help="The score that --against compares; default: the first.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Score a run on the held-out part of its own data, or on a file (--data)."""
    import headwise
    from headwise import runtime
    from headwise.predictors.intervals import compare_scores
    from headwise.training.loading import baselines_of, examples

    _require_rival(metric, against)
    if run.is_file():
        return _of_files(run, against, metric, as_json=as_json)
    options, data_options = TaskOptions.of(context, "evaluate").values, _data_options(context, data, target_data)
    runtime.apply(fast_products=False)
    with process_group() as processes, sharing(processes):
        sample = processes.once(lambda: examples(run, "test" if data else split, data_options)[:limit])
        predictor = together(processes, lambda: for_search(headwise.load(run)))
        scores, each = scores_of(predictor, sample, options, by_rows=bool(rows or against))
        if against and each:
            rival_rows = rows_of(against, lambda rival: scores_of(rival, sample, options, by_rows=True)[1])
            scores = compare_scores(each.resampled(metric), rival_rows.resampled(metric))
    if not processes.first:
        return
    report_search(predictor)
    if rows and each:
        each.save(rows)
    compared = None if against else baselines_of(run, predictor, sample, scores)
    if as_json:
        typer.echo(json_text({"examples": len(sample), **scores, **baseline_fields(compared)}))
    else:
        title = f"{run} on {len(sample):,} examples of {data or f'its {split} part'}"
        show(scores, title + (f", and {against}" if against else ""), compared)


def _require_rival(metric: str | None, against: Path | None) -> None:
    if metric is not None and against is None:
        raise ConfigError("--metric names the score that two runs are compared by; name the other with --against")


def _data_options(context: typer.Context, data: Path | None, target_data: Path | None) -> dict[str, object]:
    """Keys of the data in place of those of the run. Raises: ConfigError for those of a file that is not named."""
    of_data = TaskOptions.of(context, "data")
    of_file = [name for name in of_data.values if name.startswith("test_")]
    if of_file and data is None:
        raise ConfigError(f"{flag(of_file[0])} describes a file of examples; name it with --data")
    return dict(of_data.values) if data is None else _own_file(data, target_data, of_data)


def _own_file(data: Path, target_data: Path | None, options: TaskOptions) -> dict[str, object]:
    """The keys of a file that is read as it stands: what the recipe says of its own files is of those alone."""
    from headwise.config import file_mark

    others = {name: None for name, field in options.kind.model_fields.items() if file_mark(field) is None}
    second = None if target_data is None else os.path.abspath(target_data)
    return {**others, "test": os.path.abspath(data), "test_target": second, "format": None, **options.values}


def scores_of(
    predictor: Any, sample: Sequence[Any], settings: Mapping[str, Any], *, by_rows: bool
) -> tuple[Mapping[str, float | str], "Rows | None"]:
    """The scores of a run on these examples, and if asked for a row for each. Raises: ConfigError."""
    options = predictor.options(settings) if settings else None
    if by_rows:
        scored: tuple[Mapping[str, float | str], Rows] = predictor.evaluate_each(sample, options=options)
        return scored
    return predictor.evaluate(sample, options=options), None


def rows_of(source: Path, scored: "Callable[[Any], Rows | None]") -> "Rows":
    """The rows of a file, or of a run, whose predictor is scored."""
    import headwise
    from headwise.predictors.rows import Rows

    if source.is_file():
        return Rows.read(source)
    rows = scored(headwise.load(source))
    assert rows is not None, "they were asked for"
    return rows


def _of_files(rows: Path, against: Path | None, metric: str | None, *, as_json: bool) -> None:
    """Scores that follow from files of rows: of one, or how it differs from another. Raises: ConfigError, DataError."""
    from headwise.predictors.intervals import compare_scores
    from headwise.predictors.rows import Rows

    own = Rows.read(rows)
    if against is None:
        scores: Mapping[str, float | str] = {name: own.value(name) for name in own.metrics}
    elif not against.is_file():
        raise ConfigError(f"--against {against}: name a file of rows too, or a run folder in place of {rows}")
    else:
        scores = compare_scores(own.resampled(metric), Rows.read(against).resampled(metric))
    if as_json:
        typer.echo(json_text({"examples": len(own), **scores}))
        return
    show(scores, f"{rows}: {len(own):,} examples" + (f", and {against}" if against else ""))


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
