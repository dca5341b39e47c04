"""`headwise list`: the names that recipes and options may use, each with one line; mechanisms with what is known."""

from importlib import import_module
from typing import Annotated

import typer

from headwise.cli.output import json_line
from headwise.errors import ConfigError, unknown

# each of these modules offers `catalogue() -> {name: first line of its documentation}`, and those that know more
# `details() -> {name: [(what, value)]}`
FAMILIES = {
    "mechanisms": "headwise.attention.mechanisms",
    "scores": "headwise.attention.scores",
    "normalizers": "headwise.attention.normalizers",
    "masks": "headwise.attention.masks",
    "positions": "headwise.positions",
    "kernels": "headwise.attention.kernels",
    "tasks": "headwise.tasks.registry",
    "recipes": "headwise.training.recipes",
}


def show(
    family: Annotated[str | None, typer.Argument(help=f"One of {', '.join(FAMILIES)}; default: all.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List mechanisms, scores, normalizers, masks, positions, kernels, tasks and recipes; with a family, in detail."""
    if family is not None and family not in FAMILIES:
        raise ConfigError(unknown("family", family, FAMILIES))
    chosen = [family] if family else list(FAMILIES)
    found = {name: _entries(name, in_full=family is not None or as_json) for name in chosen}
    if as_json:
        values = {
            name: {entry: {"line": line, **dict(details)} for entry, (line, details) in entries.items()}
            for name, entries in found.items()
        }
        typer.echo(json_line(values))
        return
    for name, entries in found.items():
        width = max(map(len, entries), default=0)
        typer.echo(name)
        for entry, (line, details) in entries.items():
            typer.echo(f"  {entry:<{width}}  {line}".rstrip())
            for what, value in details:
                typer.echo(f"  {'':<{width}}    {what:<8} {value}")


def _entries(family: str, in_full: bool) -> dict[str, tuple[str, list[tuple[str, str]]]]:
    """The names of a family, each with its line and, if asked and known, more about it."""
    module = import_module(FAMILIES[family])
    lines: dict[str, str] = module.catalogue()
    details: dict[str, list[tuple[str, str]]] = module.details() if in_full and hasattr(module, "details") else {}
    return {name: (line, details.get(name, [])) for name, line in lines.items()}
