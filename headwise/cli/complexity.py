"""`headwise complexity`: what ways to mix tokens cost as sequences grow longer or wider, counted and measured."""

import shlex
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli.output import opened
from headwise.cli.tables import Rows, draw, tell
from headwise.errors import ConfigError, HeadwiseError
from headwise.files import json_text

if TYPE_CHECKING:
    from headwise.compare.costs import Growth
    from headwise.compare.subjects import Subject

DEFAULT = ("cnn", "rnn", "scored", "linear")
_UNITS = {
    "operations": (1e-6, "operations, millions"),
    "seconds": (1e3, "CPU time, ms"),
    "bytes": (2.0**-20, "peak memory, MiB"),
}
# lines by name, by the words of the axis that they stand over
Panels = dict[str, dict[str, list[tuple[float, float]]]]
_ACROSS = {"length": "length, tokens", "width": "width"}


# of each way in a diagram
_ARC_TOKENS = 9
_PATHS = {"chain": "operations one after another", "path": "layers between the ends"}

Names = Annotated[
    list[str] | None,
    typer.Argument(help="cnn, causal-cnn, rnn, gru, lstm, attention-layer, plain, or any mechanism, scored too."),
]
Backward = Annotated[bool, typer.Option("--backward", help="Time and memory of a pass forward and backward.")]
Paths = Annotated[
    bool, typer.Option("--paths", help="Steps that must follow each other, and layers between the ends, instead.")
]
Report = Annotated[Path | None, typer.Option(help="Folder for results.json and a figure each, paths among them.")]
Table = Annotated[Path | None, typer.Option(help="Add each size to this table, which `headwise advise` reads.")]
Arcs = Annotated[
    Path | None,
    typer.Option(help="Draw which tokens each one depends on, layer by layer, instead: a picture."),
]
Sets = Annotated[
    Path | None,
    typer.Option(help="Draw which layers can be fitted to which, as function sets, instead: a picture."),
]
Threads = Annotated[
    str | None, typer.Option(help="Such as 1,2: wall time of the same work on so many threads, in place of costs.")
]


def complexity(
    names: Names = None,
    over: Annotated[str, typer.Option(help="What grows: length or width.")] = "length",
    first: Annotated[int, typer.Option("--from", min=1, help="The smallest size.")] = 256,
    last: Annotated[int, typer.Option("--to", min=2, help="The largest size.")] = 4096,
    count: Annotated[int, typer.Option("--sizes", min=4, help="How many sizes; eight or more decide.")] = 9,
    fixed: Annotated[int, typer.Option("--fixed", min=1, help="The other size: width, or length.")] = 512,
    backward: Backward = False,
    rounds: Annotated[int, typer.Option(min=1, help="Measurements of time, of which the least counts.")] = 5,
    paths: Paths = False,
    threads: Threads = None,
    table: Table = None,
    arcs: Arcs = None,
    sets: Sets = None,
    figure: Annotated[Path | None, typer.Option(help="Draw the measurements: a .png, .svg or .pdf file.")] = None,
    report: Report = None,
    output: Annotated[Path | None, typer.Option(help="Write the rows to a CSV file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each row.")] = False,
) -> None:
    """Count operations, measure time and memory on one thread, and fit the power of the size that they grow with.

    The power of time is over the sizes at which products of matrices take half of it or more; `left out` names others.
    """
    _check_alone(paths=paths, threads=threads, table=table, report=report, backward=backward, over=over, arcs=arcs)
    if sets is not None:
        return _draw_sets(sets, (names, arcs, paths, threads, table, report), as_json=as_json, output=output)
    subjects = _subjects(names or DEFAULT)
    if arcs is not None:
        return _draw_arcs(subjects, arcs)
    at = [] if paths else _sizes(first, last, count)
    if paths:
        rows, panels = _of_paths(subjects)
    elif threads is not None:
        rows, panels = _of_threads(subjects, at, fixed, _numbers(threads), rounds)
    else:
        rows, panels = _of_costs(subjects, over, at, fixed, backward=backward, rounds=rounds)
    tell(rows, as_json=as_json, output=output)
    if table is not None:
        _add_to_table(table, subjects, at, over, fixed, rounds)
    if figure is not None:
        _draw(panels, "length, tokens" if paths else _ACROSS[over], figure)
    if report is not None:
        _write_report(report, rows, panels, _ACROSS[over], subjects)


def _sizes(first: int, last: int, count: int) -> list[int]:
    from headwise.compare.costs import sizes

    return sizes(first, last, count)


def _subjects(names: Sequence[str]) -> "list[Subject]":
    from headwise.compare.subjects import subject

    return [subject(name) for name in dict.fromkeys(names)]


def _check_alone(
    *,
    paths: bool,
    threads: str | None,
    table: Path | None,
    report: Path | None,
    backward: bool,
    over: str,
    arcs: Path | None,
) -> None:
    """Raises: ConfigError for what cannot grow, and for options that ask for different measurements."""
    if over not in ("length", "width"):
        raise ConfigError(f"--over '{over}': give length or width")
    if arcs is not None and (paths or threads is not None or table is not None or report is not None):
        raise ConfigError("--arcs measures nothing; leave --paths, --threads, --table and --report out")
    if paths and threads is not None:
        raise ConfigError("--paths and --threads measure different things; give one of them")
    if (paths or threads is not None) and (table is not None or report is not None):
        raise ConfigError("--table and --report hold costs; leave --paths and --threads out")
    if table is not None and backward:
        raise ConfigError("the table holds forward passes; leave --backward out")
    if threads is not None and over == "width":
        raise ConfigError("--threads keeps the work the same over lengths; leave --over width out")


def _numbers(text: str) -> list[int]:
    numbers = [int(part) if part.strip().isdigit() else 0 for part in text.split(",")]
    if 1 not in numbers or len(set(numbers)) < 2 or min(numbers) < 1:
        raise ConfigError(f"--threads '{text}': give numbers of threads, 1 among them, such as 1,2")
    return numbers


def _of_costs(
    subjects: "list[Subject]", over: str, at: list[int], fixed: int, *, backward: bool, rounds: int
) -> tuple[Rows, Panels]:
    from headwise.compare.costs import growth

    measurements: list[Growth] = []
    for subject in subjects:
        typer.echo(f"measuring {subject.name}", err=True)
        measurements += growth(subject, over, at, fixed, backward=backward, rounds=rounds)  # type: ignore[arg-type]
    panels: Panels = {}
    for one_growth in measurements:
        factor, unit = _UNITS[one_growth.quantity]
        pairs = zip(one_growth.at, one_growth.values, strict=True)
        if points := [(float(size), factor * value) for size, value in pairs if value > 0]:
            panels.setdefault(unit, {})[one_growth.subject] = points
    return [_row(growth) for growth in measurements], panels


def _row(growth: "Growth") -> dict[str, Any]:
    factor, unit = _UNITS[growth.quantity]
    row: dict[str, Any] = {"name": growth.subject, "what": unit}
    row |= {str(size): float(f"{factor * value:.4g}") for size, value in zip(growth.at, growth.values, strict=True)}
    try:
        power = growth.exponent
    except ConfigError:
        # memory that a pass does not add grows with no power, and time where products dominate at too few sizes
        row |= {"power": None, "low": None, "high": None}
    else:
        row |= {"power": power.value, "low": power.low, "high": power.high}
    return row | {"theory": growth.theory, "fitted": len(growth.fitted), "left out": _left_out(growth)}


def _left_out(growth: "Growth") -> str | None:
    """The sizes at which products take less than half of the time, each with their share; None for other quantities."""
    shares = dict(zip(growth.at, growth.shares, strict=False))
    return ", ".join(f"{size} ({share:.2f})" for size, share in shares.items() if size not in growth.fitted) or None


def _of_threads(
    subjects: "list[Subject]", at: list[int], width: int, threads: list[int], rounds: int
) -> tuple[Rows, Panels]:
    """A row for each subject and number of threads: wall time of the same work, its power, and the gain over one."""
    from headwise.compare.costs import parallel

    rows, panels = [], dict[str, Any]()
    for subject in subjects:
        typer.echo(f"measuring {subject.name}", err=True)
        gains = parallel(subject, at, width, threads, rounds=rounds)
        for number in threads:
            times, power = [1e3 * value for value in gains.seconds[number]], gains.exponent(number)
            row: dict[str, Any] = {"name": subject.name, "threads": number}
            row |= {str(size): float(f"{value:.4g}") for size, value in zip(at, times, strict=True)}
            row |= {"power": power.value, "low": power.low, "high": power.high}
            rows.append(row | {"gain": statistics.median(gains.gain(number))})
            unit = f"wall time of the same work, ms, {number} thread{'s' * (number > 1)}"
            panels.setdefault(unit, {})[subject.name] = [*zip(map(float, at), times, strict=True)]
    return rows, panels


def _of_paths(subjects: "list[Subject]") -> tuple[Rows, Panels]:
    rows = [_path_row(subject) for subject in subjects]
    panels: Panels = {}
    for row in rows:
        for what, unit in _PATHS.items():
            points = [
                (float(key.split()[1]), float(value))
                for key, value in row.items()
                if key.startswith(f"{what} ") and value is not None
            ]
            if points:
                panels.setdefault(unit, {})[row["name"]] = points
    return rows, panels


def _path_row(subject: "Subject") -> dict[str, Any]:
    from headwise.compare.paths import chain, path_length

    row: dict[str, Any] = {"name": subject.name}
    for what, measure, lengths in (("chain", chain, (16, 32, 64)), ("path", path_length, (5, 9, 17, 33))):
        for length in lengths:
            try:
                row[f"{what} {length}"] = measure(subject, length)
            except HeadwiseError:
                row[f"{what} {length}"] = None
    return row


def _draw_arcs(subjects: "list[Subject]", path: Path) -> None:
    """Nine tokens, and as many layers as the last one needs to depend on the first."""
    from headwise.compare.paths import links, path_length
    from headwise.explain.diagrams import arcs

    ways = {
        subject.name: (
            links(subject, _ARC_TOKENS),
            1 if subject.recurrent else path_length(subject, _ARC_TOKENS),
            subject.recurrent,
        )
        for subject in subjects
    }
    draw(arcs(ways), path)


def _draw_sets(path: Path, others: tuple[object, ...], *, as_json: bool, output: Path | None) -> None:
    """Four kinds of layers: a row for each that is fitted, a column for each that is drawn."""
    if any(others):
        raise ConfigError("--sets fits layers of its own and measures no cost; leave names and other measurements out")
    import numpy as np

    from headwise.compare.function_sets import KINDS, contains
    from headwise.explain.figures import page
    from headwise.explain.values import Legend

    lost = contains()
    rows = [{"fitted": outer} | {inner: lost[outer, inner] for inner in KINDS} for outer in KINDS]
    tell(rows, as_json=as_json, output=output)
    values = np.array([[lost[outer, inner] for inner in KINDS] for outer in KINDS])
    legend = Legend("function sets", "layer that is fitted", "layer that is drawn", "share that is not", framed=False)
    title = "0: the functions of the row contain that of the column"
    draw(page(values, list(KINDS), list(KINDS), [values[None]], title=title, legend=legend), path)


def _add_to_table(path: Path, subjects: "list[Subject]", at: list[int], over: str, fixed: int, rounds: int) -> None:
    from headwise.compare.measured import add_to_table, measure

    shapes = [(number, fixed) if over == "length" else (fixed, number) for number in at]
    measured = [measure(subject, *shape, rounds) for subject in subjects for shape in shapes]
    add_to_table(path, measured)
    typer.echo(f"{len(measured)} measurements in {path}", err=True)


def _draw(panels: Panels, across: str, path: Path) -> None:
    from headwise.explain.comparisons import scaling

    draw(scaling(panels, across), path)


def _write_report(folder: Path, rows: Rows, panels: Panels, across: str, subjects: "list[Subject]") -> None:
    path_rows, path_panels = _of_paths(subjects)
    folder.mkdir(parents=True, exist_ok=True)
    figures = [(unit, lines, across) for unit, lines in panels.items()]
    figures += [(unit, lines, "length, tokens") for unit, lines in path_panels.items()]
    files = []
    for unit, lines, axis in figures:
        files.append(f"{unit.partition(',')[0].replace(' ', '-')}.png")
        _draw({unit: lines}, axis, folder / files[-1])
    whole: dict[str, Any] = {"headwise complexity": 1, "command": shlex.join(["headwise", *sys.argv[1:]]), "rows": rows}
    whole["paths"] = path_rows
    whole["figures"] = [
        {"file": file, "caption": f"{unit}, over {axis}", "down": unit, "across": axis, "lines": lines}
        for file, (unit, lines, axis) in zip(files, figures, strict=True)
    ]
    with opened(folder / "results.json") as stream:
        stream.write(json_text(whole) + "\n")
