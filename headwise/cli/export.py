"""`headwise export`: a run in the format of another program, with a proof that both compute the same."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.errors import ConfigError

if TYPE_CHECKING:
    from headwise.export.parity import Parity


def export(
    run: Annotated[Path | None, typer.Argument(help="Run folder.")] = None,
    folder: Annotated[Path | None, typer.Argument(help="Folder to write.")] = None,
    to: Annotated[str | None, typer.Option(help="The format: huggingface, ctranslate2, onnx or torch.")] = None,
    quantization: Annotated[
        str | None, typer.Option(help="ctranslate2: int8, int8_float32, int16, float16 ...; onnx: int8.")
    ] = None,
    attention: Annotated[
        bool, typer.Option("--attention", help="onnx, torch: give the weights of attention too.")
    ] = False,
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
    options: dict[str, Any] = {} if quantization is None else {"quantization": quantization}
    options |= {"attention": True} if attention else {}
    files = None if data is None else {"test": str(data.resolve())}
    _tell(folder, formats.export(run, to, folder, split=split, data=files, options=options))


def _tell(folder: Path, parity: "Parity") -> None:
    same = f"{parity.identical} of {parity.compared} outputs identical"
    typer.echo(f"exported: {folder} ({parity.format})")
    typer.echo(
        f"parity:   {same}, {parity.compares} within {parity.largest_difference:.2g}; see {folder / 'PARITY.md'}"
    )
