"""`headwise data tokenize`: the text of a recipe as token files."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from headwise.errors import ConfigError
from headwise.files import json_text


def tokenize(
    recipe: Annotated[str, typer.Argument(help="A recipe that learns from plain text: a .toml file or a name.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings such as tokenizer.vocab_size=8000.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default: one for each core.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder to write; default: tokenized/RECIPE in the folder of data.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Turn the text of a recipe into token files, which training maps from the disk instead of reading the text.

    The same command goes on where it was broken off. The files hold what the recipe would make of the text: its
    tokens, and the parts that it holds out.
    """
    from headwise.data.files import data_cache
    from headwise.data.threads import cores
    from headwise.tasks.text import tokenizing
    from headwise.tasks.text.plain import TextConfig
    from headwise.training import recipes

    settings = recipes.read(recipe, overrides or [])
    data = getattr(settings, "data", None)
    if type(data) is not TextConfig:
        raise ConfigError(f"{recipe}: token files are for recipes that learn from windows of plain text")
    folder = output or data_cache() / "tokenized" / Path(recipe).stem
    count = workers or cores()
    tell = _progress if sys.stderr.isatty() else _silent
    index = tokenizing.tokenize(data, settings.tokenizer, folder, count, tell)  # type: ignore[attr-defined]
    if as_json:
        typer.echo(json_text({"folder": str(folder), **index.model_dump(mode="json", exclude_none=True)}))
        return
    for part, entry in index.parts.items():
        # but for what stands before the text
        tokens = sum(shard.tokens for shard in entry.shards) - 1
        files = f"{len(entry.shards):,} file{'s' if len(entry.shards) > 1 else ''}"
        typer.echo(f"{part}: {tokens:,} tokens of {entry.chars:,} characters in {files}")
    # what is trained must be told of the tokenizer as this was
    same = [setting for setting in overrides or [] if not setting.startswith("data.train=")]
    typer.echo(f"next: {shlex.join(['headwise', 'train', recipe, *same, f'data.train={folder}'])}")


def _progress(done: int, total: int) -> None:
    """One line on the terminal, written over and over."""
    end = "\r\x1b[K" if done == total else ""
    typer.echo(f"\r{done / 1e6:,.1f} of {total / 1e6:,.1f} million characters{end}", nl=False, err=True)


def _silent(done: int, total: int) -> None:
    """Nothing where nobody looks."""


COMMANDS = {"data": {"tokenize": tokenize}}
