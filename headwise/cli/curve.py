"""`headwise curve`: scores of runs by length, nesting and place, and how far heads looked over a training."""

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli.tables import draw, tell
from headwise.errors import ConfigError

if TYPE_CHECKING:
    from headwise.explain.curves import Series

app = typer.Typer(help="Scores by length, nesting and place, and what heads did over a training.")

Figure = Annotated[Path | None, typer.Option(help="Draw the curve: a .png, .svg or .pdf file.")]
Output = Annotated[Path | None, typer.Option(help="Write the rows to a CSV file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print a JSON object for each row.")]


@app.command("length")
def length(
    runs: Annotated[list[Path], typer.Argument(help="Run folders: a line each.")],
    metric: Annotated[str | None, typer.Option(help="A score of `evaluate`; default: the first one.")] = None,
    split: Annotated[str, typer.Option(help="Part of the first run's data: test, valid or train.")] = "test",
    data: Annotated[Path | None, typer.Option(help="A file of examples, instead of the first run's own data.")] = None,
    parts: Annotated[int, typer.Option(min=1, help="Ranges of length, each with as many examples.")] = 6,
    by: Annotated[str, typer.Option(help="What is measured of an input: words, or nesting of brackets.")] = "words",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first examples.")] = None,
    figure: Figure = None,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Score runs by how many words their inputs have, or how deeply these are nested, on the same examples."""
    import headwise
    from headwise.errors import unknown
    from headwise.predictors.lengths import SIZES, buckets, by_length

    if by not in SIZES:
        raise ConfigError(f"--by: {unknown('size', by, SIZES)}")
    size, across = SIZES[by]
    sample, ranges, scored = _sample(runs[0], split, data, limit), list[range](), list[tuple[Path, list[Any]]]()
    for run in runs:
        predictor = headwise.load(run)
        ranges = ranges or buckets([size(predictor.text_of(example)) for example in sample], parts)
        scored.append((run, by_length(predictor, sample, ranges, size)))
    rows, name = _rows(scored, metric, "examples")
    tell(rows, as_json=as_json, output=output)
    if figure is not None:
        _draw(rows, "run", "mean", name, across, figure)


@app.command("place")
def place(
    runs: Annotated[list[Path], typer.Argument(help="Run folders of taggers: a line each.")],
    split: Annotated[str, typer.Option(help="Part of the first run's data: test, valid or train.")] = "test",
    data: Annotated[Path | None, typer.Option(help="A file of examples, instead of the first run's own data.")] = None,
    parts: Annotated[int, typer.Option(min=1, help="Ranges of places, each with as many words.")] = 8,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first examples.")] = None,
    figure: Figure = None,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Score runs by where in its sentence a word stands, the first place by itself, on the same examples."""
    import headwise
    from headwise.predictors.lengths import buckets, by_place

    sample, ranges, scored = _sample(runs[0], split, data, limit), list[range](), list[tuple[Path, list[Any]]]()
    for run in runs:
        predictor = headwise.load(run)
        places = [place for row in predictor.right(sample) for place in range(2, len(row) + 1)]
        ranges = ranges or [range(1, 2), *(buckets(places, max(1, parts - 1)) if places else [])]
        scored.append((run, by_place(predictor, sample, ranges)))
    rows, name = _rows(scored, None, "words")
    tell(rows, as_json=as_json, output=output)
    if figure is not None:
        _draw(rows, "run", "mean", name, "place in the sentence", figure)


def _sample(run: Path, split: str, data: Path | None, limit: int | None) -> list[Any]:
    """Examples of a run's own data, or of a file."""
    from headwise import runtime
    from headwise.training.loading import examples

    runtime.apply(fast_products=False)
    files = {} if data is None else {"test": os.path.abspath(data)}
    return list(examples(run, split if data is None else "test", files)[:limit])


def _rows(found: list[tuple[Path, list[Any]]], metric: str | None, counted: str) -> tuple[list[dict[str, Any]], str]:
    """A row for each run and range, and the score that they have."""
    from headwise.predictors.lengths import metric_of

    rows: list[dict[str, Any]] = []
    for run, ranges in found:
        for bucket in ranges:
            metric = metric_of(bucket.scores, metric)
            row = {"run": str(run), "shortest": bucket.shortest, "longest": bucket.longest, counted: bucket.count}
            rows.append(row | {"mean": round(bucket.mean, 2), metric: bucket.scores[metric]})
    return rows, str(metric)


@app.command("heads")
def heads(
    run: Annotated[Path, typer.Argument(help="Run folder, trained with film.every.")],
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="Inputs to look at with every checkpoint that the run keeps, in place of its film."),
    ] = None,
    of: Annotated[str, typer.Option(help="distance, entropy, diagonal, first or redundancy.")] = "distance",
    layer: Annotated[str | None, typer.Option(help="Only layers whose names contain this.")] = None,
    figure: Figure = None,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Follow what each head does over a training, such as how far it looks, in tokens."""
    from headwise.explain.reel import Reel, rows_of

    rows = _of_checkpoints(run, texts, of, layer or "") if texts else rows_of(Reel(run), of, layer or "")
    if not rows:
        raise ConfigError(
            f"--layer '{layer or ''}': no layer of attention has that in its name, or those that have look at another"
            f" sequence; give a layer of self-attention, or another statistic than {of}"
        )
    tell(rows, as_json=as_json, output=output)
    if figure is not None:
        names = _shortened([str(row["head"]) for row in rows])
        short = [{**row, "head": name} for row, name in zip(rows, names, strict=True)]
        _draw(short, "head", "step", of, "step", figure)


def _of_checkpoints(run: Path, texts: list[str], of: str, layer: str) -> list[dict[str, Any]]:
    from headwise import runtime
    from headwise.errors import unknown
    from headwise.explain.heads import STATISTICS
    from headwise.predictors.watched_heads import look_at, statistics_of
    from headwise.training.loading import checkpoint_steps, load_step

    if of not in STATISTICS:
        raise ConfigError(unknown("statistic", of, STATISTICS))
    runtime.apply(fast_products=False)
    rows: list[dict[str, Any]] = []
    for step in checkpoint_steps(run):
        predictor = load_step(run, step)
        statistics = statistics_of([look_at(predictor, predictor.parse(text), None) for text in texts])
        by_layer = {name: table.values[STATISTICS.index(of)] for name, table in statistics.items() if layer in name}
        rows += [
            {"head": f"{name}, head {head}", "step": step, of: float(value)}
            for name, values in by_layer.items()
            for head, value in enumerate(values)
            if math.isfinite(value)
        ]
    return rows


def _shortened(names: list[str]) -> list[str]:
    """The names of heads without the parts that all layers have.

    >>> _shortened(["blocks.0.self, head 1", "blocks.1.self, head 0"])
    ['layer 0, head 1', 'layer 1, head 0']
    """
    layers = [name.rpartition(", ")[0].split(".") for name in names]
    differ = [place for place, parts in enumerate(zip(*layers, strict=False)) if len(set(parts)) > 1]
    if not differ or len(set(map(len, layers))) > 1:
        return names
    shorter = (".".join(layer[place] for place in differ) for layer in layers)
    return [f"layer {layer}, {name.rpartition(', ')[2]}" for layer, name in zip(shorter, names, strict=True)]


def _draw(rows: list[dict[str, Any]], line: str, across: str, down: str, label: str, path: Path) -> None:
    from headwise.explain.curves import Mean, lines

    series: dict[str, list[tuple[float | int | str, Mean]]] = {}
    for row in rows:
        series.setdefault(row[line], []).append((float(row[across]), Mean.of([row[down]])))
    curves: Series = series
    draw(lines(curves, across=label, down=down), path)
