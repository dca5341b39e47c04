"""`headwise data`: what is in the data files of a recipe, or in one file."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli.output import json_line
from headwise.errors import ConfigError, unknown

if TYPE_CHECKING:
    from headwise.config import Config

app = typer.Typer(help="Inspect data files.")


@app.callback()
def _group() -> None:
    """Inspect data files."""


@app.command("report")
def report(
    file: Annotated[str, typer.Argument(help="A data file, plain or gzip, or a recipe: a .toml file or a name.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings such as data.column=xpos.")] = None,
    kind: Annotated[str, typer.Option(help="Kind of data: auto, pairs, tagged, labelled or text.")] = "auto",
    target_data: Annotated[Path | None, typer.Option(help="The second of two parallel files.")] = None,
    held_out: Annotated[Path | None, typer.Option(help="Held-out pairs; reports what they share with these.")] = None,
    columns: Annotated[tuple[int, int] | None, typer.Option(help="Source and target or label column, from 0.")] = None,
    source_key: Annotated[str | None, typer.Option(help="Source field, or language, of JSON lines.")] = None,
    target_key: Annotated[str | None, typer.Option(help="Target field, or language, of JSON lines.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first examples.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the bad and the odd lines of data files, and describe the rest.

    Bad lines cannot be read: wrong columns or fields, empty sides, bytes that are not UTF-8. Odd ones can be read but
    look wrong: stray quotation marks, unusual length, an unusual length ratio.
    """
    from headwise.data.inspection import inspect
    from headwise.labels import visible

    given: dict[str, Any] = {"columns": columns, "source_key": source_key, "target_key": target_key, "limit": limit}
    if target_data is not None:
        given["train_target"] = os.fspath(target_data)
    given = {name: value for name, value in given.items() if value is not None}
    found = inspect(_data(file, overrides or [], kind, given), None if held_out is None else os.fspath(held_out))
    if as_json:
        typer.echo(json_line({"files": [part.values() for part in found]}))
        return
    for number, part in enumerate(found):
        for line in [""] * (number > 0) + part.lines():
            typer.echo(visible(line))


def _data(file: str, overrides: list[str], kind: str, given: dict[str, Any]) -> "Config":
    """The `[data]` section of a recipe, or one that reads a single file."""
    from headwise.config import build, override
    from headwise.data.inspection import config_type, guess, kinds
    from headwise.training import recipes

    path = Path(file)
    if path.suffix == ".toml" or (not path.exists() and file in recipes.shipped()):
        if given or kind != "auto":
            raise ConfigError(
                "a recipe states how its data is read; give settings such as data.KEY=VALUE instead of options"
            )
        data: Config | None = getattr(recipes.read(file, overrides), "data", None)
        if data is None:
            raise ConfigError(f"{file}: the recipe has no [data] section")
        return data
    if kind != "auto" and kind not in kinds():
        raise ConfigError(unknown("--kind", kind, ["auto", *kinds()]))
    values = override({"data": {"train": file, **given}}, overrides)
    chosen = config_type(guess(file) if kind == "auto" else kind)
    return build(chosen, values["data"], "options")
