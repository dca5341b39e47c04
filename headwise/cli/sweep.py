"""`headwise sweep`: the same recipe with several values of keys, or several recipes, as runs, table and figure."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwise.cli.tables import draw, tell
from headwise.cli.train import folder_name
from headwise.errors import ConfigError

if TYPE_CHECKING:
    from headwise.explain.values import Drawing
    from headwise.training.sweep import Point


def sweep(
    words: Annotated[
        list[str], typer.Argument(help="Recipes, and settings, which may have several values: model.num_heads=1,2,4.")
    ],
    metric: Annotated[str | None, typer.Option(help="A score of `evaluate`; default: the monitored one.")] = None,
    seeds: Annotated[str | None, typer.Option(help="Seeds such as 0,1,2: a run each; default: the recipe's.")] = None,
    split: Annotated[str, typer.Option(help="Part of the data that is scored: test, valid or train.")] = "test",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first examples.")] = None,
    runs: Annotated[Path, typer.Option(help="Folder of the run folders.")] = Path("runs"),
    threads: Annotated[int | None, typer.Option(min=1, help="Number of CPU threads.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw the curve: a .png, .svg or .pdf file.")] = None,
    output: Annotated[Path | None, typer.Option(help="Write the rows to a CSV file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each run.")] = False,
) -> None:
    """Train every run of a sweep that is not there yet, and compare their scores.

    The same command again resumes what was interrupted and trains nothing twice.
    """
    from headwise import runtime
    from headwise.predictors.lengths import metric_of
    from headwise.training.sweep import plan_runs
    from headwise.training.sweep import sweep as sweep_runs

    names, settings = [word for word in words if "=" not in word], [word for word in words if "=" in word]
    if not names:
        raise ConfigError("name a recipe: headwise sweep RECIPE model.num_heads=1,2,4")
    runtime.apply(threads)
    plan = plan_runs(names, settings, read_seeds(seeds), lambda name, keys: runs / folder_name(Path(name).stem, keys))
    points = list(sweep_runs(plan, split, limit))
    chosen = metric_of(
        {name: value for point in points for name, value in point.row.scores.items()}, metric or points[0].row.metric
    )
    rows = [
        {"recipe": point.cell.name, **dict(point.cell.values), "seed": point.cell.recipe.seed}
        | {chosen: point.row.scores.get(chosen, math.nan), "parameters": point.row.parameters, "steps": point.row.steps}
        | {"cpu_s": round(point.row.cpu_s, 1), "run": str(point.cell.folder)}
        for point in points
    ]
    tell(rows, as_json=as_json, output=output)
    if figure is not None:
        draw(_drawn(points, chosen), figure)


def read_seeds(text: str | None) -> list[int | None]:
    if text is None:
        return [None]
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise ConfigError(f"--seeds '{text}': give whole numbers separated by commas, such as 0,1,2")
    return [int(part) for part in parts]


def _drawn(points: "list[Point]", metric: str) -> "Drawing":
    """Over the values of the first swept key a line for each recipe and values of the others; or over the recipes."""
    from headwise.explain.curves import Mean, lines

    across = next((key for key, _ in points[0].cell.values), "recipe")
    table: dict[str, dict[str, list[float]]] = {}
    for point in points:
        cell = point.cell
        line, place = ", ".join((cell.name, *(value for _, value in cell.values[1:]))), dict(cell.values).get(across)
        if place is None:
            line, place = "", cell.name
        table.setdefault(line, {}).setdefault(place, []).append(point.row.scores.get(metric, math.nan))
    series = {name: [(_number(place), Mean.of(values)) for place, values in row.items()] for name, row in table.items()}
    return lines(series, across=across, down=metric)


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
