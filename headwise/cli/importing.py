"""`headwise import`: a folder of Hugging Face transformers becomes a run."""

from pathlib import Path
from typing import Annotated

import typer

from headwise.errors import ConfigError


def show(
    folder: Annotated[Path, typer.Argument(help="Folder with config.json, safetensors and tokenizer.json.")],
    to: Annotated[
        Path | None, typer.Option(help="Run folder to write; default: runs/ and the name of the folder.")
    ] = None,
    task: Annotated[str | None, typer.Option(help="What the model is for, where it fits several tasks.")] = None,
) -> None:
    """Make a run of a model of Hugging Face transformers: predict with it, look at it, train it further."""
    from headwise.training.start import Start

    if not (folder / "config.json").is_file():
        raise ConfigError(
            f"{folder / 'config.json'}: missing; give a folder as `save_pretrained` of transformers writes"
        )
    run = to or Path("runs") / folder.resolve().name
    if run.exists() and (not run.is_dir() or any(run.iterdir())):
        raise ConfigError(f"{run}: is not empty; give another --to")
    start = Start.read(folder, task)
    start.publish(run)
    weights = sum(tensor.numel() for tensor in start.tensors.values())
    typer.echo(f"imported: {run} ({start.recipe.task}, {weights:,} weights, license: {start.origin.license})")
    typer.echo(f"sha256:   {start.origin.sha256}")
    typer.echo(f"next:     headwise predict {run} INPUT")
    typer.echo(f"next:     headwise init {start.recipe.task} --data FILE --start {run}")
