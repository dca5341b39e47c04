"""`headwise export`: a run in the format of another program, with a proof that both compute the same."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwise.errors import ConfigError

if TYPE_CHECKING:
    from headwise.export.parity import Parity


def export(
    run: Annotated[Path | None, typer.Argument(help="Run folder.")] = None,
    folder: Annotated[Path | None, typer.Argument(help="Folder to write.")] = None,
    to: Annotated[str | None, typer.Option(help="The format: huggingface or ctranslate2.")] = None,
    quantization: Annotated[
        str | None, typer.Option(help="ctranslate2: int8, int8_float32, int16, float16 ...")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Which part of the run's data both are compared on.")] = None,
    data: Annotated[Path | None, typer.Option(help="A file of examples to compare on instead.")] = None,
    check: Annotated[Path | None, typer.Option(help="Repeat the comparison of this exported folder.")] = None,
) -> None:
    """Write a run for another program; kept only if both sides compute the same (PARITY.md)."""
    from headwise import runtime
    from headwise.export import formats

    runtime.apply(fast_products=False)
    if check is not None:
        if run is not None or to is not None:
            raise ConfigError("--check takes an exported folder alone")
        return _tell(check, formats.check(check))
    if run is None or folder is None or to is None:
        raise ConfigError("name a run, a folder to write and its format: headwise export RUN --to huggingface FOLDER")
    options = {} if quantization is None else {"quantization": quantization}
    files = None if data is None else {"test": str(data.resolve())}
    _tell(folder, formats.export(run, to, folder, split=split, data=files, options=options))


def _tell(folder: Path, parity: "Parity") -> None:
    same = f"{parity.identical} of {parity.compared} outputs identical"
    typer.echo(f"exported: {folder} ({parity.format})")
    typer.echo(
        f"parity:   {same}, log-probabilities within {parity.largest_difference:.2g}; see {folder / 'PARITY.md'}"
    )
