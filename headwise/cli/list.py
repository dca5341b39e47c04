"""`headwise list`: the names that recipes and options may use, each with one line; mechanisms with what is known."""

import json
from pathlib import Path
from typing import Annotated

import typer

from headwise.errors import ConfigError, unknown
from headwise.files import json_text

# what is there: made from the code by `make config-docs`, since the code takes seconds to be imported
CATALOGUE = Path(__file__).with_name("list.json")
# what is written after a name; the rest of what is known stands below, where a family is asked for
LINE = "line"
FAMILIES = ("mechanisms", "scores", "normalizers", "masks", "positions", "kernels", "tasks", "recipes")


def show(
    family: Annotated[str | None, typer.Argument(help=f"One of {', '.join(FAMILIES)}; default: all.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List mechanisms, scores, normalizers, masks, positions, kernels, tasks and recipes; with a family, in detail."""
    if family is not None and family not in FAMILIES:
        raise ConfigError(unknown("family", family, FAMILIES))
    catalogue: dict[str, dict[str, dict[str, str]]] = json.loads(CATALOGUE.read_text(encoding="utf-8"))
    families = {name: catalogue[name] for name in ([family] if family else FAMILIES)}
    if as_json:
        typer.echo(json_text(families))
        return
    for name, entries in families.items():
        width = max(map(len, entries), default=0)
        typer.echo(name)
        for entry, facts in entries.items():
            typer.echo(f"  {entry:<{width}}  {facts[LINE]}".rstrip())
            others = [(what, value) for what, value in facts.items() if what != LINE] if family else []
            for what, value in others:
                typer.echo(f"  {'':<{width}}    {what:<8} {value}")
