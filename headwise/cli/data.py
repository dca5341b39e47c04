"""`headwise data`: what is in data files, which public data sets there are, and how to get them."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli import make
from headwise.cli.options import InitCommand, TaskOptions
from headwise.errors import ConfigError, unknown
from headwise.files import json_text
from headwise.tasks.families import commands
from headwise.trust import trusting

if TYPE_CHECKING:
    from headwise.data.inspection import Inspection

app = typer.Typer(help="Inspect, make and fetch data files.")
app.command("make")(make.make)
for _name, _command in commands("data").items():
    app.command(_name)(_command)


@app.command("report", cls=InitCommand)
def report(
    context: typer.Context,
    file: Annotated[str, typer.Argument(help="A data file, plain or gzip, or a recipe: a .toml file or a name.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings such as data.column=xpos.")] = None,
    kind: Annotated[
        str, typer.Option(help="Kind of data: auto, a kind (an unknown one lists all), or my_module:MyTask.")
    ] = "auto",
    target_data: Annotated[Path | None, typer.Option(help="The second of two parallel files.")] = None,
    held_out: Annotated[Path | None, typer.Option(help="Held-out pairs; reports what they share with these.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first examples.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the bad and the odd lines of data files, or examples of image and sound files, and describe the rest.

    Bad lines cannot be read: wrong columns or fields, empty sides, bytes that are not UTF-8. Odd ones can be read but
    look wrong: stray quotation marks, unusual length, an unusual length ratio.
    """
    from headwise.labels import visible

    options = dict(TaskOptions.of(context, "data").values)
    if limit is not None:
        options["limit"] = limit
    if target_data is not None:
        options["train_target"] = os.fspath(target_data)
    inspections = _inspected(file, overrides or [], kind, options, None if held_out is None else os.fspath(held_out))
    if as_json:
        typer.echo(json_text({"files": [part.values() for part in inspections]}))
        return
    for number, part in enumerate(inspections):
        for line in [""] * (number > 0) + part.lines():
            typer.echo(visible(line))


@app.command("list")
def show(as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each.")] = False) -> None:
    """List the public data sets that `headwise data fetch` knows, and whether they are in the data folder."""
    from headwise.data import data_sets
    from headwise.data.files import data_cache

    folder = data_cache()
    if not as_json:
        typer.echo(f"data folder: {folder} (HEADWISE_DATA names another)")
    for name in data_sets.names():
        data = data_sets.find(name)
        state = data_sets.state(data, folder / name)
        if as_json:
            typer.echo(json_text({"name": name, "state": state, **data.model_dump(mode="json")}))
        else:
            typer.echo(f"{name:<27}{state:<9}{data.size_bytes / 2**20:>6.1f} MiB  {data.task:<15}{data.title}")


@app.command("fetch")
def fetch(
    names: Annotated[list[str], typer.Argument(help="Data sets from `headwise data list`.")],
    source: Annotated[Path | None, typer.Option("--from", help="Folder of files downloaded by other means.")] = None,
    folder: Annotated[Path | None, typer.Option("--to", help="Folder of data sets; default: HEADWISE_DATA.")] = None,
) -> None:
    """Download public data sets into the data folder; files that are there and right are left alone.

    Each file is checked against its SHA-256, and is in its place only when it is whole. The licence is shown; whoever
    uses the data is bound by it.
    """
    from headwise.data import data_sets
    from headwise.data.files import data_cache

    requested = {name: data_sets.find(name) for name in names}
    for name, data in requested.items():
        typer.echo(f"{name}: {data.title}")
        typer.echo(f"licence:  {data.licence}{'' if data.licence_url is None else f', {data.licence_url}'}")
        typer.echo(f"citation: {data.citation}")
        typer.echo(f"source:   {data.home}")
        progress = _progress if sys.stderr.isatty() else None
        for path, what in data_sets.fetch(data, (folder or data_cache()) / name, source, progress):
            typer.echo(f"{what}: {path}")


def _progress(done: int, total: int | None) -> None:
    """One line on the terminal, written over and over."""
    size = "" if total is None else f" of {total / 2**20:.1f}"
    end = "\r\x1b[K" if done == total else ""
    typer.echo(f"\r{done / 2**20:.1f}{size} MiB{end}", nl=False, err=True)


def _inspected(
    file: str, overrides: list[str], kind: str, options: dict[str, Any], held_out: str | None
) -> "Sequence[Inspection]":
    from headwise.config import build, override
    from headwise.data.inspection import guess
    from headwise.tasks import registry
    from headwise.training import recipes

    path = Path(file)
    if path.suffix == ".toml" or (not path.exists() and file in recipes.shipped()):
        if options or kind != "auto":
            raise ConfigError("a recipe states how its data is read; give settings, data.KEY=VALUE, instead of options")
        recipe = recipes.read(file, overrides)
        inspect = registry.task_type(recipe.task).inspect
        return inspect(recipe) if held_out is None else inspect(recipe, held_out)
    # a task that is named here is the user's own word
    with trusting():
        kinds = registry.data_kinds(kind)
    if kind != "auto" and kind not in kinds:
        raise ConfigError(unknown("--kind", kind, ["auto", *kinds]))
    values = override({"data": {"train": file, **options}}, overrides)
    chosen = guess(file, kinds.values()) if kind == "auto" else kinds[kind]
    return chosen.inspect(build(chosen.section, values["data"], "options"), held_out)
