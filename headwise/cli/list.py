"""`headwise list`: the names that recipes and options may use, each with one line; mechanisms with what is known."""

from importlib import import_module
from typing import Annotated

import typer

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
    family: Annotated[str | None, typer.Argument(help=f"One of {', '.join(FAMILIES)}; all if not given.")] = None,
) -> None:
    """List mechanisms, scores, normalizers, masks, positions, kernels, tasks and recipes; one family in full."""
    if family is not None and family not in FAMILIES:
        raise ConfigError(unknown("family", family, FAMILIES))
    for name in [family] if family else FAMILIES:
        module = import_module(FAMILIES[name])
        entries: dict[str, str] = module.catalogue()
        details: dict[str, list[tuple[str, str]]] = module.details() if family and hasattr(module, "details") else {}
        width = max(map(len, entries), default=0)
        typer.echo(name)
        for entry, line in entries.items():
            typer.echo(f"  {entry:<{width}}  {line}".rstrip())
            for what, value in details.get(entry, []):
                typer.echo(f"  {'':<{width}}    {what:<8} {value}")
