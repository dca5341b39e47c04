"""`headwise config`: every key that a recipe of a task may have."""

from typing import Annotated

import typer

from headwise.files import json_text
from headwise.trust import trusting


def config(
    task: Annotated[str, typer.Argument(help="A name from `headwise list tasks`, or module:Class for your own.")],
    section: Annotated[str | None, typer.Option(help="Only this section, such as training.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List every key of a recipe with its type, default and meaning."""
    from headwise.errors import ConfigError, unknown
    from headwise.labels import visible
    from headwise.training.reference import entries, lines

    # a task that is named here is the user's own word
    with trusting():
        keys = entries(task)
    if section is not None:
        sections = {entry.section for entry in keys if entry.section}
        if section not in sections:
            raise ConfigError(unknown("section", section, sections))
        keys = [entry for entry in keys if entry.section == section]
    if as_json:
        values = {"task": task, "keys": [entry._asdict() for entry in keys]}
        typer.echo(json_text(values))
        return
    for line in "\n".join(lines(keys)).strip("\n").split("\n"):
        typer.echo(visible(line))
