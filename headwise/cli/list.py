"""`headwise list`: the names that recipes and options may use, each with one line."""

from importlib import import_module
from typing import Annotated

import typer

from headwise.errors import ConfigError, unknown

# each of these modules offers `catalogue() -> {name: first line of its documentation}`
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
    family: Annotated[str | None, typer.Argument(help=f"One of {', '.join(FAMILIES)}; all if not given.")] = None,
) -> None:
    """List mechanisms, scores, normalizers, masks, positions, kernels, tasks and recipes."""
    if family is not None and family not in FAMILIES:
        raise ConfigError(unknown("family", family, FAMILIES))
    for name in [family] if family else FAMILIES:
        entries: dict[str, str] = import_module(FAMILIES[name]).catalogue()
        width = max(map(len, entries), default=0)
        typer.echo(name)
        for entry, line in entries.items():
            typer.echo(f"  {entry:<{width}}  {line}".rstrip())
