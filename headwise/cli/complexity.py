"""`headwise complexity`: what ways to mix tokens cost as sequences grow longer or wider, counted and measured."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli.tables import draw, tell
from headwise.errors import ConfigError, HeadwiseError

if TYPE_CHECKING:
    from headwise.compare.costs import Growth
    from headwise.compare.subjects import Subject

DEFAULT = ("cnn", "rnn", "scored", "linear")
_UNITS = {
    "operations": (1e-6, "operations, millions"),
    "seconds": (1e3, "CPU time, ms"),
    "bytes": (2.0**-20, "peak memory, MiB"),
}
_ACROSS = {"length": "length, tokens", "width": "width"}


def complexity(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="cnn, causal-cnn, rnn, gru, lstm, attention-layer, plain, or any mechanism, scored too."),
    ] = None,
    over: Annotated[str, typer.Option(help="What grows: length or width.")] = "length",
    first: Annotated[int, typer.Option("--from", min=1, help="The smallest size.")] = 256,
    last: Annotated[int, typer.Option("--to", min=2, help="The largest size.")] = 4096,
    count: Annotated[int, typer.Option("--sizes", min=4, help="How many sizes; eight or more decide.")] = 9,
    fixed: Annotated[int, typer.Option("--fixed", min=1, help="The other size: width, or length.")] = 64,
    backward: Annotated[
        bool, typer.Option("--backward", help="Time and memory of a pass forward and backward.")
    ] = False,
    rounds: Annotated[int, typer.Option(min=1, help="Measurements of time, of which the least counts.")] = 5,
    paths: Annotated[
        bool, typer.Option("--paths", help="Steps that must follow each other, and layers between the ends, instead.")
    ] = False,
    figure: Annotated[Path | None, typer.Option(help="Draw the measurements: a .png, .svg or .pdf file.")] = None,
    output: Annotated[Path | None, typer.Option(help="Write the rows to a CSV file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each row.")] = False,
) -> None:
    """Count operations, measure time and memory on one thread, and fit the power of the size that they grow with."""
    from headwise.compare.costs import growth, sizes
    from headwise.compare.subjects import subject

    if over not in ("length", "width"):
        raise ConfigError(f"--over '{over}': give length or width")
    subjects = [subject(name) for name in dict.fromkeys(names or DEFAULT)]
    if paths:
        if figure is not None:
            raise ConfigError("--figure draws what is measured; leave --paths out")
        tell([_path_row(one) for one in subjects], as_json=as_json, output=output)
        return
    at = sizes(first, last, count)
    measurements: list[Growth] = []
    for one in subjects:
        typer.echo(f"measuring {one.name}", err=True)
        measurements += growth(one, over, at, fixed, backward=backward, rounds=rounds)  # type: ignore[arg-type]
    tell([_row(growth) for growth in measurements], as_json=as_json, output=output)
    if figure is not None:
        _draw(measurements, over, figure)


def _row(growth: "Growth") -> dict[str, Any]:
    factor, unit = _UNITS[growth.quantity]
    row: dict[str, Any] = {"name": growth.subject, "what": unit}
    row |= {str(size): float(f"{factor * value:.4g}") for size, value in zip(growth.at, growth.values, strict=True)}
    try:
        power = growth.exponent
    except ConfigError:
        # memory that a pass does not add grows with no power
        return row | {"power": None, "low": None, "high": None, "theory": growth.theory}
    return row | {"power": power.value, "low": power.low, "high": power.high, "theory": growth.theory}


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


def _draw(measurements: "list[Growth]", over: str, path: Path) -> None:
    from headwise.explain.comparisons import scaling

    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for one in measurements:
        factor, unit = _UNITS[one.quantity]
        points = [(float(size), factor * value) for size, value in zip(one.at, one.values, strict=True) if value > 0]
        if points:
            panels.setdefault(unit, {})[one.subject] = points
    draw(scaling(panels, _ACROSS[over]), path)
